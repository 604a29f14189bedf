"""Ranks over tasks and what they can tell, on numbers that can be counted."""

import numpy as np
import pytest

from tests import overview

_TASKS = 'abcdefgh'


def _rows(by_method, column='accuracy', tasks=_TASKS):
  """Returns rows of two seeds whose mean is that of `by_method`."""
  return {
      task: [
          dict(variant=method, accuracy='', loss='', rounds='10',
               bytes_down='2e5', bytes_up='1e5') | {column: str(value + spread)}
          for method, values in by_method.items()
          for value in values[i:i + 1] for spread in (-0.01, 0.01)
      ] for i, task in enumerate(tasks)
  }


def test_ranks_are_of_means_over_seeds_and_ties_share_them():
  runs = overview.scores(_rows({
      'bad': [0.1, 0.5, 0.2], 'good': [0.9, 0.5, 0.6], 'fair': [0.3, 0.4, 0.7],
  }, tasks='abc'))
  of_tasks = overview.ranks(runs)
  assert list(of_tasks.index) == ['good', 'fair', 'bad']
  np.testing.assert_array_equal(
      of_tasks, [[1, 1.5, 2], [2, 3, 1], [3, 1.5, 3]]
  )


def test_a_method_without_all_tasks_has_no_rank():
  """And the ranks of the others are as if it were not there."""
  runs = overview.scores(_rows(
      {'good': [0.9, 0.8], 'bad': [0.1, 0.2], 'new': [0.95]}, tasks='ab'
  ))
  assert overview.ranks(runs).to_numpy().tolist() == [[1, 1], [2, 2]]
  lines = overview.page(_rows(
      {'good': [0.9, 0.8], 'bad': [0.1, 0.2], 'new': [0.95]}, tasks='ab'
  )).splitlines()
  assert [line.split('|')[1].strip() for line in lines[2:]] == [
      '`good`', '`bad`', '`new`'
  ]
  assert '0.950 ± 0.014' in lines[4] and '3.00' in lines[4]


def test_losses_are_in_units_of_the_least_one():
  runs = overview.scores(
      _rows({'good': [0.5], 'bad': [0.75]}, 'loss', tasks='a')
  )
  means = runs.groupby('method')['score'].mean()
  np.testing.assert_allclose([means['good'], means['bad']], [-1.0, -1.5])
  assert overview.ranks(runs).index[0] == 'good'


def test_holm():
  """By hand: .01 * 4, .02 * 3, then the larger of that and .03 * 2, .9 * 1."""
  np.testing.assert_allclose(
      overview.holm([0.9, 0.02, 0.01, 0.03]), [0.9, 0.06, 0.04, 0.06]
  )
  np.testing.assert_array_equal(overview.holm([0.5, 0.6]), [1.0, 1.0])


@pytest.mark.parametrize('lead, better, equal', [
    (0.1, (0.99, 1.0), (0.0, 0.01)), (0.001, (0.0, 0.01), (0.99, 1.0)),
])
def test_pairs(lead, better, equal):
  """Eight tasks of one sign: p = 2 / 2^8, whatever the size of the lead."""
  runs = overview.scores(
      _rows({'first': [0.5 + lead] * 8, 'second': [0.5] * 8})
  )
  pair, = overview.pairs(runs, overview.ranks(runs))
  assert pair[:2] == ('first', 'second')
  assert pair.p_value == pytest.approx(2 / 2**8)
  assert better[0] <= pair.better <= better[1]
  assert equal[0] <= pair.equal <= equal[1]


def test_the_picture_joins_those_that_do_not_differ(tmp_path):
  values = {'a': [0.9] * 8, 'b': [0.8] * 8, 'c': [0.7] * 8}
  runs = overview.scores(_rows(values))
  of_tasks = overview.ranks(runs)
  assert overview.friedman(of_tasks) == pytest.approx(np.exp(-8))
  # p = 3 * 2 / 2^8 for all three pairs.
  assert overview.joined(of_tasks, overview.pairs(runs, of_tasks)) == []
  alike = [overview.Pair('a', 'b', 1.0, 0.5, 0.5),
           overview.Pair('a', 'c', 0.01, 1.0, 0.0),
           overview.Pair('b', 'c', 0.2, 0.5, 0.5)]
  assert overview.joined(of_tasks, alike) == [(0, 1), (1, 2)]
  overview.write_picture(tmp_path / 'ranks.svg', of_tasks, alike)
  assert (tmp_path / 'ranks.svg').read_text().count('<path') > 10
