"""What curves of several seeds have in common."""

import numpy as np
import pytest

from tests.evaluation import made_runs
from tff_pers.evaluation import curves


def test_band_spans_the_seeds():
  rounds, values = curves.common_rounds(
      [made_runs.run('perm', 0), made_runs.run('perm', 2)], 'accuracy_mean'
  )
  np.testing.assert_array_equal(rounds, [5, 10, 15, 18])
  np.testing.assert_allclose(values[1] - values[0], 0.02)


def test_only_rounds_that_all_seeds_have_count():
  runs = [made_runs.run('perm', 0), made_runs.run('perm', 2)]
  runs[0] = runs[0]._replace(
      metrics={name: v[1:3] for name, v in runs[0].metrics.items()}
  )
  rounds, values = curves.common_rounds(runs, 'loss_mean')
  np.testing.assert_array_equal(rounds, [10, 15])
  np.testing.assert_allclose(values, [[5 / 3, 4 / 3]] * 2)


def test_a_column_that_nobody_has_is_empty():
  rounds, values = curves.common_rounds([made_runs.run('fedavg', 0)], 'nope')
  assert not rounds.size and values.shape == (0, 0)


@pytest.mark.parametrize('values, wide', [
    ([1.0, 101.0], True), ([1.0, 99.0], False), ([0.0, 1e9], False),
    ([-1.0, 1e9], False), ([1.0, np.inf, np.nan], False), ([], False),
])
def test_a_logarithmic_axis_is_for_positive_values_that_differ_much(
    values, wide
):
  assert curves.is_wide(values) is wide
