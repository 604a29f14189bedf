"""Targets in thousands are trained on as scaled ones, and predicted as they are.
"""

import numpy as np
import tensorflow as tf

from tests import problems
from tff_pers.models import functional
from tff_pers.models import last_layer
from tff_pers.models import target_units
from tff_pers.models import zoo

_MEAN, _SCALE = 250_000.0, 90_000.0


def test_only_units_differ():
  raw = 5 * np.random.default_rng(0).normal(size=[9, 3]).astype(np.float32)
  x = raw / 5
  scaled = x[:, 0] - x[:, 1]
  base = zoo.build('mlp_50', tf.TensorSpec([None, 3], tf.float32), 0)
  model = target_units.in_units(base, _MEAN, _SCALE, x_scale=5.0)
  for one, other in ((base, model), (base.slim(0.5), model.slim(0.5))):
    weights = one.initial_weights(4)
    loss, gradient = one.loss_and_gradient(weights, problems.batch(x, scaled))
    in_units, same = other.loss_and_gradient(
        weights, problems.batch(raw, _MEAN + _SCALE * scaled)
    )
    np.testing.assert_allclose(in_units, loss, rtol=1e-5)
    for a, b in zip(tf.nest.flatten(gradient), tf.nest.flatten(same)):
      np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        other.predict(weights, raw, False, functional.init_key(0)),
        _MEAN + _SCALE * one.predict(weights, x, False, functional.init_key(0)),
        rtol=1e-6,
    )


def test_features_keep_their_neighbours():
  """kNN-Per looks at distances by their median, in which units cancel."""
  x = np.random.default_rng(0).normal(size=[6, 3]).astype(np.float32)
  base = zoo.build('mlp_50', tf.TensorSpec([None, 3], tf.float32), 0)
  weights, key = base.initial_weights(4), functional.init_key(0)
  phi = last_layer.of(base).predict(weights, x, key)[1]
  model = target_units.in_units(base, _MEAN, _SCALE)
  predictions, features = last_layer.of(model).predict(weights, x, key)
  np.testing.assert_allclose(
      predictions, model.predict(weights, x, False, key), rtol=1e-6
  )
  np.testing.assert_allclose((features - _MEAN) / _SCALE, phi, atol=1e-5)
