"""`tune`: what it chooses, for how much; training is told."""

import json
import os

import numpy as np
import pytest

from binaries import tune
from tests.binaries import fake_training

_table = fake_training.table


def _tune(folder, *argv):
  return tune.main([
      'tune', *fake_training.FLAGS, '--algos=fedavg,local_only',
      f'--output_dir={folder}', *argv,
  ])


def _best(folder):
  with open(folder / 'best.json', encoding='utf-8') as file:
    return json.load(file)


def _of(rows, algo):
  return [row for row in rows if row['algo'] == algo]


def test_every_method_has_as_many_trials_and_defaults_are_the_first(
    tmp_path, monkeypatch
):
  training = fake_training.Training(monkeypatch)
  assert _tune(tmp_path, '--trials=7', '--seeds=0') == 0
  rows = _table(tmp_path, 'trials.csv')
  for algo in ('fedavg', 'local_only'):
    own = _of(rows, algo)
    assert [row['trial'] for row in own] == [str(i) for i in range(1, 8)]
    assert (algo, 0, 1) in training.trained  # Without options.
    assert len({row['learning_rate'] for row in own}) == 7
  assert len(training.runs()) == 14


def test_the_table_says_what_is_near_an_end(tmp_path, monkeypatch):
  """The larger the rate, the better; the range ends at 20 times 0.3."""
  def curve(of):
    value = 0.5 + 0.1 * np.log10(of.values['learning_rate'])
    return fake_training.Curve(value, value)
  fake_training.Training(monkeypatch, curve)
  assert _tune(tmp_path, '--trials=6', '--seeds=0') == 0
  row = _of(_table(tmp_path, 'summary.csv'), 'fedavg')[0]
  assert _best(tmp_path)['fedavg']['hyperparameters']['learning_rate'] > 3.3
  assert 'learning_rate' in row['near_end'].split()


def test_test_data_choose_nothing(tmp_path, monkeypatch):
  """The worse a trial on validation data, the better it is on test data."""
  def curve(of):
    value = fake_training.by_rate(of).validation
    return fake_training.Curve(value, 1 - value)
  fake_training.Training(monkeypatch, curve)
  assert _tune(tmp_path, '--trials=6', '--seeds=0') == 0
  rows = [row for row in _of(_table(tmp_path, 'trials.csv'), 'fedavg')
          if row['state'] == 'complete']
  validation = [float(row['validation']) for row in rows]
  best = _best(tmp_path)['fedavg']
  assert best['validation'] == max(validation)
  row = rows[validation.index(max(validation))]
  assert str(best['trial']) == row['trial']
  assert best['hyperparameters']['learning_rate'] == float(row['learning_rate'])
  summary = _of(_table(tmp_path, 'summary.csv'), 'fedavg')[0]
  assert float(summary['accuracy_mean']) == pytest.approx(1 - max(validation))


def test_a_trial_that_is_behind_is_pruned_and_never_chosen(
    tmp_path, monkeypatch
):
  """A pruned trial's number is of an early round, where curves are high."""
  def curve(of):
    middle = 0.9 if of.values['learning_rate'] > 0.2 else 0.7
    value = middle - 0.1 * of.number
    return fake_training.Curve(value, value)
  training = fake_training.Training(monkeypatch, curve)
  assert _tune(tmp_path, '--trials=12', '--seeds=0') == 0
  rows = _of(_table(tmp_path, 'trials.csv'), 'fedavg')
  pruned = [row for row in rows if row['state'] == 'pruned']
  assert pruned and all(row['rounds'] == '1' for row in pruned)
  # They would win: 0.6 after a round, the others have 0.5 after the last.
  assert {float(row['validation']) for row in pruned} == {0.7 - 0.1}
  best = _best(tmp_path)['fedavg']
  assert best['validation'] == pytest.approx(0.5)
  assert str(best['trial']) not in [row['trial'] for row in pruned]
  for row in pruned:
    number = f'trial{int(row["trial"]):04d}'
    assert not os.path.exists(
        tmp_path / 'fedavg' / number / 'seed0' / 'clients.csv'
    )
  assert len(training.trained) < 2 * 12 * 4


def test_the_chosen_values_are_trained_with_all_seeds(tmp_path, monkeypatch):
  def curve(of):
    found = fake_training.by_rate(of)
    return found._replace(test=0.5 + 0.1 * of.seed)
  training = fake_training.Training(monkeypatch, curve)
  assert _tune(tmp_path, '--trials=3', '--seeds=4,1,2') == 0
  best = _best(tmp_path)
  for algo in ('fedavg', 'local_only'):
    own = [run for run in training.runs()
           if run[0].partition('[')[0] == algo]
    # Trials on the first seed, which is not run again for the choice.
    assert [seed for _, seed in own] == [4, 4, 4, 1, 2]
    assert {name for name, seed in own if seed != 4} == {best[algo]['variant']}
    summary = _of(_table(tmp_path, 'summary.csv'), algo)[0]
    assert float(summary['accuracy_mean']) == pytest.approx(0.5 + 0.7 / 3)
    assert summary['seeds'] == '3'
    assert [row['seed'] for row in _of(_table(tmp_path, 'runs.csv'), algo)] == [
        '4', '1', '2'
    ]


def test_a_trial_that_diverges_is_not_chosen(tmp_path, monkeypatch):
  fake_training.Training(monkeypatch, fake_training.finite_where(
      lambda of: of.values['learning_rate'] < 0.25
  ))
  assert _tune(tmp_path, '--trials=6', '--seeds=0', '--algos=fedavg') == 0
  rows = _table(tmp_path, 'trials.csv')
  lost = [row for row in rows if float(row['learning_rate']) >= 0.25]
  assert lost and {row['state'] for row in lost} == {'diverged'}
  assert {row['validation'] for row in lost} == {'nan'}
  assert _best(tmp_path)['fedavg']['hyperparameters']['learning_rate'] < 0.25


def test_values_with_which_a_later_seed_diverges_are_given_up(
    tmp_path, monkeypatch
):
  """For the next best on validation data."""
  fake_training.Training(monkeypatch, fake_training.finite_where(
      lambda of: of.seed == 0 or of.values['learning_rate'] < 0.25
  ))
  assert _tune(
      tmp_path, '--trials=6', '--seeds=0,1', '--algos=local_only'
  ) == 0
  assert _best(tmp_path)['local_only']['hyperparameters'][
      'learning_rate'
  ] < 0.25


def test_a_method_that_always_diverges_has_a_row_and_the_exit_code_1(
    tmp_path, monkeypatch
):
  fake_training.Training(
      monkeypatch, fake_training.finite_where(lambda of: of.algo == 'fedavg')
  )
  assert _tune(tmp_path, '--trials=3', '--seeds=0') == 1
  assert _best(tmp_path)['local_only'] is None
  rows = _table(tmp_path, 'summary.csv')
  assert _of(rows, 'local_only')[0]['accuracy_mean'] == 'nan'
  assert float(_of(rows, 'fedavg')[0]['accuracy_mean']) > 0


def test_a_budget_is_the_same_for_each_method(tmp_path, monkeypatch):
  """The last trial of each ends with its time; the first is run in any case."""
  training = fake_training.Training(monkeypatch, seconds=10.0)
  assert _tune(tmp_path, '--budget=10m', '--seeds=0') == 0
  rows = _table(tmp_path, 'trials.csv')
  for algo in ('fedavg', 'local_only'):
    spent = sum(float(row['seconds']) for row in _of(rows, algo))
    # One trial takes 40 s; it is not begun where less than a quarter is left,
    # and one that is begun ends at most a round too late.
    assert 300 - 10 <= spent <= 300 + 10
  assert training.now == sum(float(row['seconds']) for row in rows)
  assert rows[0]['state'] == 'complete'


def test_a_budget_shorter_than_a_trial_gives_the_defaults_a_number(
    tmp_path, monkeypatch
):
  fake_training.Training(monkeypatch, seconds=10.0)
  assert _tune(tmp_path, '--budget=10s', '--seeds=0') == 0
  rows = _table(tmp_path, 'trials.csv')
  assert [row['state'] for row in rows] == ['stopped', 'stopped']
  assert [row['rounds'] for row in rows] == ['1', '1']
  assert _best(tmp_path)['fedavg']['trial'] == 1


def test_the_same_command_does_nothing_again(tmp_path, monkeypatch, capsys):
  training = fake_training.Training(monkeypatch)
  argv = '--trials=4', '--seeds=0,1'
  assert _tune(tmp_path, *argv) == 0
  before, tables = len(training.trained), _table(tmp_path, 'trials.csv')
  capsys.readouterr()
  assert _tune(tmp_path, *argv) == 0
  assert len(training.trained) == before
  assert _table(tmp_path, 'trials.csv') == tables
  # More of them: the first ones stay.
  assert _tune(tmp_path, '--trials=6', '--seeds=0,1') == 0
  assert [
      row for row in _table(tmp_path, 'trials.csv') if int(row['trial']) <= 4
  ] == tables
  assert len(_of(_table(tmp_path, 'trials.csv'), 'fedavg')) == 6


def test_other_flags_and_damaged_files_are_refused(tmp_path, monkeypatch, capsys):
  fake_training.Training(monkeypatch)
  assert _tune(tmp_path, '--trials=2', '--seeds=0') == 0
  capsys.readouterr()
  for argv, words in (
      (['--trials=2', '--seeds=1'], '--seeds'),
      (['--trials=1', '--seeds=0'], '--trials'),
      (['--trials=2', '--seeds=0', '--rounds=5'], '--rounds'),
      (['--budget=2m', '--seeds=0'], '--budget'),
  ):
    assert _tune(tmp_path, *argv) == 2
    error = capsys.readouterr().err
    assert words in error and error.count('\n') == 1
  for name in ('fedavg/study.journal', 'tune.json'):
    (tmp_path / name).write_text('[]\n')
    assert _tune(tmp_path, '--trials=2', '--seeds=0') == 2
    error = capsys.readouterr().err
    assert str(tmp_path / name) in error and error.count('\n') == 1, error


def test_real_runs(tmp_path):
  """Two trials of three rounds; tables and figures are there."""
  assert tune.main([
      'tune', *fake_training.FLAGS, '--rounds=3', '--algos=fedavg',
      '--trials=2', '--seeds=0', f'--output_dir={tmp_path}',
  ]) == 0
  trials = _table(tmp_path, 'trials.csv')
  assert [row['state'] for row in trials] == ['complete'] * 2
  best = _best(tmp_path)['fedavg']
  rows = _table(tmp_path / best['folder'] / 'seed0', 'metrics.csv')
  assert best['validation'] == float(rows[-1]['accuracy_validation'])
  assert len(_table(tmp_path, 'runs.csv')) == 1
  for name in ('curves.png', 'summary.md'):
    assert (tmp_path / name).stat().st_size > 0


def test_what_was_asked_for_is_not_searched(tmp_path, monkeypatch):
  fake_training.Training(monkeypatch)
  assert _tune(
      tmp_path, '--trials=4', '--seeds=0', '--fedavg_learning_rate=0.2',
      '--algos=fedavg,fedavg[local_steps=3]',
  ) == 0
  rows = _table(tmp_path, 'trials.csv')
  assert 'learning_rate' not in rows[0]
  assert len({row['local_steps'] for row in _of(rows, 'fedavg')}) > 1
  assert not any(row['local_steps'] for row in rows
                 if row['algo'] != 'fedavg')
