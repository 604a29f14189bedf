"""Curves of a page are the columns of metrics.csv."""

import numpy as np
import pytest

from tests.evaluation import made_runs

from tff_pers.evaluation.report import curve_data
from tff_pers.evaluation.report import members


def _members(tmp_path, *options):
  return [
      members.Member(made_runs.read(tmp_path / str(i), seed=i, **own), 'fedavg')
      for i, own in enumerate(options)
  ]


def test_curves_are_means_and_ranges_over_seeds(tmp_path):
  found = curve_data.of_label(_members(
      tmp_path, dict(accuracy=0.5, validation=0.9, loss=1.0),
      dict(accuracy=0.7, validation=0.8, loss=1.0),
  ))
  assert found['axes'] == dict(
      round=[2, 4, 6], seconds=[4, 8, 12], bytes=[80, 160, 240]
  )
  columns = found['columns']
  assert columns['accuracy_mean'] == dict(
      mean=[0.4, 0.5, 0.6], low=[0.3, 0.4, 0.5], high=[0.5, 0.6, 0.7]
  )
  assert columns['accuracy_validation']['mean'] == [0.65, 0.75, 0.85]
  # Seeds that agree have no range.
  assert columns['loss_mean'] == dict(mean=[2, 1.5, 1])
  assert found['thinned'] is None


def test_seeds_have_the_rounds_in_common(tmp_path):
  found = curve_data.of_label(_members(
      tmp_path, dict(accuracy=0.5, evaluated=(2, 4, 6)),
      dict(accuracy=0.5, evaluated=(2, 6, 8)),
  ))
  assert found['axes']['round'] == [2, 6]
  assert found['columns']['accuracy_mean'] == dict(
      mean=[0.3, 0.45], low=[0.3, 0.4], high=[0.3, 0.5]
  )


def test_a_column_of_gaps(tmp_path):
  found = curve_data.of_label(_members(
      tmp_path, dict(columns=dict(cluster_nmi=[None, 0.5, 'inf'], none=['']*3))
  ))
  assert found['columns']['cluster_nmi'] == dict(mean=[None, 0.5, None])
  assert 'none' not in found['columns']


def test_nothing_evaluated_is_no_curve(tmp_path):
  found = curve_data.of_label(_members(tmp_path, dict(evaluated=())))
  assert found['axes']['round'] == [] and found['columns'] == {}
  assert curve_data.of_label([])['axes']['round'] == []


@pytest.mark.parametrize('number', [0, 1, 2, 150, 151, 299, 1000, 12_345])
def test_thinned_keeps_both_ends_and_equal_steps(number):
  shown = curve_data.thinned(number)
  assert len(shown) <= curve_data.MAX_POINTS + 1
  if number <= curve_data.MAX_POINTS:
    np.testing.assert_array_equal(shown, np.arange(number))
  else:
    assert shown[0] == 0 and shown[-1] == number - 1
    assert len(set(np.diff(shown[1:]))) == 1
    assert len(shown) > curve_data.MAX_POINTS // 3


def test_of_a_thousand_rounds_every_tenth_is_shown(tmp_path):
  found = curve_data.of_label(_members(tmp_path, dict(evaluated=range(1, 1001))))
  assert found['thinned'] == 1000
  assert found['axes']['round'] == [1, *range(10, 1001, 10)]
  accuracy = found['columns']['accuracy_mean']['mean']
  np.testing.assert_allclose(accuracy[-2:], [-0.5, 0.5])
