"""The rules agree with those of byzfl 0.0.11, recorded by `record_byzfl`."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.aggregators import robust as by_name
from tff_pers.numerics import robust

CASES = json.loads(pathlib.Path(__file__).with_name('byzfl.json').read_text())
F = 3
OURS = {
    'Average': robust.mean,
    'Median': robust.median,
    'TrMean': lambda x: robust.trimmed_mean(x, F),
    'GeometricMedian': lambda x: robust.geometric_median(
        x, passes=3, start=tf.zeros_like(x[0]), smoothing=0.1
    ),
    # byzfl counts n - f - 1 neighbours, where Krum's paper has n - f - 2.
    'Krum': lambda x: robust.krum(x, F - 1),
    'MultiKrum': lambda x: robust.multi_krum(x, F - 1, len(x) - F),
    'CenteredClipping': lambda x: robust.centered_clipping(
        x, steps=3, start=tf.zeros_like(x[0]), radius=1.5
    ),
    'CAF': lambda x: robust.filtered_mean(x, F),
    'NNM': lambda x: robust.nearest_neighbour_mixing(x, F),
    'Clipping': lambda x: robust.clip_norms(x, 2.0),
    'ARC': lambda x: robust.clip_norms(x, robust.adaptive_norm(x, F)),
}


@pytest.mark.parametrize('name', OURS)
def test_rule_is_that_of_byzfl(name):
  for case in CASES:
    x = tf.constant(case['vectors'], tf.float64)
    np.testing.assert_allclose(
        OURS[name](x), case['results'][name], rtol=1e-10, atol=1e-10
    )


# byzfl's Krum is that of one Byzantine message less, see above.
@pytest.mark.parametrize('text, name, f', [
    ('mean', 'Average', F), ('median', 'Median', F), ('trimmed_mean', 'TrMean', F),
    ('krum', 'Krum', F - 1), ('multi_krum[m={}]', 'MultiKrum', F - 1),
    ('caf', 'CAF', F), ('nnm(mean)', 'NNM', F),
    ('norm_clipping[radius=2]', 'Clipping', F),
    ('norm_clipping[radius=arc]', 'ARC', F), ('bucketing[s=1](median)', 'Median', F),
])
def test_a_rule_by_its_name_is_that_of_byzfl(text, name, f):
  """Those whose options can be what byzfl has; preparations with the mean."""
  for case in CASES:
    x = tf.constant(case['vectors'], tf.float64)
    rule = by_name.parse(text.format(len(x) - F))
    expected = np.array(case['results'][name])
    if expected.ndim == 2:
      expected = expected.mean(axis=0)
    np.testing.assert_allclose(
        rule(x, f, np.int64([0, 0])), expected, rtol=1e-10, atol=1e-10
    )
