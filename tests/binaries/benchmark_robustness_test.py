"""`benchmark_robustness`: the flags it passes, and which rules are best."""

import os

import pytest

from binaries import benchmark_robustness
from tff_pers.evaluation import results
from tff_pers.evaluation import robustness as tables
from tff_pers.experiments import robustness_table
from tff_pers.experiments import worker_pool


def _benchmark(folder, *argv):
  return benchmark_robustness.main(
      ['benchmark_robustness', *argv, f'--output_dir={folder}']
  )


def _row(rule, attack, final, seed=0):
  return dict(
      task='mnist', algo='fedavg', rule=rule, attack=attack, num_byzantine=5,
      seed=str(seed), final=repr(final),
  )


def _accuracy(rule):
  """The longer the name, the better the rule."""
  return len(rule) / 100


@pytest.fixture(name='handed')
def _handed(monkeypatch):
  """The flags that `robustness` is called with; its table is made up."""
  handed = []
  def make_table(program, *words):
    assert program == 'robustness'
    own = dict(word[2:].split('=', 1) for word in words)
    handed.append(own)
    os.makedirs(own['output_dir'], exist_ok=True)
    results.write_csv(
        os.path.join(own['output_dir'], 'robustness.csv'), tables.COLUMNS,
        [
            _row(rule, 'ipm', _accuracy(rule))
            for rule in own.get('rules', 'mean').split(',')
        ],
    )
  class Pool(worker_pool.WorkerPool):
    def __init__(self, workers):
      handed.append(workers)
      super().__init__(1)
  monkeypatch.setattr(worker_pool, 'WorkerPool', Pool)
  monkeypatch.setattr(
      robustness_table, 'main', lambda argv: make_table(*argv) or 0
  )
  return handed


def test_the_best_rules_of_mnist_have_three_seeds(tmp_path, handed):
  assert _benchmark(
      tmp_path, '--data_dir=/data', '--rounds=7', '--jobs=3'
  ) == 0
  assert [handed.pop(0), handed.pop(4)] == [3, 2]  # Two tables want two jobs.
  assert [
      (own['task'], own.get('partition'), own.get('seeds')) for own in handed
  ] == [
      ('overpersonalized', None, '0,1,2'),
      ('overpersonalized_control', None, '0,1,2'),
      ('mnist', 'iid', None), ('mnist', 'shards[classes=2]', None),
      ('mnist', 'iid', '0,1,2'), ('mnist', 'shards[classes=2]', '0,1,2'),
  ]
  assert {own['rounds'] for own in handed} == {'7'}
  assert [own.get('data_dir') for own in handed] == [None] * 2 + ['/data'] * 4
  first, second = handed[2], handed[4]
  assert set(second['rules'].split(',')) == {
      'bucketing(centered_clipping)', 'bucketing(geometric_median)',
      'bucketing(trimmed_mean)', 'centered_clipping',
  }
  assert len(first['rules'].split(',')) == 12
  page = (tmp_path / 'benchmark.md').read_text()
  assert page.count('![Rules against attacks]') == 4


def test_a_rule_is_as_good_as_its_worst_cell():
  """NaN is no accuracy; later seeds, which few rules have, do not count."""
  one = [
      _row('a', 'ipm', 0.9), _row('a', 'alie', 0.5), _row('b', 'ipm', 0.8),
      _row('b', 'alie', 0.7), _row('c', 'ipm', float('nan')),
      _row('c', 'alie', 0.9), _row('d', 'ipm', 0.65), _row('d', 'alie', 0.65),
      _row('b', 'ipm', 0.1, seed=1),
  ]
  other = [
      _row('a', 'ipm', 0.95), _row('b', 'ipm', 0.9), _row('c', 'ipm', 0.9),
      _row('d', 'ipm', 0.3),
  ]
  assert tables.best_rules([one], 4) == ['b', 'd', 'a', 'c']
  assert tables.best_rules([one, other], 3) == ['b', 'a', 'd']


@pytest.mark.parametrize('code', [1, 2])
def test_a_table_that_fails_ends_it(tmp_path, monkeypatch, capsys, code):
  monkeypatch.setattr(robustness_table, 'main', lambda argv: code)
  assert _benchmark(tmp_path, '--parts=control') == code
  assert f'control ended with exit code {code}.' in capsys.readouterr().err


def _broken(_):
  raise RuntimeError('A fault.')


def test_a_table_that_breaks_leaves_the_others_alone(
    tmp_path, handed, monkeypatch, capsys
):
  whole = robustness_table.main
  monkeypatch.setattr(
      robustness_table, 'main',
      lambda argv: (_broken if 'control' in str(argv) else whole)(argv)
  )
  assert _benchmark(
      tmp_path, '--parts=control,overpersonalized'
  ) == 1
  assert len(handed) == 2  # The number of workers, and the other table.
  assert capsys.readouterr().err.endswith(
      'The table control ended with exit code 1.\n'
  )


def test_ctrl_c_in_a_table_ends_all(tmp_path, handed, monkeypatch):
  called = []
  monkeypatch.setattr(
      robustness_table, 'main', lambda argv: called.append(argv) or 130
  )
  assert _benchmark(
      tmp_path, '--parts=overpersonalized,control'
  ) == 130
  assert len(called) == len(handed) == 1
