"""Clients side by side compute what they compute one after another."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.runtime.fused import side_by_side

_CLIENTS, _BATCH = 3, 2


def _gradients(x, kernel, strides, padding):
  with tf.GradientTape() as tape:
    tape.watch([x, kernel])
    y = tf.nn.conv2d(x, kernel, strides, padding)
    loss = tf.reduce_sum(y ** 2)
  return y, *tape.gradient(loss, [x, kernel])


def _types(function, *tensors):
  """Returns the operations that the results of a traced function need."""
  graph = function.get_concrete_function(*tensors).graph
  needed = tf.compat.v1.graph_util.extract_sub_graph(
      graph.as_graph_def(), [t.op.name for t in tf.nest.flatten(graph.outputs)]
  )
  return {node.op for node in needed.node}


@pytest.mark.parametrize('size, extent, strides, padding', [
    ((6, 5), (3, 3), (1, 1), 'SAME'), ((6, 5), (3, 2), (1, 1), 'VALID'),
    ((7, 6), (3, 3), (2, 2), 'SAME'), ((8, 6), (3, 3), (2, 3), 'VALID'),
    ((6, 6), (1, 1), (3, 2), 'SAME'), ((5, 4), (5, 4), (1, 1), 'VALID'),
])
def test_all_at_once_is_one_after_the_other(size, extent, strides, padding):
  rng = np.random.default_rng(0)
  x = tf.constant(rng.normal(size=[_CLIENTS, _BATCH, *size, 3]), tf.float32)
  kernels = tf.constant(rng.normal(size=[_CLIENTS, *extent, 3, 4]), tf.float32)

  @tf.function(autograph=False)
  def together(x, kernels):
    with side_by_side.converted():
      return tf.vectorized_map(
          lambda pair: _gradients(*pair, strides, padding), (x, kernels),
          warn=False,
      )

  found = together(x, kernels)
  one_by_one = [
      _gradients(x[i], kernels[i], strides, padding) for i in range(_CLIENTS)
  ]
  for stacked, expected in zip(found, zip(*one_by_one)):
    np.testing.assert_allclose(stacked, tf.stack(expected), rtol=1e-5, atol=1e-4)
  kinds = _types(together, x, kernels)
  assert not any(kind.startswith('Conv2D') for kind in kinds)
  assert not any(kind.endswith('While') for kind in kinds)


def test_a_kernel_of_all_clients_is_one_convolution():
  x, kernel = tf.ones([_CLIENTS, _BATCH, 6, 6, 1]), tf.ones([3, 3, 1, 2])

  @tf.function(autograph=False)
  def together(x):
    with side_by_side.converted():
      return tf.vectorized_map(
          lambda each: tf.nn.conv2d(each, kernel, 1, 'SAME'), x, warn=False
      )

  assert 'Conv2D' in _types(together, x)


def test_large_images_go_one_by_one(monkeypatch):
  monkeypatch.setattr(side_by_side, '_MOST_BYTES', 1)
  x = tf.ones([_CLIENTS, _BATCH, 6, 6, 1])
  kernels = tf.ones([_CLIENTS, 3, 3, 1, 2])

  @tf.function(autograph=False)
  def together(x, kernels):
    with side_by_side.converted():
      return tf.vectorized_map(
          lambda pair: tf.nn.conv2d(*pair, 1, 'SAME'), (x, kernels), warn=False
      )

  assert 'StatelessWhile' in _types(together, x, kernels)  # With one in it.
  np.testing.assert_allclose(together(x, kernels)[0, 0, 2, 2], [9, 9])


@pytest.mark.parametrize('sizes', [(0, 0, 0), (2, 2, 2), (0, 2, 2)])
def test_a_branch_that_nobody_takes(sizes):
  """It has a tensor whose size is known at the client alone."""

  def client(size):
    return tf.cond(
        size > 0,
        lambda: tf.ones([4]) + tf.reduce_sum(tf.ones([size, 3]) * 2.0),
        lambda: tf.zeros([4]),
    )

  @tf.function(autograph=False)
  def together(sizes):
    with side_by_side.converted():
      return tf.vectorized_map(client, sizes, warn=False)

  np.testing.assert_array_equal(
      together(tf.constant(sizes)),
      [[1.0 + 6.0 * size if size else 0.0] * 4 for size in sizes],
  )
