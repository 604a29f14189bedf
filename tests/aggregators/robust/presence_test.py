"""The `rules` and `preparations` against NumPy, over the clients present.

Some are absent (weight 0), some send NaN, with the rule alone and inside of
TFF's clipping and zeroing.
"""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import slow
from tff_pers.aggregators import absence
from tff_pers.aggregators import robust

TYPE = tff.TensorType(np.float64, [2])
WEIGHT = tff.TensorType(np.float32)
HONEST = np.random.default_rng(0).normal(1, 0.2, (8, 2))
# The first one attacks.
SENT = np.concatenate([[[100.0, -60.0]], HONEST])
NOBODY = []
# Absent, and of those present who send NaN; f = 2.
COHORTS = {
    'all': (NOBODY, NOBODY),
    'absent': ([1, 2], NOBODY),
    'nan': (NOBODY, [3]),
    'both': ([1, 2], [3]),
    # Of 5 clients with NaN 3 are left, too few for f = 2.
    'fewer': ([1, 2, 8, 7], [3, 4]),
}


def _distances(x, z):
  return np.linalg.norm(x - z, axis=-1)


def _trimmed(x, f):
  return np.sort(x, axis=0)[f:len(x) - f].mean(axis=0)


def _median(x, f=0):
  del f
  return np.median(x, axis=0)


def _scores(x, f):
  return np.sort(_distances(x[:, None], x) ** 2)[:, 1:len(x) - f - 1].sum(1)


def _multi_krum(x, f):
  return x[np.argsort(_scores(x, f), kind='stable')[:len(x) - f]].mean(0)


def _mixed(x, f):
  nearest = np.argsort(_distances(x[:, None], x), kind='stable')
  return x[nearest[:, :len(x) - f]].mean(axis=1)


def _clipped(x, bound):
  return x * np.minimum(1, bound / _distances(x, 0))[:, None]


def _arc(x, f):
  kept = len(x) - 2 * f * (len(x) - f) // len(x)
  return _clipped(x, np.sort(_distances(x, 0))[kept - 1]).mean(axis=0)


def _weiszfeld(x, passes, start):
  z = start
  for _ in range(passes):
    distance = _distances(x, z)
    b = 1 / np.maximum(distance, 1e-6 * np.median(distance))
    z = b @ x / b.sum()
  return z


def _centered(x, steps, start, radius=None):
  for _ in range(steps):
    distance = _distances(x, start)
    r = radius or np.median(distance)
    start = start + ((x - start) * np.minimum(1, r / distance)[:, None]).mean(0)
  return start


# (messages, f) -> result; the first ones are in each run of the tests.
RULES = {
    'trimmed_mean[f=2]': _trimmed,
    'krum[f=2]': lambda x, f: x[np.argmin(_scores(x, f))],
    'geometric_median[passes=1]': lambda x, f: _weiszfeld(x, 1, _median(x)),
    'centered_clipping[steps=2,radius=0.1]':
        lambda x, f: _centered(x, 2, _median(x), 0.1),
    'mean': lambda x, f: x.mean(axis=0),
    'median': _median,
    'multi_krum[f=2]': _multi_krum,
    'geometric_median': lambda x, f: _weiszfeld(x, 8, _median(x)),
    'centered_clipping': lambda x, f: _centered(x, 3, _median(x)),
    'norm_clipping[f=2,radius=arc]': _arc,
    'norm_clipping[radius=2](median)': lambda x, f: _median(_clipped(x, 2)),
    'nnm[f=2](trimmed_mean)': lambda x, f: _trimmed(_mixed(x, f), f),
    # Buckets of one are the messages.
    'bucketing[s=1,f=2](trimmed_mean)': _trimmed,
}


def _left(cohort, sent, margin=0):
  """Returns the finite messages of those present, and what f is for them.

  It falls by the number of removed messages at most, and no further than until
  the rule is possible, n > 2 f + margin.
  """
  absent, nan = COHORTS[cohort]
  left = np.delete(sent, [*absent, *nan], axis=0)
  allowed = range(max(2 - len(nan), 0), 3)
  return left, max(f for f in allowed if len(left) > 2 * f + margin)


def _outputs(factory):
  """Yields (name of the cohort, output of its round)."""
  process = absence.leave_out_absent(factory).create(TYPE, WEIGHT)
  state = process.initialize()
  for cohort, (absent, nan) in COHORTS.items():
    values = SENT.copy()
    values[nan] = np.nan
    # What an absent client would send is far away.
    values[absent] = -1e3
    # Weights do not count beyond that.
    weights = np.arange(1, 10, dtype=np.float32)
    weights[absent] = 0
    yield cohort, process.next(state, list(values), list(weights))


@pytest.mark.parametrize('text', slow.beyond(5, RULES))
def test_a_rule_is_over_who_is_present(text):
  """Of 5 clients whose 2 NaN are removed, krum with f = 0 has enough."""
  for cohort, output in _outputs(robust.build_factory(text)):
    expected = RULES[text](*_left(cohort, SENT, margin=2 * ('krum' in text)))
    np.testing.assert_allclose(
        output.result, expected, rtol=1e-6, err_msg=cohort
    )
    num_nan = len(COHORTS[cohort][1])
    assert output.measurements['num_non_finite'] == num_nan
    assert output.measurements['impossible'] == 0


@pytest.mark.parametrize('wrap, as_array', [
    (tff.aggregators.clipping_factory, lambda x: _clipped(x, 50.0)),
    (tff.aggregators.zeroing_factory,
     lambda x: np.where(abs(x).max(1, keepdims=True) > 50.0, 0, x)),
])
@pytest.mark.parametrize('text', slow.beyond(1, [
    'trimmed_mean[f=2]', 'centered_clipping[steps=2,radius=0.1]',
    'nnm[f=2](trimmed_mean)',
]))
def test_a_wrapped_rule_is_over_who_is_present(text, wrap, as_array):
  for cohort, output in _outputs(wrap(50.0, robust.build_factory(text))):
    # What TFF clips is float32 inside.
    np.testing.assert_allclose(
        output.result, RULES[text](*_left(cohort, as_array(SENT))),
        rtol=1e-5, err_msg=cohort,
    )
