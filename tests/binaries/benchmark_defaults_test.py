"""`benchmark_defaults`: each claim can fail, and it runs on tables of its own."""

import csv
import os

import pytest

from binaries import benchmark_defaults
from binaries import default_settings
from tff_pers.evaluation import comparison
from tff_pers.evaluation import results

_METRICS = ('round', 'accuracy_mean', 'visits_idle', 'cluster_accuracy')
# Round, accuracy, share of idle visits, accuracy of the clusters.
_ROUNDS = ((1, 0.5, 1.0, 0.2), (2, 0.6, 0.5, 0.9), (3, 0.7, 0.9, 0.96))


def _write(folder, algo, accuracy, seeds=(3,), rounds=_ROUNDS, new=None):
  """Writes runs as `compare` does; `new` is the accuracy of new clients."""
  for seed in seeds:
    run = folder / algo / f'seed{seed}'
    results.write_config(str(run), dict(variant=algo, flags={}))
    results.write_csv(
        str(run / 'metrics.csv'), _METRICS,
        [dict(zip(_METRICS, row)) for row in rounds],
    )
    (run / 'train.log').write_text('round 1 of financial data\n')
    results.write_clients(str(run), [
        dict(client=k, seen=seen, num_train=1, num_test=1, accuracy=value,
             loss=0.0)
        for k, (seen, value) in enumerate([(1, accuracy), (0, new or 0.0)])
    ])
  with open(folder / 'runs.csv', 'a', newline='', encoding='utf-8') as file:
    writer = csv.writer(file)
    if not file.tell():
      writer.writerow(comparison.RUN_COLUMNS)
    writer.writerows(
        [algo, seed, accuracy, accuracy, 0.1, 0.1] for seed in seeds
    )


def _held(name, folder):
  """Returns whether each claim holds, in order."""
  return [
      row['holds'] == 'yes'
      for row in benchmark_defaults.claims(name, str(folder))
  ]


# perm, local_only, fedavg; then whether it is near local_only, near fedavg.
@pytest.mark.parametrize('name, accuracies, holds', [
    ('rotated', (0.79, 0.80, 0.80), (True, True)),
    ('rotated', (0.78, 0.80, 0.70), (False, True)),
    ('rotated', (0.78, 0.70, 0.80), (True, False)),
    ('dirichlet_raw', (0.78, 0.70, 0.80), (True, True)),
    ('label_shift', (0.89, 0.80, 0.20), (False, True)),
    ('label_shift', (0.91, 0.80, 0.20), (True, True)),
    ('label_shift_raw', (0.87, 0.80, 0.20), (True, True)),
    ('synthetic_groups', (0.81, 0.80, 0.20), (False, True)),
])
def test_accuracies(tmp_path, name, accuracies, holds):
  for algo, value in zip(('perm', 'local_only', 'fedavg'), accuracies):
    _write(tmp_path, algo, value)
  assert _held(name, tmp_path) == [*holds, True, True]


@pytest.mark.parametrize('rounds, log, holds', [
    (_ROUNDS, '', (True, True)),
    (((1, 'nan', 1.0, 0.2), *_ROUNDS[1:]), '', (False, True)),
    (_ROUNDS, 'round 1  loss nan\n', (False, True)),
    # Idle after the first visits; before them all are.
    ((*_ROUNDS, (4, 0.7, 1.0, 0.9)), '', (True, False)),
    ((_ROUNDS[0],), '', (True, False)),  # No visits at all.
])
def test_rounds(tmp_path, rounds, log, holds):
  _write(tmp_path, 'perm', 0.9, seeds=(3, 4), rounds=_ROUNDS)
  for algo in ('local_only', 'fedavg'):
    _write(tmp_path, algo, 0.5)
  _write(tmp_path, 'perm', 0.9, seeds=(5,), rounds=rounds)
  with open(tmp_path / 'perm' / 'seed5' / 'train.log', 'a') as file:
    file.write(log)
  assert _held('iid', tmp_path) == [True, True, *holds]


@pytest.mark.parametrize('new, holds', [(0.871, True), (0.869, False)])
def test_new_clients(tmp_path, new, holds):
  """The mean over seeds is within .03, though one seed is not."""
  _write(tmp_path, 'perm', 0.9, seeds=(1, 2), new=new + 0.02)
  _write(tmp_path, 'perm', 0.9, seeds=(3,), new=new - 0.04)
  row = benchmark_defaults.claims('new_clients', str(tmp_path))[-1]
  assert row['holds'] == ('yes' if holds else 'no')
  assert row['seeds'] == '2 of 3'


@pytest.mark.parametrize('cluster, oracle, holds', [
    (0.96, 0.92, (True, True)), (0.94, 0.92, (True, False)),
    (0.96, 0.93, (False, True)),
])
def test_many_clients(tmp_path, cluster, oracle, holds):
  _write(
      tmp_path, 'perm', 0.905, rounds=(*_ROUNDS, (4, 0.9, 0.0, cluster))
  )
  _write(tmp_path, 'oracle_groups', oracle)
  assert _held('many_clients', tmp_path) == list(holds)


@pytest.mark.parametrize('worst, holds', [(0.81, True), (0.75, False)])
def test_every_seed_counts_for_floral(tmp_path, worst, holds):
  """The mean does not make up for a seed in which a cluster is missed."""
  _write(tmp_path, 'floral', 0.95, seeds=range(10, 19))
  _write(tmp_path, 'floral', worst, seeds=(19,))
  assert _held('floral_label_shift', tmp_path) == [holds]


def test_runs_a_setting_and_says_what_holds(tmp_path, monkeypatch, capsys):
  """On a table that it makes, and again: finished runs are not repeated."""
  tumours = default_settings.SETTINGS['tumours']
  monkeypatch.setitem(
      default_settings.SETTINGS, 'tumours', tumours._replace(
          flags=dict(tumours.flags, seeds='0', rounds=1, algos='fedavg'),
          claims=(default_settings.Claim('fedavg<=1'),),
      ),
  )
  argv = ['', '--settings=tumours', f'--output_dir={tmp_path}']
  assert benchmark_defaults.main(argv) == 1  # PERM had no visit.
  page = (tmp_path / 'defaults.md').read_text()
  assert 'fedavg<=1' in page and '0 of 0' in page
  capsys.readouterr()
  monkeypatch.setitem(
      default_settings.SETTINGS, 'tumours',
      default_settings.SETTINGS['tumours']._replace(visits=False),
  )
  assert benchmark_defaults.main(argv) == 0
  assert 'finished' in capsys.readouterr().out


@pytest.mark.parametrize('argv, sentence', [
    (['--settings=digit'], '`--settings` must be of femnist'),
    (['--settings=femnist'], '`--data_dir` must be the folder with the files'),
    (['--seeds=3'], '--seeds'),
])
def test_wrong_flags_are_a_sentence(tmp_path, capsys, argv, sentence):
  assert benchmark_defaults.main(
      ['', *argv, f'--output_dir={tmp_path / "none"}']
  ) == 2
  assert sentence in capsys.readouterr().err
  assert not os.path.exists(tmp_path / 'none')
