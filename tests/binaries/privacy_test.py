"""`train` with differential privacy: epsilon in files and said at the end."""

import pytest

from binaries import train
from tests import csv_rows
from tests.data import text_sources
from tff_pers.analysis import privacy

_TINY = [
    'train', '--algo=ditto', '--num_clients=6', '--clients_per_round=3',
    '--partition=iid', '--train_fraction=0.05', '--eval_every=1',
    '--dp_noise_multiplier=2',
]


def test_epsilon_grows_and_is_said_with_what_it_covers(tmp_path, capsys):
  argv = [*_TINY, '--dp_clip=0.5', f'--output_dir={tmp_path}/run']
  assert train.main([*argv, '--rounds=2']) == 0
  rows = csv_rows.read(tmp_path / 'run' / 'metrics.csv')
  found = [float(row['epsilon']) for row in rows]
  # One that is adapted is a metric.
  assert not any('clip' in column for column in rows[0])
  promised = privacy.Guarantee(2.0, 6, 3, 6 ** -1.1)
  assert found == pytest.approx([promised.epsilon(1), promised.epsilon(2)])
  said = capsys.readouterr().out
  assert f'epsilon = {promised.epsilon(2):.4g} at delta' in said
  assert 'not metrics, not what clients keep' in said
  # A promise holds for all rounds of a run.
  assert train.main([*argv, '--rounds=3', '--dp_clip=1', '--resume']) == 2
  assert '`--dp_clip` must be 0.5' in capsys.readouterr().err


def test_statistics_of_all_clients_are_refused(tmp_path, capsys):
  path = tmp_path / 'mine.csv'
  rows = [f'{c},{r % 2},{r},{c}' for c in range(6) for r in range(6)]
  path.write_text('client,y,a,b\n' + '\n'.join(rows) + '\n')
  argv = ['train', '--algo=fedavg', '--task=csv', f'--data_dir={path}',
          '--rounds=1', '--dp_noise_multiplier=2', f'--output_dir={tmp_path}/r']
  assert train.main(argv) == 2
  assert 'where statistics of all clients scale' in capsys.readouterr().err


def test_a_counted_vocabulary_is_refused(tmp_path, capsys):
  text_sources.questions(tmp_path)
  argv = ['train', '--algo=fedavg', '--task=stackoverflow_tags',
          f'--data_dir={tmp_path}', '--dp_noise_multiplier=2']
  assert train.main(argv) == 2
  assert 'a counted vocabulary' in capsys.readouterr().err


def test_a_fork_has_cohorts_of_the_same_size(tmp_path, capsys):
  run = [*_TINY, '--rounds=1', f'--output_dir={tmp_path}/run']
  assert train.main(run) == 0
  assert 'ditto: 3 of 6 clients have not trained' in capsys.readouterr().out
  fork = ['train', f'--fork={tmp_path}/run', f'--output_dir={tmp_path}/fork',
          '--rounds=2', '--clients_per_round=2']
  assert train.main(fork) == 2
  assert '`--clients_per_round` must be 3' in capsys.readouterr().err
