"""ResNets for small images: sizes, layers, and what their parts compute."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import factorized
from tff_pers.models import resnet
from tff_pers.models import zoo
from tff_pers.models import zoo_layers as zl

COLOR = tf.TensorSpec([None, 32, 32, 3], tf.float32)


def _num_parameters(model):
  return sum(math.prod(weight.shape) for weight in model.layers)


@pytest.mark.parametrize(
    'name, num_classes, ratio, num_parameters',
    [
        ('resnet18', 10, 1.0, 11_173_962),
        ('resnet18', 10, 1 / 2, 4_157_514),
        ('resnet18', 10, 1 / 4, 2_209_866),
        ('resnet18', 10, 1 / 8, 1_236_042),
        ('resnet34', 100, 1.0, 21_328_292),
        ('resnet34', 100, 1 / 2, 8_401_316),
        ('resnet34', 100, 1 / 4, 4_985_252),
        ('resnet34', 100, 1 / 8, 3_277_220),
        ('resnet34', 100, 1 / 12, 2_707_748),
        ('resnet34', 100, 1 / 64, 1_782_692),
        ('resnet34', 200, 1 / 2, 8_452_616),
        ('resnet34', 200, 1 / 4, 5_036_552),
        ('resnet34', 200, 1 / 8, 3_328_520),
    ],
)
def test_published_sizes_of_tiers(name, num_classes, ratio, num_parameters):
  """Check A1 of FedHM: hybrids; narrower models are in `submodels_test`."""
  model = zoo.build(name, COLOR, num_classes)
  hybrid = factorized.Factorization(model, ratio)
  assert hybrid.num_parameters == num_parameters


def test_factorised_model_is_the_model_with_recovered_kernels():
  model = zoo.build(
      'resnet18', tf.TensorSpec([None, 9, 8, 3], tf.float64), 3,
      dtype=tf.float64, width=0.1,
  )
  hybrid = factorized.Factorization(model, 0.5)
  weights = hybrid.factorized(
      model.init(random.key(0)), random.key(1)
  )
  x = tf.random.stateless_normal([2, 9, 8, 3], [1, 2], dtype=tf.float64)
  np.testing.assert_allclose(
      hybrid.model.predict(weights, x, True, random.key(0)),
      model.predict(hybrid.recovered(weights), x, True, random.key(0)),
      rtol=1e-8,
  )


@pytest.mark.parametrize(
    'name, num_factorised, first', [
        ('resnet18', 14, 'stage1/block1/conv1'),
        ('resnet34', 18, 'stage3/block0/conv1'),
    ],
)
def test_full_rank_layers(name, num_factorised, first):
  """FedHM 2.4: stem, first blocks, shortcuts and classifier stay whole."""
  model = zoo.build(name, COLOR, 10)
  factorised = [
      weight for weight in model.layers
      if weight.kind in ('conv', 'dense')
      and weight.layer not in model.full_rank
  ]
  assert len(factorised) == num_factorised
  assert factorised[0].layer == first
  assert all(weight.shape[:2] == (3, 3) for weight in factorised)
  # P = a + b gamma for gamma < 1 (section 4.1): the part of full rank.
  whole = _num_parameters(model) - sum(
      math.prod(weight.shape) for weight in factorised
  )
  expected = dict(resnet18=262_218, resnet34=1_569_188 - 90 * 513)
  assert whole == expected[name]
  slope = sum(
      3 * (weight.shape[2] + weight.shape[3]) * weight.shape[3]
      for weight in factorised
  )
  assert slope == dict(resnet18=7_790_592, resnet34=13_664_256)[name]


def test_stride_two_pads_both_sides():
  """Trap 7.18 of FedHM: output i sees inputs 2i - 1, 2i, 2i + 1."""
  layer, = zl.stack([resnet.convolution('c', 3, 1, stride=2)], (6, 6, 1))
  assert layer.output_shape == (3, 3, 1)
  x = np.arange(1.0, 37).reshape(1, 6, 6, 1).astype(np.float32)
  kernel = np.zeros([3, 3, 1, 1], np.float32)
  kernel[0, 0] = 1.0  # The tap before the middle, of both axes.
  y = layer.apply((kernel,), x, True, None)[0, :, :, 0].numpy()
  expected = np.zeros([3, 3])
  expected[1:, 1:] = x[0, 1:5:2, 1:5:2, 0]
  np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    'channels, groups', [(64, 32), (48, 24), (6, 6), (40, 20), (37, 1)]
)
def test_group_normalization(channels, groups):
  layer, = zl.stack([resnet.group_norm('n')], (4, 4, channels))
  rng = np.random.default_rng(0)
  x = rng.normal(3.0, 2.0, [2, 4, 4, channels])
  scale, offset = rng.normal(size=[2, channels])
  grouped = x.reshape(2, 16, groups, -1)
  expected = (
      grouped - grouped.mean(axis=(1, 3), keepdims=True)
  ) / np.sqrt(grouped.var(axis=(1, 3), keepdims=True) + 1e-5)
  np.testing.assert_allclose(
      layer.apply((scale, offset), tf.constant(x), True, None),
      expected.reshape(x.shape) * scale + offset, rtol=1e-10, atol=1e-10,
  )


@pytest.mark.parametrize(
    'channels, groups', [(64, 32), (32, 16), (26, 13), (3, 1), (1, 1)]
)
def test_groups_of_one_pixel_have_two_values(channels, groups):
  """One alone would be normalized to 0, whatever it is."""
  layer, = zl.stack([resnet.group_norm('n')], (1, 1, channels))
  x = np.random.default_rng(0).normal(3.0, 2.0, [2, 1, 1, channels])
  y = layer.apply((np.ones(channels), np.zeros(channels)), tf.constant(x),
                  True, None)
  grouped = np.reshape(y, [2, groups, -1])
  np.testing.assert_allclose(grouped.mean(axis=2), 0, atol=1e-10)
  assert channels == 1 or np.all(np.abs(grouped).max(axis=2) > 0.5)


def test_block_adds_its_input():
  """With the last scale 0 a block is its shortcut."""
  model = zoo.build('resnet18', tf.TensorSpec([None, 8, 8, 3]), 3, width=0.05)
  names = [weight.name for weight in model.layers]
  weights = dict(zip(names, model.init(random.key(0))))
  x = tf.random.stateless_normal([2, 8, 8, 3], [1, 2])

  def predict(changed):
    return model.predict(
        tuple({**weights, **changed}.values()), x, True, random.key(0)
    ).numpy()

  kernel = 'stage1/block1/conv1/kernel'
  silent = {'stage1/block1/norm2/scale': tf.zeros([3])}
  other = {kernel: 2 * weights[kernel] + 1}
  # Nothing of the path is left, and yet the input comes through.
  np.testing.assert_array_equal(predict(silent), predict({**silent, **other}))
  assert np.abs(predict(silent)).max() > 0.01
  assert np.abs(predict({}) - predict(other)).max() > 1e-4


def test_initial_weights():
  model = zoo.build('resnet18', COLOR, 10, width=0.25)
  weights = dict(
      zip((w.name for w in model.layers), model.init(random.key(0)))
  )
  kernel = weights['stage4/block1/conv2/kernel']
  # 9 * 128 * 128 normals of variance 2 / (9 * 128): the sample variance has a
  # relative standard error of sqrt(2 / 147,456) = 0.0037.
  np.testing.assert_allclose(np.var(kernel), 2 / (9 * 128), rtol=0.015)
  # Scales are 1 and offsets 0.
  np.testing.assert_array_equal(weights['stem/norm/scale'], np.ones(16))
  np.testing.assert_array_equal(weights['stem/norm/offset'], np.zeros(16))
