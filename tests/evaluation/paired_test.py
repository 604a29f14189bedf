"""`paired`: differences at the same clients, against closed forms."""

import math

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import stats

from tests.evaluation import made_runs
from tff_pers.evaluation import paired
from tff_pers.evaluation import results


def _values(*numbers):
  return paired.Values(
      {str(client): value for client, value in enumerate(numbers)}
  )


def test_the_mean_has_the_interval_of_student():
  """1, 2, 3, 6: mean 3, variance 14/3, t of 3 degrees of freedom 3.1824."""
  found = paired.mean([1.0, 2.0, 3.0, 6.0])
  error = math.sqrt(14 / 3 / 4)
  assert found.mean == 3 and found.clients == 4
  assert found.error == pytest.approx(error)
  assert found.low == pytest.approx(3 - 3.182446305 * error)
  assert found.high == pytest.approx(3 + 3.182446305 * error)


def test_one_client_has_no_interval_and_none_no_mean():
  assert paired.mean([0.5]) == (0.5, None, None, None, 1)
  assert math.isnan(paired.mean([]).mean)
  alone = paired.difference(_values(0.5), _values(0.2), 'accuracy')
  assert alone.is_noise and alone.p_value is None
  assert (alone.share_better, alone.share_worse) == (1, 0)


def test_a_difference_is_of_pairs():
  """Clients differ by 0.8, methods by 0.01 to 0.03: pairs tell them apart."""
  one, two = _values(0.11, 0.53, 0.92), _values(0.10, 0.50, 0.90)
  found = paired.difference(one, two, 'accuracy')
  assert found.gain.mean == pytest.approx(0.02)
  half = 4.302652730 * 0.01 / math.sqrt(3)
  assert found.gain.low == pytest.approx(0.02 - half)
  assert found.gain.high == pytest.approx(0.02 + half)
  # t = 0.02 / (0.01 / sqrt(3)) = 2 sqrt(3), two degrees of freedom.
  assert found.p_value == pytest.approx(1 - math.sqrt(12 / 14))
  assert (found.share_better, found.share_worse) == (1, 0)


def test_the_noise_of_splitting_widens_an_interval():
  """Means of the differences by split: 0.06, 0.02, 0.04."""
  ours = _values(0.11, 0.53, 0.92), _values(0.10, 0.50, 0.90)
  shifts = 0.02, -0.02, 0.0
  one, two = (
      paired.Values(own, [
          {client: value + half * shift for client, value in own.items()}
          for shift in shifts
      ]) for own, half in zip(ours, (0.5, -0.5))
  )
  plain, found = (
      paired.difference(*pair, 'accuracy') for pair in (ours, (one, two))
  )
  assert found.gain.mean == plain.gain.mean == pytest.approx(0.02)
  error = math.sqrt(0.01**2 / 3 + 0.02**2 / 3)
  assert found.gain.error == pytest.approx(error)
  assert found.gain.high == pytest.approx(0.02 + 4.302652730 * error)
  assert found.p_value == pytest.approx(
      2 * stats.t.sf(0.02 / error, 2)
  ) and found.p_value > plain.p_value
  # Of a method's own mean, too; one split has no noise of which one knows.
  assert paired.mean_of(one).error > paired.mean_of(ours[0]).error
  alone = paired.mean_of(paired.Values(ours[0], [ours[0]]))
  assert alone == paired.mean_of(ours[0])


def test_less_loss_is_better():
  one, two = _values(0.1, 0.2, 0.9), _values(0.3, 0.5, 0.8)
  for metric, gain, better in (('accuracy', -0.4 / 3, 1), ('loss', 0.4 / 3, 2)):
    found = paired.difference(one, two, metric)
    assert found.gain.mean == pytest.approx(gain)
    assert found.share_better == pytest.approx(better / 3)
    assert found.share_worse == pytest.approx(1 - better / 3)


def test_equal_methods_are_noise_and_a_constant_difference_is_not():
  one = _values(0.1, 0.5, 0.9)
  same = paired.difference(one, one, 'accuracy')
  assert same.is_noise and same.p_value == 1
  assert (same.share_better, same.share_worse) == (0, 0)
  other = _values(-0.15, 0.25, 0.65)
  constant = paired.difference(one, other, 'accuracy')
  assert not constant.is_noise and constant.p_value < 1e-6


def test_only_clients_of_both_count():
  found = paired.difference(
      paired.Values(dict(a=0.5, b=0.7, c=1.0)),
      paired.Values(dict(b=0.6, a=0.5, d=0.0)), 'accuracy',
  )
  assert found.gain.clients == 2
  assert found.gain.mean == pytest.approx(0.05)
  none = paired.difference(
      paired.Values(dict(a=1.0)), paired.Values(dict(b=1.0)), 'accuracy'
  )
  assert none.is_noise and math.isnan(none.gain.mean)
  assert math.isnan(none.share_better)


_NUMBERS = st.lists(
    st.tuples(*[st.floats(-10, 10, width=32)] * 2), min_size=3, max_size=30
)


@settings(max_examples=100, deadline=None)
@given(_NUMBERS)
def test_it_is_scipy_s_paired_test(pairs):
  """The interval excludes 0 where the test says p < 0.05, and is symmetric."""
  one, two = map(np.array, zip(*pairs))
  gains = one - two
  if np.ptp(gains) < 1e-3:
    return
  found = paired.difference(_values(*one), _values(*two), 'accuracy')
  assert found.p_value == pytest.approx(
      stats.ttest_1samp(gains, 0).pvalue, rel=1e-6, abs=1e-12
  )
  if abs(found.p_value - 0.05) > 1e-6:
    assert found.is_noise == (found.p_value > 0.05)
  mirrored = paired.difference(_values(*two), _values(*one), 'accuracy')
  assert mirrored.gain.mean == pytest.approx(-found.gain.mean)
  assert mirrored.gain.low == pytest.approx(-found.gain.high)
  assert mirrored.share_better == found.share_worse


def test_the_interval_covers_the_truth_as_often_as_it_says():
  rng = np.random.default_rng(0)
  hits = 0
  for _ in range(2000):
    found = paired.mean(rng.normal(0.3, 2.0, 12))
    hits += found.low <= 0.3 <= found.high
  # Three standard deviations of a binomial of 2000 and 0.95 are 0.015.
  assert 0.935 <= hits / 2000 <= 0.965


def _run(folder, seed, clients):
  return results.read_run(
      made_runs.write(str(folder / f'{seed}'), seed=seed, clients=clients)
  )


def test_a_client_has_the_mean_over_seeds(tmp_path):
  runs = [
      _run(tmp_path, 0, dict(ann=0.2, bob=0.5)),
      _run(tmp_path, 1, dict(ann=0.4, bob=math.nan)),
      _run(tmp_path, 2, dict(ann=0.9, bob=math.nan, cid=math.nan)),
  ]
  assert paired.of_clients(runs, 'accuracy') == pytest.approx(
      dict(ann=0.5, bob=0.5)
  )
  assert paired.of_clients(runs, 'loss')['ann'] == pytest.approx(0.5)


def test_clients_that_never_train_are_left_out(tmp_path):
  run = _run(tmp_path, 0, dict(ann=0.2, bob=0.5))
  run.clients['seen'][1] = 0
  assert paired.of_clients([run], 'accuracy') == dict(ann=0.2)


def test_validation_data_are_of_their_own_table(tmp_path):
  folder = made_runs.write(str(tmp_path / 'run'), clients=dict(ann=0.9))
  results.write_validation(folder, [
      dict(client='ann', num_validation=5, accuracy=0.1, loss=2.0)
  ])
  runs = [results.read_run(folder)]
  assert paired.of_clients(runs, 'accuracy', validation=True) == dict(ann=0.1)
  assert paired.of_clients(runs, 'accuracy') == dict(ann=0.9)
