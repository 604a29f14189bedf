"""Usage of programs: resuming, needs, help; more in `wrong_inputs.txt`."""

import importlib
import os

import pytest

from binaries import compare
from binaries import plot
from binaries import train
from tff_pers.config import hyperparameters
from tff_pers.config import methods
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import methods_and_tasks
from tff_pers.runtime import errors

TINY = ['--num_clients=4', '--partition=iid', '--train_fraction=0.1']


def _stderr_sentence(capsys):
  lines = capsys.readouterr().err.strip().splitlines()
  assert len(lines) == 1, lines
  return lines[0]


def test_a_folder_that_holds_another_run_needs_resume(tmp_path, capsys):
  argv = [
      'train', '--algo=local_only', '--task=synthetic_groups', '--rounds=1',
      '--strategy=loop', f'--output_dir={tmp_path}',
  ]
  assert train.main(argv) == 0
  written = sorted(os.listdir(tmp_path))
  metrics = (tmp_path / 'metrics.csv').read_bytes()
  capsys.readouterr()
  assert train.main([*argv, '--seed=1']) == 2
  assert 'must not hold another run' in _stderr_sentence(capsys)
  assert train.main(argv[:-2] + argv[-1:]) == 2  # A flag fewer.
  # The same command resumes it, here without any round left.
  assert train.main(argv) == 0
  assert sorted(os.listdir(tmp_path)) == written
  assert (tmp_path / 'metrics.csv').read_bytes() == metrics


@pytest.mark.parametrize('make, sentence', [
    (lambda path: path.write_text('{"a": 3}'), 'must hold the choices'),
    (lambda path: path.mkdir(), 'must be a file that stores choices'),
])
def test_a_bad_file_of_the_runtime_is_named(make, sentence, tmp_path, capsys):
  """A file, not a flag."""
  path = tmp_path / 'runtime.json'
  make(path)
  argv = ['train', '--algo=fedavg', *TINY, f'--output_dir={tmp_path}']
  assert train.main(argv) == 2
  assert f'train: `{path}` {sentence}' in _stderr_sentence(capsys)
  assert os.listdir(tmp_path) == ['runtime.json']


def _add_method(monkeypatch, name, **fields):
  # pylint: disable=protected-access
  monkeypatch.setitem(
      methods._METHODS._entries, name,
      methods.Method(name, hyperparameters.LocalTraining, build=None, **fields),
  )


@pytest.mark.parametrize(
    'need, argv, sentence',
    [
        ('groups', ['--partition=dirichlet'], 'know the true group of every'),
        ('full_participation', ['--clients_per_round=2'], 'rounds with all'),
    ],
)
def test_a_method_refuses_a_task_without_its_needs(
    need, argv, sentence, tmp_path, capsys, monkeypatch
):
  _add_method(monkeypatch, 'needy', needs={need: lambda unused_hp: True})
  folder = tmp_path / 'run'
  argv = ['train', '--algo=needy', *argv, f'--output_dir={folder}']
  assert train.main(argv) == 2
  error = _stderr_sentence(capsys)
  assert '`--algo` needy needs' in error and sentence in error
  assert error.endswith(f' Tip: {methods.NEEDS[need].tip}.')
  assert not folder.exists()


@pytest.mark.parametrize('program', [train, compare, plot])
def test_help_explains(program, capsys):
  assert program.main(['program', '--help']) == 0
  text = capsys.readouterr().out
  if program is not plot:
    for word in ('fedavg', 'digits', '--clients_per_round', '--algo'):
      assert word in text
    assert '--fedavg_learning_rate' not in text
    assert '\n'.join(methods_and_tasks.matrix()) in text


def test_help_shows_when_a_flag_acts(capsys):
  assert train.main(['train', '--help', '--algo=perm']) == 0
  text = ' '.join(capsys.readouterr().out.split())
  assert 'an integer >= 0; default: 10; only with variant=single_loop.' in text
  assert '--apfl_local_steps' not in text


def _local_steps(algo, **options):
  """Returns (local_steps, batch_size) of a variant of IFCA on digits."""
  given = dict(algo=algo, num_clients=4, partition='iid')
  table = flags.all_flags(flags.own_flag('algo', '', 'Variant.'))
  flag = experiment.build(
      {**given, **options.pop('given', {})}, table, **options
  ).flag
  return flag('ifca_local_steps'), flag('ifca_batch_size')


def test_settings_of_the_task_without_effect_are_dropped():
  assert _local_steps('ifca') == (10, 10)
  assert _local_steps('ifca[average=gradient]') == (20, 20)


def test_flags_of_a_comparison_are_for_the_variants_where_they_act():
  given = dict(ifca_local_steps=3)
  for algo, expected in (
      ('ifca', (3, 10)), ('ifca[average=gradient]', (20, 20))
  ):
    found = _local_steps(algo, given=given, brackets_win=True)
    assert found == expected
  with pytest.raises(flags.UsageError, match='`--ifca_local_steps` must be l'):
    _local_steps('ifca[average=gradient,local_steps=3]', brackets_win=True)


def test_a_computation_that_fails_is_one_sentence(capsys):
  def fails(argv):
    raise errors.ComputationError(f'The computation `{argv[1]}` failed: why.')

  assert flags.run('evaluate', fails, ['evaluate', 'next']) == 1
  assert capsys.readouterr().err == (
      'evaluate: The computation `next` failed: why.\n'
  )


def test_relative_paths_start_where_bazel_run_was_called(monkeypatch, tmp_path):
  monkeypatch.setenv('BUILD_WORKING_DIRECTORY', str(tmp_path))
  assert flags.resolve_path('runs/a') == str(tmp_path / 'runs' / 'a')
  assert flags.resolve_path('/runs/a') == '/runs/a'


def _interrupted(*_):
  raise KeyboardInterrupt


@pytest.mark.parametrize('program, resumes', [
    ('train', True), ('compare', True), ('benchmark_defaults', True),
    ('benchmark_robustness', True), ('benchmark_memory', False),
    ('evaluate', False),
])
def test_only_what_resumes_says_so_when_it_is_interrupted(
    program, resumes, monkeypatch, capsys
):
  main = importlib.import_module(f'binaries.{program}').main
  monkeypatch.setattr(main, '_body', _interrupted)
  assert main(['']) == 130
  assert ('rerun the same command to resume' in capsys.readouterr().err
          ) == resumes
