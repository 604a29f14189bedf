"""The `rules` and `preparations` against NumPy, over the clients present.

Some are absent (weight 0), some send NaN, with the rule alone and inside of
TFF's clipping and zeroing.
"""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import slow
from tests.attacks import robust_mirror
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


def _arc(x, f):
  norms = robust_mirror.distances(x, 0)
  kept = len(x) - 2 * f * (len(x) - f) // len(x)
  return robust_mirror.clipped(x, np.sort(norms)[kept - 1]).mean(axis=0)


def _rule(text):
  return lambda x, f: robust_mirror.rule(text, f)(x, np.arange(len(x)))


# (messages, f) -> result; the first ones are in each run of the tests.
RULES = {
    'trimmed_mean[f=2]': _rule('trimmed_mean'),
    'krum[f=2]': _rule('krum'),
    'geometric_median[passes=1]':
        lambda x, f: robust_mirror.geometric_median(x, 1),
    'centered_clipping[steps=2,radius=0.1]':
        lambda x, f: robust_mirror.centered_clipping(x, 2, 0.1),
    'mean': _rule('mean'),
    'median': _rule('median'),
    'multi_krum[f=2]': _rule('multi_krum'),
    'geometric_median': _rule('geometric_median'),
    'centered_clipping': _rule('centered_clipping'),
    'norm_clipping[f=2,radius=arc]': _arc,
    'norm_clipping[radius=2](median)':
        lambda x, f: np.median(robust_mirror.clipped(x, 2), axis=0),
    'nnm[f=2](trimmed_mean)': _rule('nnm(trimmed_mean)'),
    # Buckets of one are the messages.
    'bucketing[s=1,f=2](trimmed_mean)': _rule('trimmed_mean'),
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
    (tff.aggregators.clipping_factory, lambda x: robust_mirror.clipped(x, 50.0)),
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
