"""Tables and heat maps of rules against attacks."""

import os

import numpy as np

from tff_pers.evaluation import robustness


def _row(rule, attack, seed, final):
  return dict(
      task='t', algo='a', rule=rule, attack=attack, num_byzantine=5,
      seed=str(seed), final=repr(final),
  )


ROWS = [
    _row('mean', 'none', 0, 1e-12), _row('mean', 'none', 1, 3e-12),
    _row('mean', 'none', 2, 2e-12), _row('mean', 'ipm', 0, 5e20),
    _row('mean', 'ipm', 1, float('nan')), _row('mean', 'ipm', 2, float('inf')),
    _row('median', 'ipm', 0, 0.3),
]


def test_cells_are_least_median_and_largest_over_seeds():
  """What diverged is worse than any number; what was not run is NaN."""
  rules, attacks, values = robustness.cells(ROWS, is_distance=True)
  assert (rules, attacks) == (['mean', 'median'], ['none', 'ipm'])
  np.testing.assert_array_equal(
      values, [
          [[1e-12, 2e-12, 3e-12], [5e20, np.inf, np.inf]],
          [[np.nan] * 3, [0.3] * 3],
      ]
  )


def test_the_median_of_two_seeds_is_their_mean_and_what_diverged_is_worst():
  rows = [
      _row('mean', 'none', 0, 0.25), _row('mean', 'none', 1, 0.75),
      _row('mean', 'ipm', 0, 0.5), _row('mean', 'ipm', 1, float('nan')),
      _row('mean', 'ipm', 2, 0.75),
  ]
  _, _, values = robustness.cells(rows, is_distance=False)
  np.testing.assert_array_equal(
      values[0], [[0.25, 0.5, 0.75], [-np.inf, 0.5, 0.75]]
  )
  assert robustness.markdown(rows, is_distance=False).endswith(
      '| mean | 0.500 (0.250) | 0.500 (diverged) |'
  )
  _, _, values = robustness.cells(rows, is_distance=True)
  np.testing.assert_array_equal(values[0, 1], [0.5, 0.75, np.inf])


def test_cells_in_words_show_the_worst_seed():
  """The largest distance, the smallest accuracy."""
  value = np.array([0.5, 0.7, 0.9])
  assert robustness.text(value, is_distance=False) == '0.700 (0.500)'
  assert robustness.text(value, is_distance=True) == '7e-01 (9e-01)'
  assert robustness.text(np.full(3, 0.5), is_distance=False) == '0.500'
  assert robustness.text(np.full(3, np.nan), is_distance=True) == ''
  assert robustness.text(np.full(3, np.inf), is_distance=True) == 'inf'
  lines = robustness.markdown(ROWS, is_distance=True).splitlines()
  assert lines[0] == '| rule | none | ipm |'
  assert lines[2] == '| mean | 2e-12 (3e-12) | inf |'
  assert lines[3] == '| median |  | 3e-01 |'


def test_the_heat_map_is_drawn_whatever_the_numbers(tmp_path, recwarn):
  for is_distance in (True, False):
    path = robustness.plot(ROWS, tmp_path, is_distance)
    assert os.path.getsize(path + '.png') > 1000
    assert os.path.getsize(path + '.svg') > 1000
  assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
