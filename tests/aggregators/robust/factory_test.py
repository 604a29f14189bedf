"""Rules as factories of TFF: what is sent, who counts, what is measured."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from tests import slow
from tff_pers.aggregators import robust

TYPE = tff.to_type(collections.OrderedDict(
    b=tff.TensorType(np.float32, [2]), a=(tff.TensorType(np.float64, [2, 1]),)
))
WEIGHT = tff.TensorType(np.float32)


def _value(vector):
  return collections.OrderedDict(
      b=np.float32(vector[:2]), a=(np.float64(vector[2:])[:, None],)
  )


def _vector(result):
  return np.concatenate([result['b'], result['a'][0][:, 0]])


def _messages(n):
  # Exact in float32.
  return np.random.default_rng(0).integers(-99, 99, (n, 4)) / 8.0


@functools.lru_cache(maxsize=1)
def _process(factory):
  return factory.create(TYPE, WEIGHT)


def _aggregate(factory, x, weights=None, state=None):
  process = _process(factory)
  return process.next(
      state or process.initialize(), [_value(row) for row in x],
      [np.float32(w) for w in weights or [1] * len(x)],
  )


def _expected(text, x):
  rule = robust.parse(text)
  return rule(tf.constant(x), max(rule.f, 0), np.int64([0, 0]))


@pytest.mark.parametrize('text', ['median', 'centered_clipping'])
def test_a_message_is_one_vector(text):
  """With one norm over its leaves, whose dtypes are kept."""
  x = _messages(7)
  result = _aggregate(robust.build_factory(text), x).result
  assert (result['b'].dtype, result['a'][0].dtype) == (np.float32, np.float64)
  np.testing.assert_allclose(_vector(result), _expected(text, x), rtol=1e-6)


def test_norm_is_not_of_each_leaf():
  x = np.float64([[3, 0, 4, 0], [0, 0, 0, 0], [30, 0, 40, 0]])
  result = _aggregate(robust.build_factory('norm_clipping[radius=5]'), x).result
  np.testing.assert_allclose(_vector(result), [2, 0, 8 / 3, 0], rtol=1e-6)


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf, 1e200])
def test_what_is_not_finite_is_removed_and_counted(bad):
  x = _messages(6)
  sent = np.insert(x, 2, [0, 0, bad, 0], axis=0)
  output = _aggregate(robust.build_factory('trimmed_mean[f=2]'), sent)
  # It may be that of an honest client: two of each side are trimmed.
  np.testing.assert_allclose(
      _vector(output.result), np.sort(x, 0)[2:-2].mean(0), rtol=1e-6
  )
  assert output.measurements['num_non_finite'] == 1
  assert output.measurements['impossible'] == 0


def test_f_does_not_fall_below_zero():
  x = _messages(2)
  sent = np.concatenate([x, np.full([2, 4], np.nan)])
  output = _aggregate(robust.build_factory('trimmed_mean[f=1]'), sent)
  np.testing.assert_allclose(_vector(output.result), x.mean(0), rtol=1e-6)
  assert output.measurements['num_non_finite'] == 2


def test_f_does_not_fall_by_more_than_was_removed():
  x = _messages(3)
  sent = np.concatenate([x, np.full([1, 4], np.nan)])
  output = _aggregate(robust.build_factory('trimmed_mean[f=3]'), sent)
  np.testing.assert_array_equal(_vector(output.result), np.zeros(4))
  assert output.measurements['impossible'] == 1


@pytest.mark.parametrize('text, least', slow.beyond(4, [
    ('median', 1), ('multi_krum[f=1,m=5]', 6), ('bucketing[f=1](krum)', 9),
    ('norm_clipping[f=2,radius=arc]', 5), ('trimmed_mean[f=2]', 5),
    ('krum[f=1]', 5), ('nnm[f=2](mean)', 5),
]))
def test_too_few_messages_give_zeros(text, least):
  factory = robust.build_factory(text)
  few = _aggregate(factory, _messages(9), weights=[1] * (least - 1) + [0] * (
      10 - least
  ))
  np.testing.assert_array_equal(_vector(few.result), np.zeros(4))
  assert few.measurements['impossible'] == 1
  enough = _aggregate(factory, _messages(9), [1] * least + [0] * (9 - least))
  assert enough.measurements['impossible'] == 0
  assert np.any(_vector(enough.result))
  robust.check(text, least)
  with pytest.raises(ValueError, match='`aggregator`'):
    robust.check(text, least - 1)


def test_buckets_are_dealt_anew_in_every_round():
  x = _messages(7)
  factory = robust.build_factory('bucketing(median)')
  state = collections.OrderedDict(seed=np.int64([3, 4]), round=np.int32(0))
  first = _aggregate(factory, x, state=state)
  again = _aggregate(factory, x, state=state)
  second = _aggregate(factory, x, state=first.state)
  assert first.state['round'] == 1
  np.testing.assert_array_equal(_vector(first.result), _vector(again.result))
  assert np.any(_vector(first.result) != _vector(second.result))


@pytest.mark.parametrize('value_type', [
    tff.TensorType(np.int32, [2]), tff.TensorType(np.float32, [None])
])
def test_raises_on_types_without_a_vector(value_type):
  with pytest.raises(TypeError, match='known shapes'):
    robust.build_factory('median').create(value_type, WEIGHT)


_PRIVATE = tff.aggregators.DifferentiallyPrivateFactory
_QUERY = tfp.GaussianSumQuery(l2_norm_clip=1.0, stddev=1.0)


@pytest.mark.parametrize('wrap', [
    lambda rule: rule,
    lambda rule: tff.aggregators.zeroing_factory(1.0, rule),
])
def test_no_rule_is_the_sum_of_differential_privacy(wrap):
  with pytest.raises(TypeError, match='UnweightedAggregationFactory, found'):
    _PRIVATE(_QUERY, wrap(robust.build_factory('median')))


def test_in_tffs_own_federated_averaging():
  """A Byzantine client with the most examples moves nothing."""
  keras = tf.keras.Sequential([
      tf.keras.layers.Dense(1, kernel_initializer='zeros', input_shape=(1,))
  ])
  spec = (tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1]))
  model = tff.learning.models.functional_model_from_keras(
      keras, tf.keras.losses.MeanSquaredError(), spec
  )
  process = tff.learning.algorithms.build_weighted_fed_avg(
      model,
      client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
      server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
      model_aggregator=robust.build_factory('median'),
  )

  def data(y, size):
    x = tf.ones([size, 1])
    return tf.data.Dataset.from_tensor_slices((x, y * x)).batch(size)

  output = process.next(
      process.initialize(), [data(1.0, 1), data(1.0, 1), data(-1e3, 50)]
  )
  weights = process.get_model_weights(output.state).trainable
  for leaf in weights:  # One step of 0.1 times the gradient -2.
    np.testing.assert_allclose(leaf, np.full_like(leaf, 0.2), rtol=1e-5)
