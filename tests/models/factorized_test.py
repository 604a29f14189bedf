"""Models of one capacity: which kernels have factors, their ranks and sizes."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import factorized
from tff_pers.models import functional
from tff_pers.models import zoo
from tff_pers.numerics import low_rank

COLOR = tf.TensorSpec([None, 32, 32, 3], tf.float32)
VECTOR = tf.TensorSpec([None, 32], tf.float32)


def _weight(layer, kind, shape):
  return functional.LayerWeight(f'{layer}/kernel', layer, kind, shape)


@pytest.mark.parametrize('shape, ratio, base, rank', [
    # 3 x 3, 64 -> 128: 128 gamma, as in the paper's tables, not 3 * 64 gamma.
    ((3, 3, 64, 128), 0.5, 'out_channels', 64),
    ((3, 3, 64, 128), 0.125, 'out_channels', 16),
    ((3, 3, 64, 128), 0.5, 'min_channels', 32),
    ((3, 3, 64, 128), 0.5, 'unrolled', 96),
    # Rounded, at least 1, at most the smaller side.
    ((20, 7), 0.25, 'out_channels', 2),
    ((20, 7), 0.01, 'out_channels', 1),
    ((3, 20), 0.5, 'out_channels', 3),
    ((20, 11), 0.6, 'out_channels', 7),
])
def test_rank(shape, ratio, base, rank):
  assert factorized.rank_of(shape, ratio, base) == rank


def test_what_stays_by_default():
  stem = _weight('conv_0', 'conv', (3, 3, 3, 8))
  middle = _weight('conv_1', 'conv', (3, 3, 8, 8))
  shortcut = _weight('conv_2', 'conv', (1, 1, 8, 16))
  norm = functional.LayerWeight('norm/scale', 'norm', 'norm', (16,))
  head = _weight('dense_3', 'dense', (16, 10))
  rule = factorized.layers_of_full_rank
  assert rule([stem, middle, shortcut, norm, head]) == (
      'conv_0', 'conv_2', 'dense_3'
  )
  assert rule([stem, head]) == ('dense_3',)
  assert rule([head]) == ()
  assert rule([stem, shortcut, head]) == ('conv_2', 'dense_3')


def test_sizes_of_a_network():
  """32-200-200-10 by hand; A15 has its own sizes in the test of its task."""
  model = zoo.build('mlp', VECTOR, 10)
  found = [
      factorized.Factorization(model, ratio).num_parameters
      for ratio in (1, 0.5, 0.25)
  ]
  rest = 33 * 200 + 200 + 201 * 10
  assert found == [
      rest + 200 * 200, rest + 100 * 400, rest + 50 * 400
  ]  # A square kernel at 1/2 does not shrink.
  for ratio, size in zip((1, 0.5, 0.25), found):
    assert factorized.Factorization(model, ratio).model.num_parameters == size


def test_ratio_one_is_the_model_itself():
  model = zoo.build('vgg8', COLOR, 10)
  whole = factorized.Factorization(model, 1.0)
  assert not whole.ranks and whole.num_parameters == model.num_parameters
  for found, expected in zip(
      whole.model.init(random.key(0)), model.init(random.key(0))
  ):
    np.testing.assert_array_equal(found, expected)
  # Factors of rank n_out would lose something: a 3 x 3 kernel has rank 3 n.
  assert factorized.rank_of((3, 3, 64, 64), 1.0) < 3 * 64


@pytest.fixture(scope='module', name='vgg')
def _vgg():
  return factorized.Factorization(zoo.build('vgg8', COLOR, 10, l2=0.1), 0.25)


def test_layers_and_weights_of_a_convolutional_network(vgg):
  names = [vgg.weights[position].name for position in vgg.ranks]
  assert names == [
      *(f'conv_{i}/kernel' for i in (1, 2, 3, 4)), 'dense_5/kernel',
      'dense_6/kernel',
  ]
  assert list(vgg.ranks.values()) == [8, 16, 32, 128, 128, 128]
  weights = vgg.model.init(random.key(0))
  leaves = tf.nest.flatten(weights)
  assert [tuple(leaf.shape) for leaf in leaves] == [
      weight.shape for weight in vgg.model.layers
  ]
  assert vgg.num_parameters == sum(int(tf.size(leaf)) for leaf in leaves)
  assert isinstance(weights[2], low_rank.Factors)
  assert weights[2].v.shape == [3, 1, 16, 8]
  assert weights[2].u.shape == [1, 3, 8, 32]


@pytest.mark.parametrize('takes_factors', [True, False])
def test_computes_what_the_recovered_weights_do(vgg, takes_factors):
  base = dataclasses.replace(vgg.base, takes_factors=takes_factors)
  own = dataclasses.replace(vgg, base=base)
  weights = own.model.init(random.key(0))
  x = np.random.default_rng(0).standard_normal((3, 32, 32, 3)).astype('f')
  whole = own.recovered(weights)
  np.testing.assert_allclose(
      own.model.predict(weights, x, True, random.key(1)),
      base.predict(whole, x, True, random.key(1)), atol=1e-5,
  )
  np.testing.assert_allclose(
      own.model.penalty(weights), base.penalty(whole), rtol=1e-5
  )


def test_lists_of_layers():
  model = zoo.build('vgg8', COLOR, 10)
  ranks = lambda **given: [
      own.weights[position].layer for own in (
          factorized.Factorization(model, 0.5, **given),
      ) for position in own.ranks
  ]
  assert ranks(full_rank=()) == [weight.layer for weight in model.layers[::2]]
  kept = ('conv_0', 'conv_1', 'dense_7')
  assert ranks(full_rank=kept) == [
      *(f'conv_{i}' for i in (2, 3, 4)), 'dense_5', 'dense_6'
  ]
  listed = dataclasses.replace(model, full_rank=kept)
  assert factorized.Factorization(listed, 0.5).ranks == (
      factorized.Factorization(model, 0.5, full_rank=kept).ranks
  )


def test_summary_names_ranks_and_sizes():
  found = factorized.Factorization(zoo.build('mlp', VECTOR, 10), 0.25).summary()
  rows = [line.split() for line in found.splitlines()]
  assert ['dense_1/kernel', 'dense', '200', 'x', '200', '50', '20000'] in rows
  assert ['dense_0/kernel', 'dense', '32', 'x', '200', 'full', '6400'] in rows
  whole = 33 * 200 + 201 * 200 + 201 * 10
  size = whole - 200 * 200 + 20000
  assert found.endswith(
      f'mlp: {size} of {whole} parameters ({size / whole:.2%}) at rank ratio'
      ' 0.25.'
  )
  assert math.isclose(size, 28_810)


@pytest.mark.parametrize('name', ['mlp_20', 'floral_cnn', 'resnet18'])
def test_slim_model_is_that_of_an_exhaustive_search(name):
  """At and between sizes, beyond them, and where two are equally near."""
  model = zoo.build(name, COLOR, 10)
  widths = [model.slim(k / 1000).layers for k in range(1, 1001)]
  sizes = [sum(math.prod(w.shape) for w in layers) for layers in widths]
  distinct = sorted(set(sizes))
  between = [(a + b) // 2 for a, b in zip(distinct, distinct[1:])]
  found = [0, 2 * distinct[-1]]
  for several in (distinct, between):
    found += [*several[:2], several[len(several) // 2], *several[-2:]]
  for target in found:
    nearest = min(range(1000), key=lambda k: abs(sizes[k] - target))
    assert factorized.slim(model, target).layers == widths[nearest]
  marked = dataclasses.replace(model, metrics=dict(model.metrics, a=len))
  assert factorized.slim(marked, 1000).metrics == marked.metrics


@pytest.mark.parametrize('given, message', [
    (dict(ratio=0.0), r'`ratio` must be in \(0, 1\], found 0.0'),
    (dict(ratio=1.5), r'`ratio` must be in \(0, 1\], found 1.5'),
    (dict(full_rank=('conv_9',)), "layers of mlp .dense_0, .* found 'conv_9'"),
    (dict(full_rank=('dense_0', 'dense_1', 'dense_2')), 'leave mlp a layer'),
])
def test_raises_on_wrong_argument(given, message):
  model = zoo.build('mlp', VECTOR, 10)
  with pytest.raises(ValueError, match=message):
    factorized.Factorization(model, **{'ratio': 0.5, **given})


def test_slim_needs_a_model_of_several_sizes():
  model = dataclasses.replace(zoo.build('mlp', VECTOR, 10), slim=None)
  with pytest.raises(ValueError, match='`model` must be one .* found mlp'):
    factorized.slim(model, 1000)
