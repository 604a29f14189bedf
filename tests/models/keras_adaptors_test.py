"""Adaptors of Keras's attention and separable convolutions; frozen weights."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from tff_pers.core import random
from tff_pers.models import adaptors
from tff_pers.models import keras

L = tf.keras.layers
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
C = 3
X = np.random.default_rng(0).standard_normal


def _network(layer, shape):
  return tf.keras.Sequential([
      L.InputLayer(shape, dtype=tf.float64), layer,
      L.Flatten(dtype=tf.float64), L.Dense(3, dtype=tf.float64),
  ])


def _trained(adapted):
  """Returns weights <adaptors, base, router> far from their start."""
  rng = np.random.default_rng(0)
  return tf.nest.map_structure(
      lambda w: w + rng.normal(0, 0.5, w.shape).astype(w.dtype.as_numpy_dtype),
      adapted.as_model().initial_weights(0),
  )


def _check_layer(layer, shape, apply):
  """Compares the layer's merged forward with `apply`, which merges nothing.

  Args:
    layer: A Keras layer of float64 with a kernel and maybe a bias.
    shape: Of its input, without the batch.
    apply: `(x, kernel, factors v, factors u, mix) -> outputs` without bias.
  """
  network = _network(layer, shape)
  adapted = adaptors.floral(keras.from_keras(network, LOSS), C, rank=2)
  weights = _trained(adapted)
  mix = tf.nn.softmax(weights['router']).numpy()
  factors = weights['adaptors'][0]
  x = X((4, *shape))
  expected = apply(
      x, weights['base'][0].numpy(), factors['v'].numpy(), factors['u'].numpy(),
      mix,
  )
  if layer.bias is not None:
    biases = weights['adaptors'][1].numpy()
    expected += weights['base'][1].numpy() + np.tensordot(mix, biases, 1)
  network.set_weights(adapted.merge(weights, weights['router']))
  np.testing.assert_allclose(layer(x), expected, rtol=1e-6, atol=1e-9)
  # The adapted model runs the merged network, without touching its variables.
  np.testing.assert_allclose(
      adapted.as_model().predict(weights, tf.constant(x), False, random.key(0)),
      network(x), rtol=1e-6, atol=1e-9,
  )


EQUATIONS = [
    # Equation, shape of x, of the output, axes of the bias, axes of V and U.
    ('ab,bc->ac', [4], [5], 'c', 'b', 'c'),
    ('abc,cd->abd', [2, 4], [None, 5], 'd', 'c', 'd'),
    ('...x,xy->...y', [2, 4], 5, 'y', 'x', 'y'),
    ('abc,cde->abde', [2, 4], [None, 2, 3], 'de', 'c', 'de'),  # Query.
    ('abcd,cde->abe', [2, 2, 3], [None, 5], 'e', 'cd', 'e'),  # Its output.
    ('abc,dce->abde', [2, 4], [None, 2, 3], 'de', 'c', 'de'),  # Not the first.
    ('abc,bcd->abd', [2, 4], [2, 5], 'bd', 'c', 'bd'),  # One matrix per b.
    ('abc,bd->adc', [3, 4], [5, None], None, 'b', 'd'),  # Along another axis.
]


@pytest.mark.parametrize(
    'equation, shape, output_shape, bias_axes, v_axes, u_axes', EQUATIONS
)
@pytest.mark.parametrize('has_bias', [True, False])
def test_einsum_with_factors_is_that_with_the_merged_kernel(
    equation, shape, output_shape, bias_axes, v_axes, u_axes, has_bias
):
  """floral check 2 for the projections of attention."""
  inputs, kernel_axes, outputs = equation.replace('->', ',').split(',')

  def apply(x, kernel, v, u, mix):
    terms = [
        np.einsum(
            f'{inputs},r{v_axes},r{u_axes}->{outputs}', x, v[c], u[c]
        )
        for c in range(C)
    ]
    base = np.einsum(f'{inputs},{kernel_axes}->{outputs}', x, kernel)
    return base + np.tensordot(mix, terms, 1)

  _check_layer(
      L.EinsumDense(
          equation, output_shape, bias_axes=bias_axes if has_bias else None,
          dtype=tf.float64,
      ),
      shape, apply,
  )


@pytest.mark.parametrize('equation, shape, output_shape', [
    ('ab,b->ab', [4], [4]), ('ab,b->a', [4], []),
])
def test_kernels_that_are_no_matrix_have_full_adaptors(
    equation, shape, output_shape
):
  layer = L.EinsumDense(equation, output_shape, dtype=tf.float64)
  network = tf.keras.Sequential([L.InputLayer(shape, dtype=tf.float64), layer])
  model = keras.from_keras(
      network, 'mse', y_spec=tf.TensorSpec([None, *output_shape], tf.float64)
  )
  adapted = adaptors.floral(model, C)
  assert adapted.initial_adaptors(0)[0].shape == [C, 4]


@pytest.mark.parametrize('multiplier', [1, 2])
@pytest.mark.parametrize('options', [
    dict(strides=2, padding='same'), dict(dilation_rate=2, padding='valid'),
])
def test_depthwise_windows_are_shared_by_the_channels(multiplier, options):
  """Each of the r windows slides over every channel; U weighs the outputs."""
  strides = options.get('strides', 1)
  dilation = options.get('dilation_rate', 1)

  def slide(x, kernel):
    return tf.nn.depthwise_conv2d(
        x, kernel, [1, strides, strides, 1], options['padding'].upper(),
        dilations=[dilation, dilation],
    ).numpy()

  def apply(x, kernel, v, u, mix):
    total = slide(x, kernel)
    for c in range(C):
      for window, share in zip(v[c], u[c]):
        one = np.tile(window[:, :, None, None], [1, 1, 3, 1])
        # [batch, height, width, in] to [..., in, multiplier], in Keras's order.
        moved = slide(x, one)[..., None] * share
        total = total + mix[c] * moved.reshape(total.shape)
    return total

  _check_layer(
      L.DepthwiseConv2D(
          (2, 3), depth_multiplier=multiplier, dtype=tf.float64, **options
      ),
      [7, 8, 3], apply,
  )


def test_what_weights_of_attention_and_separable_convolutions_are():
  inputs = tf.keras.Input([6, 6, 4])
  x = L.SeparableConv2D(8, 3, depth_multiplier=2)(inputs)
  x = L.Reshape([16, 8])(x)
  x = L.MultiHeadAttention(2, 3, output_shape=5)(x, x)
  network = tf.keras.Model(inputs, L.Dense(3, name='head')(x[:, 0]))
  adapted = adaptors.floral(keras.from_keras(network, LOSS), C, rank=2)
  found = {
      entry.weight.name: (entry.weight.kind, entry.adaptor.shapes(1))
      for entry in adapted.plan if entry.weight.kind != 'bias'
  }
  depthwise = dict(u=(1, 2, 4, 2), v=(1, 2, 3, 3))
  # A 1 x 1 convolution: its window has a place in both factors.
  pointwise = dict(u=(1, 2, 1, 8), v=(1, 2, 1, 8))
  projection = ('einsum', dict(u=(1, 2, 2, 3), v=(1, 2, 8)))
  assert found == {
      'separable_conv2d/depthwise_kernel': ('depthwise', depthwise),
      'separable_conv2d/pointwise_kernel': ('conv', pointwise),
      'query/kernel': projection, 'key/kernel': projection,
      'value/kernel': projection,
      'attention_output/kernel': ('einsum', dict(u=(1, 2, 5), v=(1, 2, 2, 3))),
      'head/kernel': ('dense', dict(u=(1, 2, 3), v=(1, 2, 5))),
  }
  # The predicate chooses among them, e.g. as LoRA's authors did.
  chosen = adaptors.floral(
      adapted.base, C, rank=2,
      predicate=lambda weight: weight.layer in ('query', 'value'),
  )
  assert [e.weight.layer for e in chosen.plan if e.adaptor is not None] == [
      'query', 'query', 'value', 'value'
  ]


def test_releases_rank_is_for_convolutions_alone():
  """A kernel [d, heads, size, groups] is none, though it has four axes."""
  layer = L.EinsumDense('ab,bcde->acde', [4, 8, 2])
  network = tf.keras.Sequential([L.InputLayer([32]), layer, L.Flatten()])
  model = keras.from_keras(network, LOSS)
  ranks = [
      adaptors.floral(model, C, 0.5, rank_rule=rule).plan[0].adaptor.rank
      for rule in ('paper', 'release')
  ]
  # 0.5 * 32 * 64 / (32 + 64) = 10.7.
  assert ranks == [10, 10]


class _Times(L.Layer):
  """Multiplies by a number that it keeps as an integer."""

  def build(self, shape):
    self.number = self.add_weight(
        'number', [], tf.int32, tf.ones_initializer(), trainable=False
    )

  def call(self, inputs):
    return inputs * tf.cast(self.number, inputs.dtype)


def _frozen(is_all=False):
  """A float64 network with a frozen kernel; all may be frozen."""
  network = tf.keras.Sequential([
      L.InputLayer([4], dtype=tf.float64),
      L.Dense(
          4, 'tanh', dtype=tf.float64, kernel_regularizer='l2', name='first'
      ),
      L.Dense(5, 'tanh', dtype=tf.float64, trainable=False),
      _Times(dtype=tf.float64),
      L.Dense(3, dtype=tf.float64, name='last'),
  ])
  network.layers[1].trainable = False
  if is_all:
    network.trainable = False
  return network


def _batch_x():
  return tf.constant(X((6, 4)))


@pytest.mark.parametrize('is_all', [False, True])
def test_frozen_kernels_have_adaptors_and_stay(is_all):
  network = _frozen(is_all)
  before = network.get_weights()
  adapted = adaptors.floral(keras.from_keras(network, LOSS), C, rank=1)
  model = adapted.as_model()
  start, weights, x = model.initial_weights(0), _trained(adapted), _batch_x()
  # Nothing but what is trainable is a weight; all kernels have adaptors.
  assert len(weights['base']) == (0 if is_all else 4)
  assert len(weights['adaptors']) == 6
  assert [w.shape for w in model.layers] == [
      leaf.shape for leaf in tf.nest.flatten(start)
  ]
  np.testing.assert_allclose(
      model.predict(start, x, False, random.key(0)), network(x), rtol=1e-10
  )
  merged = adapted.merge(weights, weights['router'])
  expected_penalty = 0.01 * np.sum(np.square(merged[0]))
  np.testing.assert_allclose(
      adapted.mixed(tf.nn.softmax(weights['router'])).penalty(weights),
      expected_penalty, rtol=1e-6,  # Keras has 0.01 in float32.
  )
  for variable, value in zip(network.get_weights(), before):
    np.testing.assert_array_equal(variable, value)
  # The second layer: its own values, and a change of rank 1 * C.
  mix = tf.nn.softmax(weights['router']).numpy()
  factors = weights['adaptors'][2]
  np.testing.assert_allclose(
      merged[2],
      before[2] + np.einsum('c,crn,crm->nm', mix, factors['v'], factors['u']),
      rtol=1e-10,
  )
  network.set_weights(merged)
  np.testing.assert_allclose(
      model.predict(weights, x, False, random.key(0)), network(x), rtol=1e-6
  )


def test_weights_return_in_the_order_of_keras():
  """Trainable weights come first in a model, but not in `get_weights`."""
  network = _frozen()
  network.layers[0].trainable = False
  adapted = adaptors.floral(keras.from_keras(network, LOSS), C, rank=1)
  weights = adapted.as_model().initial_weights(0)
  merged = adapted.merge(weights, weights['router'])
  assert len(weights['base']) == 2
  for found, expected in zip(merged, network.get_weights(), strict=True):
    np.testing.assert_array_equal(found, expected)


def test_frozen_weights_of_other_types_are_left_alone():
  network = tf.keras.Sequential([
      L.InputLayer([4]), L.Dense(4, dtype=tf.float64), L.Dense(3),
  ])
  network.layers[0].trainable = False
  adapted = adaptors.floral(keras.from_keras(network, LOSS), C)
  assert [entry.reason for entry in adapted.plan] == [
      'no adaptor for float64', 'no adaptor for float64', '', '',
  ]


def test_raises_where_frozen_weights_would_have_to_move():
  model = keras.from_keras(_frozen(is_all=True), LOSS)
  with pytest.raises(ValueError, match='must have weights that are trained'):
    fedavg.build_fedavg(model)
  adapted = adaptors.floral(model, C)
  with pytest.raises(ValueError, match='`center` must be false .*frozen'):
    adapted.center(adapted.as_model().initial_weights(0), [0.5, 0.3, 0.2])


def test_full_adaptors_leave_frozen_weights_alone():
  adapted = adaptors.full(keras.from_keras(_frozen(), LOSS), C)
  assert [entry.weight.layer for entry in adapted.plan] == [
      'first', 'first', 'last', 'last'
  ]
  weights = _trained(adapted)
  assert len(adapted.merge(weights, weights['router'])) == 4


def test_warns_where_the_budget_is_more_because_of_rank_one(caplog):
  """Kernel 4 x 3: rank 1 is 7 of 12; 300 x 200 has rank 1 for 0.83 %."""
  def warnings(shape, **options):
    caplog.clear()
    network = tf.keras.Sequential([L.InputLayer(shape[:1]), L.Dense(shape[1])])
    adaptors.floral(keras.from_keras(network, LOSS), C, **options)
    return caplog.text

  text = warnings((4, 3))
  assert '58 % of the size of the kernels' in text
  assert 'more than the budget of 1 %' in text and 'no rank is below 1.' in text
  assert 'Tip: min_rank=4 sends more' in text
  assert 'no rank is below 2. That costs bytes' in warnings((9, 8), min_rank=2)
  assert 'budget of 10 %' in warnings((4, 3), budget=0.1)
  assert not warnings((4, 3), rank=1)
  assert not warnings((4, 3), budget=0.6)
  assert not warnings((300, 200))
