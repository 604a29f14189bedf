"""`robustness`: a few rounds of rules against attacks."""

import numpy as np
import pytest

from binaries import robustness
from binaries import train
from tests import csv_rows

from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.experiments import robustness_table

_read = csv_rows.read

pytestmark = pytest.mark.usefixtures('no_plots')

TINY = ['--num_clients=5', '--num_byzantine=2', '--rounds=3']


def _run(folder, *argv):
  return robustness.main(['robustness', *argv, f'--output_dir={folder}'])


@pytest.fixture(scope='module', name='table')
def _table(tmp_path_factory):
  """The folder of a table of 2 rules, 2 attacks and 2 seeds."""
  folder = tmp_path_factory.mktemp('table')
  assert _run(
      folder, *TINY, '--rules=mean,median', '--attacks=ipm,none', '--seeds=0,1'
  ) == 0
  return folder


def test_a_row_per_cell(table):
  rows = _read(table / 'robustness.csv')
  assert list(rows[0]) == [
      'task', 'algo', 'rule', 'attack', 'num_byzantine', 'seed', 'final'
  ]
  assert [(r['rule'], r['attack'], r['seed']) for r in rows] == [
      (rule, attack, seed) for rule in ('mean', 'median')
      for attack in ('ipm', 'none') for seed in '01'
  ]
  assert {row['num_byzantine'] for row in rows} == {'2'}
  final = {
      (r['rule'], r['attack'], r['seed']): float(r['final']) for r in rows
  }
  # -10 times the mean of 5 honest, by 2 of 7: away from the optimum.
  for seed in '01':
    assert final['mean', 'ipm', seed] > 1.5 * final['mean', 'none', seed]
    assert final['median', 'ipm', seed] < final['mean', 'ipm', seed]
  assert final['mean', 'none', '0'] != final['mean', 'none', '1']
  for name in ('robustness.md', 'robustness.png', 'robustness.svg'):
    assert (table / name).stat().st_size > 0


def test_a_cell_is_what_train_ends_with(table, tmp_path):
  """The method that was built for seed 0 serves seed 1 as its own would."""
  assert train.main([
      'train', '--algo=ffgg[aggregator=median,tuner=exact'
      ',server_learning_rate=0.066]', '--task=overpersonalized', *TINY,
      '--eval_every=3', '--attack=ipm', '--seed=1', '--on_non_finite=drop',
      f'--output_dir={tmp_path / "run"}',
  ]) == 0
  distance = float(_read(tmp_path / 'run' / 'metrics.csv')[-1]['distance'])
  cell, = [
      float(row['final']) for row in _read(table / 'robustness.csv')
      if (row['rule'], row['attack'], row['seed']) == ('median', 'ipm', '1')
  ]
  assert cell == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize('rule', ['mean', 'median'])
def test_train_names_whose_messages_were_refused(rule, tmp_path, capsys):
  """Two of seven, the last ones, in each of three rounds."""
  assert train.main([
      'train', '--task=overpersonalized', *TINY, '--attack=nan',
      f'--algo=ffgg[aggregator={rule},tuner=exact,server_learning_rate=0.066]',
      '--eval_every=3', f'--output_dir={tmp_path}',
  ]) == 0
  assert _read(tmp_path / 'dropped.csv') == [
      dict(client='5', rounds='3'), dict(client='6', rounds='3')
  ]
  last = _read(tmp_path / 'metrics.csv')[-1]
  assert (last['dropped'], last['aggregator/num_refused']) == ('6', '2')
  assert 'client 5 in 3 rounds, client 6 in 3' in capsys.readouterr().out


def test_cells_that_are_there_are_not_run_again(table, monkeypatch):
  built = []
  build = processes._build  # pylint: disable=protected-access
  def count(task, method, hyperparameters, attack, *others):
    built.append((hyperparameters.aggregator, attack))
    return build(task, method, hyperparameters, attack, *others)
  monkeypatch.setattr(processes, '_build', count)
  before = _read(table / 'robustness.csv')
  assert _run(
      table, *TINY, '--rules=mean,krum', '--attacks=none', '--seeds=0,1'
  ) == 0
  assert built == [('krum[f=2]', 'none')]
  rows = _read(table / 'robustness.csv')
  assert rows[:len(before)] == before and len(rows) == len(before) + 2


def test_other_flags_are_not_mixed_into_a_table(table, capsys):
  assert _run(table, *TINY[:2], '--rounds=4', '--rules=mean') == 2
  assert '`--rounds` must be 3 as in robustness.json' in capsys.readouterr().err


def test_a_diverged_cell_is_a_value(tmp_path):
  """The others go on."""
  assert _run(
      tmp_path, '--task=digits', '--algo=fedavg', '--model=mlp_20',
      '--num_clients=5', '--num_byzantine=1', '--rounds=2', '--partition=iid',
      '--rules=mean,median', '--attacks=huge', '--train_fraction=0.2',
  ) == 0
  rows = _read(tmp_path / 'robustness.csv')
  mean, median = (float(row['final']) for row in rows)
  assert not mean > 0.3  # Maybe NaN.
  assert 0.0 <= median <= 1.0


def test_byzantine_clients_stand_last(tmp_path):
  """Then one compiled method serves the draws of all seeds."""
  table = robustness.main.flag_table()
  grid = robustness_table._Grid(  # pylint: disable=protected-access
      dict(algo='fedavg', task='digits', num_byzantine=2, num_clients=6,
           partition='iid'), table,
  )
  for seed in (0, 1):
    task = grid.experiment('median', 'ipm', seed).task
    np.testing.assert_array_equal(task.honest, np.arange(4))
    assert [int(data['index']) for data in task.train] == list(range(6))


@pytest.mark.parametrize('rule, tip', [
    # 5 of 25 clients attack: P(X > 2) = 0.30 for cohorts of 10, P(X > 3) = 0.06.
    ('trimmed_mean', 'Tip: --fedavg_aggregator=trimmed_mean[f=4].'),
    ('krum', 'Tip: larger cohorts.'),  # f = 4 needs more than 10 messages.
    ('trimmed_mean[f=4]', ''), ('median', ''),  # It uses no f.
])
def test_a_sentence_says_that_cohorts_have_more_attackers(rule, tip):
  run = experiment_lib.build(
      dict(algo='fedavg', task='digits', num_clients=25, num_byzantine=5,
           clients_per_round=10, fedavg_aggregator=rule),
      flags.all_flags(flags.own_flag('algo', 'fedavg', 'The method.')),
  )
  remark = experiment_lib.remark_on_cohorts(run)
  assert remark.endswith(tip) and bool(remark) == bool(tip)
  if tip:
    assert remark.startswith(
        '30% of the cohorts have more than 2 Byzantine clients, which is the f'
    )
