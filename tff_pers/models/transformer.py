"""A small causal transformer, with or without bottleneck adapters.

Federated Learning with Partial Model Personalization (its language model)
    Pillutla, Malik, Mohamed, Rabbat, Sanjabi, Xiao. ICML 2022.
    https://arxiv.org/abs/2204.03809
Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity (sections 5.2 and 5.4; sizes: papers/partial_personalization.md)
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025.
    https://arxiv.org/abs/2305.18285
Parameter-Efficient Transfer Learning for NLP (adapters)
    Houlsby, Giurgiu, Jastrzebski, Morrone, de Laroussilhe, Gesmundo, Attariyan,
    Gelly. ICML 2019.

Normalization follows each sum, attention has no biases, and the embedding table
is also the output layer's kernel, as in the first paper's code. Its second
adapter changes what skips the feed-forward layers; here it changes their
output, as in Houlsby et al.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import zoo_layers as zl
from tff_pers.numerics import low_rank

_EPSILON = 1e-5
_STD = 0.02
_ADAPTER_STD = 0.01


class Sizes(NamedTuple):
  """Sizes of a transformer.

  Attributes:
    blocks: Number of blocks.
    heads: Number of heads, a divisor of `width`.
    width: Dimension d of the embedding and between blocks.
    hidden: Units of the feed-forward layer.
    adapter: Units h of each bottleneck adapter, two in a block; 0: none.
  """

  blocks: int
  heads: int
  width: int
  hidden: int
  adapter: int = 0


def network(sizes: Sizes, num_tokens: int) -> zl.MakeLayer:
  """Returns the network as one layer, from tokens to next-token logits.

  int[batch, length] -> [batch, length, num_tokens]. Position t depends only on
  tokens 0 to t.
  """

  def make(shape):
    length, = shape
    described = (
        functional.LayerWeight(
            'embedding/table', 'embedding', 'embedding',
            (num_tokens, sizes.width)
        ),
        functional.LayerWeight(
            'positions/table', 'positions', 'embedding', (length, sizes.width)
        ),
        *(w for i in range(sizes.blocks) for w in _block_weights(i, sizes)),
        functional.LayerWeight('output/bias', 'output', 'bias', (num_tokens,)),
    )

    def apply(weights, x, *_):
      table, positions, *blocks, bias = weights
      embedded = math.sqrt(sizes.width) * tf.gather(table, x)
      # Rows are positions: one product with a matrix is several times as fast
      # as one per example.
      rows = tf.reshape(tf.nn.relu(embedded + positions), [-1, sizes.width])
      size = len(blocks) // sizes.blocks
      for start in range(0, len(blocks), size):
        rows = _block(rows, blocks[start:start + size], length, sizes)
      logits = tf.matmul(rows, table, transpose_b=True) + bias
      return tf.reshape(logits, [-1, length, num_tokens])

    return zl.Layer(
        tuple(weight.shape for weight in described), (length, num_tokens),
        apply, described=described,
    )

  return make


def initial_weight(
    weight: functional.LayerWeight, seed: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Returns an initial weight: normal, with deviation 0.02, adapters 0.01."""
  if weight.name.endswith('/scale'):
    return tf.ones(weight.shape, dtype)
  if len(weight.shape) == 1:
    return tf.zeros(weight.shape, dtype)
  std = _ADAPTER_STD if weight.kind == 'adaptor' else _STD
  return tf.constant(std, dtype) * tf.random.stateless_normal(
      weight.shape, seed, dtype=dtype
  )


def _block_weights(block: int, sizes: Sizes):
  """Yields descriptions of the weights of a block, in the order of `_block`.

  All belong to one layer, so that splits treat a block as a whole.
  """
  layer, d = f'block_{block}', sizes.width
  for part in ('query', 'key', 'value', 'output'):
    yield _weight(layer, f'attention/{part}/kernel', 'dense', (d, d))
  yield from _adapter_weights(layer, 'adapter_0', sizes)
  yield from _norm_weights(layer, 'norm_0', d)
  for part, shape in (('up', (d, sizes.hidden)), ('down', (sizes.hidden, d))):
    yield _weight(layer, f'feed_forward/{part}/kernel', 'dense', shape)
    yield _weight(layer, f'feed_forward/{part}/bias', 'bias', shape[1:])
  yield from _adapter_weights(layer, 'adapter_1', sizes)
  yield from _norm_weights(layer, 'norm_1', d)


def _norm_weights(layer: str, name: str, width: int):
  for part in ('scale', 'offset'):
    yield _weight(layer, f'{name}/{part}', 'norm', (width,))


def _adapter_weights(layer: str, name: str, sizes: Sizes):
  if not sizes.adapter:
    return
  d, h = sizes.width, sizes.adapter
  for part, shape in (('down', (d, h)), ('up', (h, d))):
    yield _weight(layer, f'{name}/{part}', 'adaptor', shape)
    yield _weight(layer, f'{name}/{part}_bias', 'adaptor', shape[1:])


def _weight(layer: str, name: str, kind: str, shape) -> functional.LayerWeight:
  return functional.LayerWeight(f'{layer}/{name}', layer, kind, shape)


def _block(rows, weights, length: int, sizes: Sizes):
  """Returns rows [batch * length, d] after a block."""
  weights = iter(weights)
  take = lambda count: [next(weights) for _ in range(count)]

  def adapted(z):
    return _adapter(z, *take(4)) if sizes.adapter else z

  attended = adapted(_attention(rows, take(4), length, sizes))
  rows = _layer_norm(rows + attended, *take(2))
  up, up_bias, down, down_bias = take(4)
  hidden = tf.nn.relu(low_rank.matmul(rows, up) + up_bias)
  fed = adapted(low_rank.matmul(hidden, down) + down_bias)
  return _layer_norm(rows + fed, *take(2))


def _attention(rows, weights, length: int, sizes: Sizes):
  """Returns causal multi-head attention, [batch * length, d]."""
  query, key, value, output = weights
  size = sizes.width // sizes.heads

  def heads(kernel):
    """Returns [batch, heads, length, size]."""
    own = low_rank.matmul(rows, kernel)
    return tf.transpose(
        tf.reshape(own, [-1, length, sizes.heads, size]), [0, 2, 1, 3]
    )

  scores = tf.matmul(heads(query), heads(key), transpose_b=True)
  # Position t must not see later ones.
  earlier = np.tril(np.ones([length, length], bool))
  shares = tf.nn.softmax(tf.where(
      earlier, scores / math.sqrt(size), tf.constant(-np.inf, scores.dtype)
  ))
  mixed = tf.transpose(tf.matmul(shares, heads(value)), [0, 2, 1, 3])
  return low_rank.matmul(tf.reshape(mixed, [-1, sizes.width]), output)


def _layer_norm(rows, scale, offset):
  mean, variance = tf.nn.moments(rows, [1], keepdims=True)
  root = tf.math.rsqrt(variance + tf.constant(_EPSILON, rows.dtype))
  return (rows - mean) * root * scale + offset


def _adapter(rows, down, down_bias, up, up_bias):
  """d -> h -> d plus a skip connection, with ReLU in between."""
  return rows + tf.matmul(
      tf.nn.relu(tf.matmul(rows, down) + down_bias), up
  ) + up_bias
