"""Server optimizers on the scalar sequence of baselines 2.5 (check B11)."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.composition import server_optimizers

_UPDATES = (1.0, -0.5, 0.25)  # D of three rounds, eta_g = 0.1, w_0 = 0.
_BUILDERS = {
    'adagrad': server_optimizers.build_fedadagrad,
    'adam': server_optimizers.build_fedadam,
    'yogi': server_optimizers.build_fedyogi,
}


def _run(optimizer, dtype=tf.float64, updates=_UPDATES):
  """Returns w after each round; the server is given -D."""
  weights = tf.zeros(np.shape(updates[0]), dtype)
  state = optimizer.initialize(tf.TensorSpec(weights.shape, dtype))
  after = []
  for update in updates:
    state, weights = optimizer.next(
        state, weights, -tf.constant(update, dtype)
    )
    after.append(weights.numpy())
  return np.array(after)


@pytest.mark.parametrize(
    'name, options, expected',
    [
        ('adagrad', {}, (0.009990, 0.013565, 0.018884)),
        ('adagrad', dict(beta1=0.0), (0.099900, 0.055219, 0.077021)),
        ('adam', {}, (0.099005, 0.134605, 0.187840)),
        ('yogi', {}, (0.099005, 0.134464, 0.187246)),
    ],
)
def test_scalar_trajectory(name, options, expected):
  found = _run(_BUILDERS[name](**options))
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_the_heavy_ball_is_that_of_tff():
  found = _run(server_optimizers.build_heavy_ball(0.1, 0.9, tf.float64))
  np.testing.assert_allclose(found, (0.1, 0.14, 0.201), rtol=0, atol=1e-12)


def test_nesterov_looks_ahead():
  """m = 1, .4, .61; the step is eta (D + beta m), section 3 of the sheet."""
  found = _run(server_optimizers.build_nesterov(0.1, 0.9))
  steps = 0.1 * np.array([1 + 0.9 * 1, -0.5 + 0.9 * 0.4, 0.25 + 0.9 * 0.61])
  np.testing.assert_allclose(found, np.cumsum(steps), rtol=1e-12)


def test_adam_of_tff_corrects_the_bias():
  """Why ours is written here."""
  theirs = tff.learning.optimizers.build_adam(0.1, 0.9, 0.99, 1e-3)
  assert abs(_run(theirs, tf.float32)[1] - _run(_BUILDERS['adam']())[1]) > 5e-3


@pytest.mark.parametrize('name', _BUILDERS)
def test_v_starts_where_it_is_told(name):
  """With v_0 = 0 the first step of FedAdam is eta_g 0.1 / (0.1 + eps)."""
  first = _run(_BUILDERS[name](initial_v=0.0))[0]
  root = 1.0 if name == 'adagrad' else 0.1
  np.testing.assert_allclose(first, 0.1 * 0.1 / (root + 1e-3), rtol=1e-12)
  huge = _run(_BUILDERS[name](initial_v=1e6))
  assert np.all(np.abs(huge) < 1e-4)


@pytest.mark.parametrize('name', _BUILDERS)
def test_in_a_tff_computation_in_the_type_of_the_weights(name):
  optimizer = _BUILDERS[name]()
  for dtype in (np.float32, np.float64):
    spec = collections.OrderedDict(w=tff.TensorType(dtype, [2]))
    weights_type = tff.to_type(spec)

    @tff.tensorflow.computation
    def initialize():
      return optimizer.initialize(
          collections.OrderedDict(w=tf.TensorSpec([2], dtype))
      )

    state_type = initialize.type_signature.result

    @tff.tensorflow.computation(state_type, weights_type, weights_type)
    def step(state, weights, gradient):
      return optimizer.next(state, weights, gradient)

    state, weights = step(
        initialize(), dict(w=dtype([0, 0])), dict(w=dtype([-1, 1]))
    )
    assert step.type_signature.result[0].is_equivalent_to(state_type)
    assert weights['w'].dtype == dtype
    np.testing.assert_allclose(weights['w'][0], -weights['w'][1])
    assert weights['w'][0] > 0


def test_hyperparameters_can_be_changed_in_the_state():
  optimizer = _BUILDERS['yogi']()
  state = optimizer.initialize(tf.TensorSpec([], tf.float64))
  hparams = optimizer.get_hparams(state)
  assert list(hparams) == ['learning_rate', 'beta1', 'beta2', 'epsilon']
  changed = optimizer.set_hparams(state, dict(hparams, learning_rate=1.0))
  zero, one = tf.constant([0.0, 1.0], tf.float64)
  _, slow = optimizer.next(state, zero, one)
  _, fast = optimizer.next(changed, zero, one)
  np.testing.assert_allclose(fast, 10 * slow, rtol=1e-12)
