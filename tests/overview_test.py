"""Ranks over tasks and what they can tell, on numbers that can be counted."""

import numpy as np
import pytest

from tests import overview

_TASKS = 'abcdefgh'


def _rows(by_method, column='accuracy', tasks=_TASKS):
  """Returns rows of two seeds whose mean is that of `by_method`."""
  return {
      task: [
          dict(variant=method, algo=method, flags='', seed=str(seed),
               accuracy='', loss='', rounds='10', bytes_down='2e5',
               bytes_up='1e5', at_border='no')
          | {column: str(value + 0.02 * seed - 0.01)}
          for method, values in by_method.items()
          for value in values[i:i + 1] for seed in (0, 1)
      ] for i, task in enumerate(tasks)
  }


def _means(*args, **options):
  return overview.means(overview.scores(_rows(*args, **options)))


def test_ranks_are_of_means_over_seeds_and_ties_share_them():
  means = _means({
      'bad': [0.1, 0.5, 0.2], 'good': [0.9, 0.5, 0.6], 'fair': [0.3, 0.4, 0.7],
  }, tasks='abc')
  assert list(means.index) == ['good', 'fair', 'bad']
  np.testing.assert_array_equal(
      overview.ranks(means), [[1, 1.5, 2], [2, 3, 1], [3, 1.5, 3]]
  )


def test_a_method_without_all_tasks_or_seeds_has_no_rank():
  """And the ranks of the others are as if it were not there."""
  rows = _rows({
      'good': [0.9, 0.8], 'bad': [0.1, 0.2], 'new': [0.95], 'lucky': [1, 1]
  }, tasks='ab')
  del rows['b'][-1]  # A seed of lucky, as if it had diverged.
  means = overview.means(overview.scores(rows))
  assert overview.ranks(means).to_numpy().tolist() == [[1, 1], [2, 2]]
  rows['a'][0]['at_border'] = 'yes'
  text = overview.page(rows, lambda row: 'why' * (row['variant'] == 'bad'), '')
  assert [
      [cell.strip() for cell in line.split('|')[1:-1]]
      for line in text.splitlines()[2:6]
  ] == [
      ['`good`', '1.0', '0.900 ± 0.014\\*', '0.800 ± 0.014', '3.00'],
      ['`bad`', '2.0', '0.100 ± 0.014†', '0.200 ± 0.014†', '3.00'],
      ['`lucky`', '', '1.000 ± 0.014', '0.990 (fewer seeds)', ''],
      ['`new`', '', '0.950 ± 0.014', '', ''],
  ]


def test_tasks_are_rows_where_they_are_more_than_methods():
  values = {'a': [0.9] * 3, 'b': [0.8] * 3}
  lines = overview.page(_rows(values, tasks='xyz'), lambda row: '', '')
  assert lines.splitlines()[0].split('|')[1:-1] == [' task      ', ' `a`           ', ' `b`           ']


def test_runs_of_other_flags_are_not_averaged():
  rows = _rows({'good': [0.9], 'bad': [0.1]}, tasks='a')
  rows['a'][1]['flags'] = '--rounds=3'
  with pytest.raises(ValueError, match='equal flags, found others of good on a'):
    overview.scores(rows)


def test_losses_are_in_units_of_the_least_one():
  means = _means({'bad': [0.75], 'good': [0.5]}, 'loss', tasks='a')
  assert list(means.index) == ['good', 'bad']
  np.testing.assert_allclose(means['a'], [-1.0, -1.5])


def test_critical_difference():
  """Demsar, 3.2.2: four methods, 14 data sets; his table has q = 2.569."""
  assert overview.critical_difference(4, 14) == pytest.approx(
      2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3
  )


def test_friedman():
  """Three methods in one order on eight tasks: chi^2 = 16 of 2 degrees."""
  means = _means({'a': [0.9] * 8, 'b': [0.8] * 8, 'c': [0.7] * 8})
  assert overview.friedman(means) == pytest.approx(np.exp(-8))


def test_signed_ranks():
  """The means of 400,000 draws by baycomp 1.0.3, of error below 5e-4."""
  differences = [0.1, 0.05, -0.021, 0.004, 0.03, -0.06, 0.0, 0.2]
  np.testing.assert_allclose(
      overview.signed_ranks(differences),
      [0.61883, 0.18292, 0.19825], rtol=0, atol=1.5e-3,
  )


def test_signed_ranks_of_equal_differences():
  """Of nine weights, one a half, the share of the pairs of two real ones."""
  # A mean with the prior difference of 0 is .05, also above .01.
  only_prior = 0.5 * 1.5 / (8.5 * 9.5)
  np.testing.assert_allclose(
      overview.signed_ranks([0.1] * 8), [1 - only_prior, only_prior, 0.0],
      atol=1e-12,
  )


def test_the_picture_joins_mean_ranks_that_are_near(tmp_path):
  assert overview.joined([1.0, 2.0, 3.5, 3.6], 1.5) == [(0, 1), (1, 2), (2, 3)]
  assert overview.joined([1.0, 3.0, 5.0], 1.5) == []
  assert overview.joined([1.0, 1.5, 2.0], 1.5) == [(0, 2)]
  means = _means({name: [1 - 0.1 * k] * 8 for k, name in enumerate('abcd')})
  overview.write_picture(tmp_path / 'ranks.svg', means)
  assert (tmp_path / 'ranks.svg').read_text().count('<path') > 10


def test_six_tasks_are_enough_for_a_verdict():
  values = {'a': [0.9] * 6, 'b': [0.8] * 6, 'c': [0.7] * 6}
  text = overview.page(_rows(values, tasks='abcdef'), lambda row: '', 'ranks.png')
  assert 'p = 0.002 (Friedman)' in text and '1.4 apart (Nemenyi)' in text
  assert '![Mean ranks](ranks.png)' in text
  assert text.count('| `a` against ') == 1 and '| `c` ' in text
  few = overview.page(_rows(values, tasks='abcde'), lambda row: '', 'ranks.png')
  assert 'Friedman' not in few and 'ranks.png' not in few
