"""Embeddings and LSTM layers as pure functions of their weights.

Adaptive Federated Optimization (sizes of both networks)
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. ICLR 2021.
    https://arxiv.org/abs/2003.00295
"""

from typing import Optional

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import initial_weights
from tff_pers.models import lstm_steps
from tff_pers.models import zoo_layers as zl

_EMBEDDING_LIMIT = 0.05  # As in Keras.


def layers(
    num_tokens: int, length: int, embedding: int, lstm_units: tuple[int, ...],
    projection: Optional[int] = None,
) -> list[zl.MakeLayer]:
  """Returns the layers of a network from tokens to logits of the next token.

  x is int[batch, length], the output [batch, length, num_tokens]. If there is a
  `projection`, a linear layer of so many units precedes the last one.
  """
  # Dense layers treat each position as an example.
  tail = [zl.dense(projection)] if projection else []
  return [
      embed(num_tokens, embedding),
      *(lstm(f'lstm_{i}', units) for i, units in enumerate(lstm_units)),
      zl.reshape(lstm_units[-1]), *tail, zl.dense(num_tokens),
      zl.reshape(length, num_tokens),
  ]


def embed(num_tokens: int, dimension: int) -> zl.MakeLayer:
  """int[batch, length] -> [batch, length, dimension], rows of a table."""
  table = (num_tokens, dimension)

  def apply(weights, x, *_):
    return tf.gather(weights[0], x)

  return lambda shape: zl.Layer(
      (table,), (*shape, dimension), apply,
      described=zl.layer_weights('embedding', dict(table='embedding'), [table]),
  )


def lstm(name: str, units: int) -> zl.MakeLayer:
  """[batch, length, n] -> [batch, length, units], all hidden states.

  As in `tf.keras.layers.LSTM`: kernels [n, 4 units] and [units, 4 units] and
  one bias, gates in the order input, forget, cell, output.
  """

  def apply(weights, x, *_):
    return lstm_steps.outputs(x, *weights)

  def make(shape):
    length, inputs = shape
    shapes = ((inputs, 4 * units), (units, 4 * units), (4 * units,))
    kinds = dict(kernel='dense', recurrent_kernel='dense', bias='bias')
    return zl.Layer(
        shapes, (length, units), apply,
        described=zl.layer_weights(name, kinds, shapes),
    )

  return make


def initial_weight(
    weight: functional.LayerWeight, seed: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Returns a weight drawn as in Keras.

  Kernels are Glorot uniform, recurrent ones orthogonal, embeddings uniform;
  biases are zero, except for those of forget gates, which are one.
  """
  if weight.kind == 'embedding':
    limit = tf.constant(_EMBEDDING_LIMIT, dtype)
    return tf.random.stateless_uniform(weight.shape, seed, -limit, limit, dtype)
  if weight.name.endswith('recurrent_kernel'):
    return _orthogonal(weight.shape, seed, dtype)
  if weight.kind != 'bias' or not weight.name.startswith('lstm'):
    return initial_weights.glorot(weight, seed, dtype)
  units = weight.shape[0] // 4
  zeros = tf.zeros([units], dtype)
  return tf.concat([zeros, tf.ones([units], dtype), zeros, zeros], axis=0)


def _orthogonal(shape, seed, dtype):
  """Returns a matrix [n, 4 n] with orthonormal rows, uniformly distributed."""
  normal = tf.random.stateless_normal(shape[::-1], seed, dtype=dtype)
  q, r = tf.linalg.qr(normal)
  # Without the signs, Q would not be uniformly distributed.
  return tf.transpose(q * tf.sign(tf.linalg.diag_part(r)))
