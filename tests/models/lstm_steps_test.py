"""The gradient of the LSTM's steps is that of what they compute."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.models import lstm_steps
from tff_pers.numerics import low_rank

LENGTH, BATCH, UNITS = 5, 3, 4


@pytest.fixture(name='values', scope='module')
def _values():
  """Returns inputs and the recurrent kernel, in double precision."""
  rng = np.random.default_rng(0)
  return (
      tf.constant(rng.normal(size=(LENGTH, BATCH, 4 * UNITS))),
      tf.constant(rng.normal(size=(UNITS, 4 * UNITS))),
  )


def _loss(inputs, recurrent):
  # The sine makes every step and unit count differently, and bends the loss.
  return tf.reduce_sum(tf.sin(
      3 * lstm_steps.hidden_states(inputs, recurrent)
  ))


def _derived(recurrent):
  """Returns a form of the kernel that TensorFlow differentiates by itself."""
  nothing = tf.zeros([1, UNITS], recurrent.dtype)
  return low_rank.UpdatedMatrix(
      recurrent, nothing, tf.zeros([1, 4 * UNITS], recurrent.dtype)
  )


def _gradients(values, form):
  with tf.GradientTape() as tape:
    tape.watch(values)
    loss = _loss(values[0], form(values[1]))
  return tape.gradient(loss, values)


def _second(values, form):
  """Returns gradients of a sum of squares of gradients."""
  with tf.GradientTape() as tape:
    tape.watch(values)
    size = tf.add_n([
        tf.reduce_sum(g ** 2) for g in _gradients(values, form)
    ])
  return tape.gradient(size, values)


@pytest.mark.parametrize('order', [_gradients, _second])
@pytest.mark.parametrize('wrap', [lambda f: f, tf.function])
def test_is_what_tensorflow_derives(values, order, wrap):
  expected = wrap(lambda: order(values, _derived))()
  for found, other in zip(wrap(lambda: order(values, lambda k: k))(), expected):
    np.testing.assert_allclose(found, other, rtol=1e-10, atol=1e-12)


def test_many_clients_at_a_time(values):
  """The gradient can be vectorized over clients."""
  inputs, recurrent = values
  scales = tf.constant([1.0, 0.5], inputs.dtype)
  found = tf.vectorized_map(
      lambda scale: tuple(
          _gradients((inputs, scale * recurrent), lambda k: k)
      ), scales,
  )
  for c, scale in enumerate(scales):
    expected = _gradients((inputs, scale * recurrent), lambda k: k)
    for own, other in zip(found, expected):
      np.testing.assert_allclose(own[c], other, rtol=1e-10, atol=1e-12)
