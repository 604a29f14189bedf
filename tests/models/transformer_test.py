"""The transformer is the one of the papers, recomputed in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import transformer
from tff_pers.models import zoo_layers

LENGTH, NUM_TOKENS = 5, 9


def _norm(rows, scale, offset):
  centred = rows - rows.mean(axis=-1, keepdims=True)
  deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
  return centred / deviation * scale + offset


def _attention(z, query, key, value, output, heads):
  """One position and one head at a time."""
  size = z.shape[1] // heads
  mixed = np.zeros_like(z)
  for head in range(heads):
    part = slice(head * size, (head + 1) * size)
    q, k, v = ((z @ kernel)[:, part] for kernel in (query, key, value))
    for t in range(len(z)):
      scores = np.exp(k[:t + 1] @ q[t] / np.sqrt(size))
      mixed[t, part] = scores / scores.sum() @ v[:t + 1]
  return mixed @ output


def _network(weights, tokens, sizes):
  """Returns the logits of one sequence, [length, tokens]."""
  table = weights['embedding/table']
  z = np.maximum(
      np.sqrt(sizes.width) * table[tokens] + weights['positions/table'], 0
  )
  for block in range(sizes.blocks):
    own = {
        name.partition('/')[2]: value for name, value in weights.items()
        if name.startswith(f'block_{block}/')
    }

    def adapted(z, number, own=own):
      if not sizes.adapter:
        return z
      part = lambda name: own[f'adapter_{number}/{name}']
      hidden = np.maximum(z @ part('down') + part('down_bias'), 0)
      return z + hidden @ part('up') + part('up_bias')

    attended = _attention(
        z, *(own[f'attention/{part}/kernel']
             for part in ('query', 'key', 'value', 'output')), sizes.heads
    )
    z = _norm(z + adapted(attended, 0), own['norm_0/scale'],
              own['norm_0/offset'])
    up, down = (
        lambda z, part=part: z @ own[f'feed_forward/{part}/kernel']
        + own[f'feed_forward/{part}/bias'] for part in ('up', 'down')
    )
    fed = down(np.maximum(up(z), 0))
    z = _norm(z + adapted(fed, 1), own['norm_1/scale'], own['norm_1/offset'])
  return z @ table.T + weights['output/bias']


@pytest.mark.parametrize('adapter', [0, 3])
def test_outputs_match_numpy(adapter):
  sizes = transformer.Sizes(
      blocks=2, heads=2, width=8, hidden=12, adapter=adapter
  )
  layers = zoo_layers.stack(
      [transformer.network(sizes, NUM_TOKENS)], (LENGTH,)
  )
  described = zoo_layers.describe(layers)
  rng = np.random.default_rng(0)
  weights = [0.5 * rng.normal(size=weight.shape) for weight in described]
  x = rng.integers(0, NUM_TOKENS, [3, LENGTH])
  found = zoo_layers.apply_all(
      layers, [tf.constant(w) for w in weights], tf.constant(x), False,
      random.key(0),
  )
  named = dict(zip([weight.name for weight in described], weights))
  for row, tokens in zip(found, x):
    np.testing.assert_allclose(row, _network(named, tokens, sizes), rtol=1e-9)
