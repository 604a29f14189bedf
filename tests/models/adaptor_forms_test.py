"""Forms and ranks of adaptors: floral checks 2 and 4."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.models import adaptor_forms
from tff_pers.models import adaptor_layers
from tff_pers.models import adaptors
from tff_pers.models import zoo

MIX = (0.2, 0.5, 0.3)


def _convolution(x, kernel, stride, dilation, padding):
  """A product with patches: has gradients on the CPU where TF's has none.

  Args:
    x: [batch, height, width, in].
    kernel: [k1, k2, in, out].
    stride: Of both axes, (int, int).
    dilation: Of both axes, (int, int).
    padding: 'VALID' or 'SAME'.
  """
  k1, k2, _, channels = kernel.shape
  patches = tf.image.extract_patches(
      x, [1, k1, k2, 1], [1, *stride, 1], [1, *dilation, 1], padding
  )
  return tf.matmul(patches, tf.reshape(kernel, [-1, channels]))


# Axes of the window over which each factor moves: (V, U).
WINDOWS = {
    'in': ('hw', ''),
    'out': ('', 'hw'),
    'reshaped_linear': ('', 'hw'),
    'balanced_2d': ('h', 'w'),
    'filter_wise': ('h', 'w'),
}


def _two_steps(x, v, u, windows, stride, dilation, padding):
  """U * (V * x): each factor strides along its own axes of the window.

  Args:
    x: [batch, height, width, in].
    v: [r, *window of V, in].
    u: [r, *window of U, out].
    windows: ('h' or 'w' or 'hw' or '') for V and for U.
    stride: Of the whole convolution.
    dilation: Of the whole convolution.
    padding: Of the whole convolution.
  """
  def apply(x, kernel, window):
    for axis, letter in enumerate('hw'):
      kernel = kernel if letter in window else tf.expand_dims(kernel, axis)
    along = ['h' in window, 'w' in window]
    return _convolution(
        x, kernel, [stride if yes else 1 for yes in along],
        [dilation if yes else 1 for yes in along], padding,
    )
  # V as [*window, in, r], U as [*window, r, out].
  v = tf.transpose(v, [*range(1, v.shape.rank), 0])
  u = tf.transpose(
      u, [*range(1, u.shape.rank - 1), 0, u.shape.rank - 1]
  )
  return apply(apply(x, v, windows[0]), u, windows[1])


def _check_both_forwards(shape, conv_form, windows, stride, dilation, padding):
  """Compares two steps with one merged kernel: values and gradients."""
  rng = np.random.default_rng(1)
  layer = adaptor_layers.LowRank(
      adaptor_forms.convolution(shape, conv_form), rank=2
  )
  factors = tf.nest.map_structure(
      lambda t: tf.constant(rng.standard_normal(t.shape)),
      layer.init(tf.constant([1, 2], tf.int64), len(MIX), tf.float64),
  )
  x = tf.constant(rng.standard_normal((2, 8, 7, shape[2])))
  kernel = tf.constant(rng.standard_normal(shape))
  mix = tf.constant(MIX, tf.float64)
  strides = [stride] * 2, [dilation] * 2, padding

  def merged():
    delta = layer.mixed_delta(factors, mix)
    return _convolution(x, kernel + delta, *strides)

  def factorised():
    parts = [
        mix[c] * _two_steps(
            x, factors['v'][c], factors['u'][c], windows, stride, dilation,
            padding,
        )
        for c in range(len(MIX))
    ]
    return tf.add_n([_convolution(x, kernel, *strides), *parts])

  results = []
  for forward in (merged, factorised):
    with tf.GradientTape() as tape:
      tape.watch((factors, mix, kernel))
      loss = tf.reduce_sum(tf.tanh(forward() / 10))
    gradient = tape.gradient(loss, (factors, mix, kernel))
    results.append([loss, *tf.nest.flatten(gradient)])
  for one, two in zip(*results):
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)


STEPS = list(itertools.product((1, 2), (1, 2), ('VALID', 'SAME')))


@pytest.mark.parametrize('conv_form', sorted(WINDOWS))
def test_merged_kernel_is_two_convolutions(conv_form):
  """floral check 2, square kernels; each multiplicity of products included."""
  for stride, dilation, padding in STEPS:
    _check_both_forwards(
        (3, 3, 2, 4), conv_form, WINDOWS[conv_form], stride, dilation, padding
    )


@pytest.mark.parametrize(
    'shape, windows',
    # (out k2 + in k1) against (out k1 + in k2): the longer side of the window
    # goes to the side of fewer channels.
    [
        ((3, 1, 2, 4), ('h', 'w')), ((1, 3, 2, 4), ('w', 'h')),
        ((3, 2, 4, 2), ('w', 'h')), ((2, 3, 4, 2), ('h', 'w')),
    ],
)
def test_window_is_split_the_cheaper_way(shape, windows):
  """Kernels that are not square: trap 8 of the sheet."""
  for stride, dilation, padding in STEPS:
    _check_both_forwards(
        shape, 'balanced_2d', windows, stride, dilation, padding
    )
  k1, k2, c_in, c_out = shape
  form = adaptor_forms.convolution(shape, 'balanced_2d')
  assert form.parameters_per_rank == min(
      c_out * k2 + c_in * k1, c_out * k1 + c_in * k2
  )


def test_balanced_gives_the_window_to_fewer_channels():
  for shape, same in (((3, 3, 2, 4), 'in'), ((3, 3, 4, 2), 'out')):
    assert adaptor_forms.convolution(shape, 'balanced') == (
        adaptor_forms.convolution(shape, same)
    )


def test_out_layer_is_the_reshaped_matrix():
  """floral check 2: L[(k1 k2 i + k2 a + b), j] = sum_q U V."""
  k1, k2, c_in, c_out, rank = 3, 2, 4, 5, 2
  rng = np.random.default_rng(2)
  u = rng.standard_normal((1, rank, k1, k2, c_out))
  v = rng.standard_normal((1, rank, c_in))
  rows = u[0].transpose(3, 1, 2, 0).reshape(c_out * k1 * k2, rank)
  matrix = (rows @ v[0]).reshape(c_out, k1, k2, c_in)
  for conv_form in ('out', 'reshaped_linear'):
    layer = adaptor_layers.LowRank(
        adaptor_forms.convolution((k1, k2, c_in, c_out), conv_form), rank
    )
    delta = layer.mixed_delta(
        dict(u=tf.constant(u), v=tf.constant(v)), tf.constant([1.0], tf.float64)
    )
    np.testing.assert_allclose(delta, matrix.transpose(1, 2, 3, 0), rtol=1e-10)


@pytest.mark.parametrize(
    'conv_form, parameters',
    # Kernel 3 x 3, 4 -> 6 channels.
    [
        ('out', 6 * 9 + 4), ('in', 4 * 9 + 6), ('balanced', 4 * 9 + 6),
        ('balanced_2d', (6 + 4) * 3), ('filter_wise', (6 + 4) * 3 * 6),
        ('reshaped_linear', 6 * 9 + 4),
    ],
)
def test_parameters_of_a_form(conv_form, parameters):
  """floral check 4: the table of section 3.2."""
  form = adaptor_forms.convolution((3, 3, 4, 6), conv_form)
  assert form.parameters_per_rank == parameters


def _synthetic_linear():
  spec = tf.TensorSpec([None, 10], tf.float32)
  return zoo.build('linear_regression', spec, 0, num_targets=3)


def _zoo(name, shape, num_classes):
  return zoo.build(name, tf.TensorSpec([None, *shape], tf.float32), num_classes)


PAPER_MODELS = {
    'linear': (_synthetic_linear, 33),
    'synthetic_mlp': (lambda: _zoo('mlp_20', [10], 0), 241),
    'mnist_mlp': (lambda: _zoo('mlp_200', [784], 10), 159_010),
    'floral_cnn': (lambda: _zoo('floral_cnn', [32, 32, 3], 10), 87_178),
    'vgg8': (lambda: _zoo('vgg8', [32, 32, 3], 100), 1_264_388),
}


@pytest.mark.parametrize(
    'name, budget, rank_rule, ranks, parameters, percent, num_adaptors, extra',
    [
        ('linear', 0.01, 'paper', [1], 16, 48.48, 2, 96.97),
        ('linear', 0.1, 'paper', [1], 16, 48.48, 2, 96.97),
        ('synthetic_mlp', 0.01, 'paper', [1, 1], 72, 29.88, 4, 119.5),
        ('synthetic_mlp', 0.1, 'paper', [1, 1], 72, 29.88, 4, 119.5),
        ('mnist_mlp', 0.01, 'paper', [1, 1], 1_404, 0.88, 4, 3.53),
        ('mnist_mlp', 0.1, 'paper', [15, 1], 15_180, 9.55, 4, 38.19),
        ('floral_cnn', 0.01, 'paper', [1, 1, 1, 1], 1_795, 2.06, 4, 8.24),
        ('floral_cnn', 0.01, 'release', [1, 1, 1, 1], 1_795, 2.06, 4, 8.24),
        ('floral_cnn', 0.1, 'paper', [1, 6, 6, 1], 8_675, 9.95, 4, 39.80),
        ('floral_cnn', 0.1, 'release', [1, 4, 6, 1], 8_099, 9.29, 4, 37.16),
        ('vgg8', 0.01, 'paper', [1, 1, 1, 1, 3, 2, 2, 1], 13_409, 1.06, 10,
         10.61),
        ('vgg8', 0.01, 'release', [1, 1, 1, 1, 2, 2, 2, 1], 11_489, 0.91, 10,
         9.09),
        ('vgg8', 0.1, 'paper', [1, 3, 6, 12, 30, 25, 25, 8], 124_701, 9.86, 10,
         98.63),
        ('vgg8', 0.1, 'release', [1, 2, 4, 8, 20, 25, 25, 8], 102_477, 8.10,
         10, 81.05),
    ],
)
def test_ranks_and_sizes_of_the_papers_models(
    name, budget, rank_rule, ranks, parameters, percent, num_adaptors, extra
):
  """floral check 4: table 3.6, both formulas."""
  make, num_parameters = PAPER_MODELS[name]
  adapted = adaptors.floral(
      make(), num_adaptors, budget, rank_rule=rank_rule
  )
  found = [entry.adaptor.rank for entry in adapted.plan]
  assert [rank for rank in found if rank is not None] == ranks
  assert adapted.base.num_parameters == num_parameters
  assert adapted.parameters_per_adaptor == parameters
  # The table's percentages are rounded in its last digit.
  assert abs(100 * adapted.relative_budget - percent) <= 0.0051
  total = 100 * num_adaptors * adapted.relative_budget
  assert abs(total - extra) <= (0.0051 if extra < 100 else 0.051)


def test_rank_is_not_lost_to_rounding():
  """100 * 100 / 200 = 50 products per unit: 0.14 buys 7, in floats 7.000..01;
  0.58 buys 29, in floats 28.99..96."""
  form = adaptor_forms.Form((100, 100), (0,))
  assert 0.58 * 50 < 29
  assert adaptor_forms.budget_rank(form, 0.58, 'paper') == 29
  assert adaptor_forms.budget_rank(form, 0.14, 'paper') == 7
  assert adaptor_forms.budget_rank(form, 0.579, 'paper') == 28


@pytest.mark.parametrize('rank, clipped', [(0, 1), (2, 2), (9, 3)])
def test_rank_is_at_least_one_and_at_most_full(rank, clipped):
  """floral check 4: the minimum."""
  form = adaptor_forms.Form((10, 3), (0,))
  assert adaptor_forms.clip_rank(form, rank) == clipped
