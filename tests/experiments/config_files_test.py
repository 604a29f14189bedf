"""`--config`: flags from a YAML file, or from the config.json of a run."""

import json

import pytest

from tff_pers.experiments import config_files
from tff_pers.experiments import flags

_TABLE = flags.all_flags(flags.own_flag('algo', '', 'Method.'))


def _parse(path, *argv):
  return flags.parse(['train', f'--config={path}', *argv], _TABLE)


def test_a_file_of_flags_is_as_typed(tmp_path):
  path = tmp_path / 'run.yaml'
  path.write_text(
      '# A comment.\n'
      'algo: perm[lambda=5]\n'
      'rounds: 60\n'
      'fedavg_learning_rate: 1e-3\n'
      'deterministic: no\n'
      'workers: 1:30\n'  # 90 to YAML.
      'data_dir: "here"\n'
  )
  typed = flags.parse(
      ['train', '--algo=perm[lambda=5]', '--rounds=60', '--nodeterministic',
       '--fedavg_learning_rate=1e-3', '--workers=1:30', '--data_dir=here'],
      _TABLE,
  )
  assert _parse(path) == typed
  assert typed['workers'] == '1:30' and typed['deterministic'] is False
  path.write_text('rounds: auto')
  assert _parse(path) == {'rounds': 'auto'}


def test_the_command_line_goes_before(tmp_path):
  path = tmp_path / 'run.yaml'
  path.write_text('rounds: 60\nseed: 3\n')
  assert _parse(path, '--rounds=7') == {'rounds': 7, 'seed': 3}


def test_config_of_a_run_gives_what_it_was_started_with(tmp_path):
  path = tmp_path / 'config.json'
  given = dict(algo='floral[adaptor=full]', rounds=3, resume=False)
  path.write_text(json.dumps(dict(
      variant='fedavg', flags=dict(rounds=3, seed=7), given=given
  ), indent=2))
  assert _parse(path) == given


@pytest.mark.parametrize('text, line', [
    ('rounds: 3\n\nseed: 2', 3), ('{rounds: 3,\n seed: 2}', 2),
])
def test_entries_know_their_line(tmp_path, text, line):
  path = tmp_path / 'run.yaml'
  path.write_text(text)
  assert config_files.read(str(path))['seed'] == ('2', line)
