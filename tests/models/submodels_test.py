"""Sub-models: how many units, which, cut out and put back, and what they do."""

import dataclasses
import functools
import math

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.core import random
from tff_pers.models import submodels
from tff_pers.models import width_hyperparameters
from tff_pers.models import zoo

DTYPE = tf.float64
COLOR = tf.TensorSpec([None, 32, 32, 3], tf.float32)
IMAGE = tf.TensorSpec([None, 20, 26, 2], DTYPE)
SETTINGS = hypothesis.settings(
    derandomize=True, deadline=None, max_examples=12
)
# After the second pooling 2 x 3 pixels of 10 channels are flattened.
CNN = zoo.build('floral_cnn', IMAGE, 3, dtype=DTYPE, width=0.15)
MLP = zoo.build('mlp', tf.TensorSpec([None, 5], DTYPE), 3, DTYPE, width=0.05)
RESNET = zoo.build(
    'resnet18', tf.TensorSpec([None, 8, 8, 1], DTYPE), 3, DTYPE, width=0.1
)
MODELS = dict(cnn=CNN, mlp=MLP, resnet=RESNET)


def _parts(model, *widths):
  return submodels.Submodels(model, widths)


@functools.lru_cache(maxsize=None)
def _half(name):
  """Returns the sub-models of half the width; what they trace is kept."""
  return _parts(MODELS[name], 0.5)


def _weights(model):
  """Returns weights none of which is 0, biases included."""
  rng = np.random.default_rng(0)
  return tf.nest.map_structure(
      lambda spec: tf.constant(rng.uniform(0.1, 1, spec.shape) * rng.choice(
          [-0.5, 0.5], spec.shape
      ), spec.dtype), model.spec
  )


def _x(model):
  shape = [4, *model.x_spec.shape[1:]]
  return tf.constant(np.random.default_rng(1).standard_normal(shape), DTYPE)


def _predict(model, weights, training=False):
  return model.predict(weights, _x(model), training, random.key(0))


def _array(kept):
  return {group: np.asarray(own).tolist() for group, own in kept.items()}


# --- How many units. ---


@pytest.mark.parametrize(
    'units, width, floor, nearest, ceil',
    [
        (10, 0.35, 3, 4, 4),
        (64, 0.4, 25, 26, 26),
        (100, 0.07, 7, 7, 7),  # 7.000000000000001 in floats.
        (100, 0.29, 29, 29, 29),  # 28.999999999999996 in floats.
        (5, 0.5, 2, 2, 3),  # Halves to even.
        (7, 0.5, 3, 4, 4),
        (4, 0.01, 1, 1, 1),
        (8, 1.0, 8, 8, 8),
        (90, 0.35, 31, 32, 32),  # 31.499999999999996 in floats.
    ],
)
def test_numbers_become_whole(units, width, floor, nearest, ceil):
  """Baselines 7.1, B22."""
  found = [
      submodels.num_kept(units, width, rounding)
      for rounding in ('floor', 'round', 'ceil')
  ]
  assert found == [floor, nearest, ceil]
  assert submodels.num_kept(units, width) == nearest


@pytest.mark.parametrize(
    'name, num_classes, sizes',
    [
        ('resnet18', 10, {
            1.0: 11_173_962, 0.62: 4_293_347, 0.5: 2_797_610, 0.35: 1_373_160,
        }),
        ('resnet34', 100, {
            1.0: 21_328_292, 0.64: 8_769_303, 0.5: 5_349_636, 0.4: 3_423_974,
        }),
        ('resnet34', 200, {
            1.0: 21_379_592, 0.64: 8_802_203, 0.5: 5_375_336, 0.4: 3_444_574,
        }),
    ],
)
def test_published_sizes(name, num_classes, sizes):
  """FedHM 4.2, check A1: what the units say, and the models of the tiers."""
  model = zoo.build(name, COLOR, num_classes)
  parts = _parts(model, *sizes)
  for tier, size in enumerate(sizes.values()):
    kept = parts.num_kept(tier)
    total = 0
    for weight, axes in zip(model.layers, model.units):
      shape = [
          length if units is None else units.positions * kept[units.group]
          for length, units in zip(weight.shape, axes)
      ]
      total += math.prod(shape)
    assert total == size
    layers = parts.tiers[tier].layers
    assert sum(math.prod(weight.shape) for weight in layers) == size


# --- Which units. ---


def _one_layer(units, *widths):
  return _parts(problems.tiny_model(units), *widths)


@pytest.mark.parametrize(
    'units, count',
    [(c, q) for c in (4, 10, 64) for q in (1, 3, 7) if q <= c],
)
def test_windows_roll_over_all_units_alike(units, count):
  """Baselines 7.3: units (t + k) mod C; in C rounds each one q times."""
  parts = _one_layer(units, count / units)
  times = np.zeros(units, int)
  for t in range(5, 5 + units):
    own, = parts.rolling(0, tf.constant(t)).values()
    expected = sorted((t + k) % units for k in range(count))
    assert np.asarray(own).tolist() == expected
    times[own] += 1
  np.testing.assert_array_equal(times, np.full(units, count))


def test_layers_wrap_at_different_times():
  parts = _parts(CNN, 0.5)  # 5, 10 and 10 units.
  assert sorted(parts.groups.values()) == [5, 10, 10]
  found = _array(parts.rolling(0, tf.constant(4)))
  assert sorted(found.values()) == [[0, 4], [4, 5, 6, 7, 8], [4, 5, 6, 7, 8]]


def test_random_windows():
  """Without replacement; of other units for another key, and by layer."""
  parts = _one_layer(40, 0.25)
  drawn = [
      _array(parts.random(0, random.key(0, t, i)))['hidden']
      for t in range(3) for i in range(3)
  ]
  assert len(set(map(tuple, drawn))) == 9
  for own in drawn:
    assert len(set(own)) == 10 and own == sorted(own) and max(own) < 40
  again = _array(parts.random(0, random.key(0, 0, 0)))['hidden']
  assert again == drawn[0]
  two_layers = _array(_parts(MLP, 0.5).random(0, random.key(0)))
  assert two_layers['dense_0'] != two_layers['dense_1']


def test_random_windows_are_uniform():
  """Each unit in a quarter of 1600 draws, within 4 standard errors."""
  parts = _one_layer(8, 0.25)
  times = np.zeros(8)
  for i in range(1600):
    times[_array(parts.random(0, random.key(i)))['hidden']] += 1
  error = math.sqrt(1600 * 0.25 * 0.75)
  assert np.abs(times - 400).max() < 4 * error


# --- Cut out, and put back. ---


def _kept(draw, parts):
  """Returns any units, as many as the tier has, ascending."""
  return {
      group: tf.constant(sorted(draw(
          st.permutations(range(size))
      )[:parts.num_kept(0)[group]]))
      for group, size in parts.groups.items()
  }


def _check_places(model, parts, kept):
  """expand(extract(w)) = mask * w, and extract(expand(v)) = v."""
  weights = _weights(model)
  own = submodels.extract(model, weights, kept)
  assert [leaf.shape for leaf in own] == [
      leaf.shape for leaf in parts.tiers[0].spec
  ]
  back = submodels.expand(model, own, kept)
  mask = submodels.mask(model, kept)
  for leaf, is_kept, whole in zip(back, mask, weights):
    assert set(np.unique(is_kept)) <= {0.0, 1.0}
    np.testing.assert_array_equal(leaf, is_kept * whole)
  for leaf, again in zip(own, submodels.extract(model, back, kept)):
    np.testing.assert_array_equal(leaf, again)
  replaced = submodels.replace(
      model, weights, tf.nest.map_structure(tf.zeros_like, own), kept
  )
  for leaf, is_kept, whole in zip(replaced, mask, weights):
    np.testing.assert_array_equal(leaf, (1 - is_kept) * whole)


@pytest.mark.parametrize('name', ['cnn', 'mlp'])
@SETTINGS
@hypothesis.given(data=st.data())
def test_what_is_put_back_is_what_was_cut_out(name, data):
  parts = _half(name)
  _check_places(MODELS[name], parts, _kept(data.draw, parts))


@pytest.mark.parametrize('window', ['random', 'wraps'])
def test_what_is_put_back_into_a_residual_network(window):
  parts = _half('resnet')
  kept = parts.random(0, random.key(3))
  if window == 'wraps':
    kept = parts.rolling(0, tf.constant(4))
    # Of 6 units three, from unit 4 on.
    assert _array(kept)['stem/conv'] == [0, 4, 5]
  _check_places(RESNET, parts, kept)


@pytest.mark.parametrize('name', ['cnn', 'mlp'])
@SETTINGS
@hypothesis.given(data=st.data())
def test_sub_model_computes_what_the_masked_model_computes(name, data):
  """A unit whose weights are 0 gives relu(0) = 0, also at every pixel."""
  model, parts = MODELS[name], _half(name)
  kept = _kept(data.draw, parts)
  weights = _weights(model)
  masked = tf.nest.map_structure(
      tf.multiply, weights, submodels.mask(model, kept)
  )
  np.testing.assert_allclose(
      _predict(parts.tiers[0], submodels.extract(model, weights, kept)),
      _predict(model, masked), rtol=1e-10, atol=1e-12,
  )


def _norms_dropped(model):
  """Returns `predict` of a ResNet-18 without its norms, in NumPy's words.

  A ReLU network of the convolutions and the shortcuts alone, from the names of
  the weights, apart from how the model is made.
  """

  def conv(x, kernel, stride):
    side = kernel.shape[0] // 2
    x = tf.pad(x, [[0, 0], [side, side], [side, side], [0, 0]])
    return tf.nn.conv2d(x, kernel, stride, 'VALID')

  def predict(weights, x):
    named = {w.name: leaf for w, leaf in zip(model.layers, weights)}
    x = tf.nn.relu(conv(x, named['stem/conv/kernel'], 1))
    for stage in range(1, 5):
      for block in range(2):
        name = f'stage{stage}/block{block}'
        stride = 2 if stage > 1 and block == 0 else 1
        path = tf.nn.relu(conv(x, named[f'{name}/conv1/kernel'], stride))
        path = conv(path, named[f'{name}/conv2/kernel'], 1)
        shortcut = named.get(f'{name}/shortcut/conv/kernel')
        x = tf.nn.relu(
            path + (x if shortcut is None else conv(x, shortcut, stride))
        )
    return tf.matmul(tf.reduce_mean(x, [1, 2]), weights[-2]) + weights[-1]

  return predict


@pytest.mark.parametrize('seed', range(3))
def test_residual_connections_add_the_same_units(seed):
  """With the norms taken out, whole and masked is cut: any units, any tie."""
  kept = _half('resnet').random(0, random.key(seed))
  weights = _weights(RESNET)
  predict = _norms_dropped(RESNET)
  masked = tf.nest.map_structure(
      tf.multiply, weights, submodels.mask(RESNET, kept)
  )
  x = _x(RESNET)
  np.testing.assert_allclose(
      predict(submodels.extract(RESNET, weights, kept), x),
      predict(masked, x), rtol=1e-10, atol=1e-12,
  )


def test_norms_of_a_residual_network_go_with_their_convolutions():
  axes = {w.name: a for w, a in zip(RESNET.layers, RESNET.units)}
  norms = [name for name in axes if '/norm' in name]
  assert len(norms) == 2 * (1 + 2 * 8 + 3)
  for name in norms:
    layer, _, _ = name.rpartition('/')
    kernel = layer.replace('norm', 'conv') + '/kernel'
    assert axes[name] == axes[kernel][-1:]


# --- The scaler. ---


def test_scaler_divides_before_the_norm_in_training_only():
  """Baselines 7.2; the logits of ReLU layers without biases are / rate^2."""
  rate = 0.25
  scaled = submodels.scaled(MLP, rate)
  weights = tuple(
      leaf if leaf.shape.rank == 2 else tf.zeros_like(leaf)
      for leaf in _weights(MLP)
  )
  np.testing.assert_allclose(
      _predict(scaled, weights, training=True),
      _predict(MLP, weights) / rate**2, rtol=1e-10,
  )
  np.testing.assert_array_equal(
      _predict(scaled, weights), _predict(MLP, weights)
  )
  assert submodels.scaled(MLP, 1.0) is MLP


def test_scaler_divides_biases_of_hidden_layers_too():
  model = problems.tiny_model()
  scaled = submodels.scaled(model, 0.5)
  w1, b1, w2, b2 = weights = _weights(model)
  expected = tf.matmul(
      tf.tanh((tf.matmul(_x(model), w1) + b1) / 0.5), w2
  ) + b2
  np.testing.assert_allclose(
      _predict(scaled, weights, training=True), expected, rtol=1e-10
  )


def test_norm_takes_the_scaler_out_again():
  """Behind it, the logits would be those of a smaller scale."""
  scaled = submodels.scaled(RESNET, 0.5)
  weights = _weights(RESNET)
  # Not exactly: 1e-5 is added to the variance.
  np.testing.assert_allclose(
      _predict(scaled, weights, training=True), _predict(RESNET, weights),
      rtol=1e-2,
  )
  assert submodels.has_norm(RESNET) and not submodels.has_norm(CNN)


# --- What devices deploy. ---


@pytest.mark.parametrize('name', ['cnn', 'mlp', 'resnet'])
def test_shapes_say_which_tier_weights_are_of(name):
  model = MODELS[name]
  parts = _parts(model, 1.0, 0.5, 0.5, 0.2)
  weights = _weights(model)

  @tf.function
  def deployed(tier):
    return parts.deployed.predict(
        parts.first_units(weights, tier), _x(model), False, random.key(0)
    )

  for tier in range(4):
    own = submodels.extract(model, weights, parts.static(tier))
    np.testing.assert_allclose(
        deployed(tf.constant(tier)), _predict(parts.tiers[tier], own),
        rtol=1e-10, atol=1e-12,
    )


def test_penalty_of_a_deployed_model_is_its_own():
  model = zoo.build('mlp_20', tf.TensorSpec([None, 5], DTYPE), 3, DTYPE, l2=0.1)
  parts = _parts(model, 1.0, 0.5)
  weights = _weights(model)
  own = submodels.extract(model, weights, parts.static(1))
  np.testing.assert_allclose(
      parts.deployed.penalty(own), 0.05 * sum(np.sum(w**2) for w in own),
      rtol=1e-10,
  )


def test_measures_that_were_added_are_those_of_the_tiers():
  model = dataclasses.replace(MLP, metrics={'own': MLP.metrics['accuracy']})
  assert list(_parts(model, 0.5).tiers[0].metrics) == ['own']


# --- Widths by name. ---


def test_widths_of_a_task_are_those_of_models_as_large():
  """FedHM A15: tiers 1, 1/4, 1/8, 1/16 of the perceptron there."""
  model = zoo.build('mlp_128', tf.TensorSpec([None, 32]), 10)
  values = width_hyperparameters.WidthHyperparameters()
  parts = values.submodels(model, (1, 1 / 4, 1 / 8, 1 / 16))
  assert [parts.num_kept(tier)['dense_0'] for tier in range(4)] == [
      round(128 * width) for width in (1, 0.742, 0.57, 0.469)
  ]
  smallest = dataclasses.replace(values, tiers='all_smallest').submodels(
      model, (1, 1 / 4, 1 / 8, 1 / 16)
  )
  assert smallest.widths == parts.widths[-1:] * 4
  given = dataclasses.replace(values, tiers='1:0.5').submodels(model, (1,))
  assert given.widths == (1.0, 0.5)


# --- Errors. ---


def test_raises_on_what_cannot_be_made_narrower():
  model = zoo.build('logistic_regression', tf.TensorSpec([None, 5]), 3)
  with pytest.raises(ValueError, match=(
      '`model` must be one whose hidden layers can be made narrower, found'
      ' logistic_regression. Tip: --model=mlp can.'
  )):
    _parts(model, 0.5)
  with pytest.raises(ValueError, match='can be made narrower, found least'):
    _parts(dataclasses.replace(MLP, units=None, name='least'), 0.5)
  for width in (0.0, 1.5):
    with pytest.raises(ValueError, match=r'in \(0, 1\], found'):
      _parts(MLP, width)
  with pytest.raises(ValueError, match='one of round, floor, ceil, found .up.'):
    submodels.num_kept(4, 0.5, 'up')


@pytest.mark.parametrize('tiers', ['', '1:2', '0:1', '1:nan'])
def test_raises_on_tiers_that_are_no_widths(tiers):
  with pytest.raises(ValueError, match='`tiers` must be all, all_smallest, or'):
    width_hyperparameters.WidthHyperparameters(tiers=tiers)
