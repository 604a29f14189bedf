"""Router-weighted averaging."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from tff_pers.aggregators import router

_C = 2
_VALUE = tff.to_type(collections.OrderedDict(
    adaptors=(
        collections.OrderedDict(  # A layer's factors and bias.
            bias=tff.TensorType(np.float32, [_C, 3]),
            u=tff.TensorType(np.float32, [_C, 3, 1]),
        ),
        tff.TensorType(np.float64, [_C]),
    ),
    base=(tff.TensorType(np.float32, [4, 3]), tff.TensorType(np.float64)),
))
_WEIGHT = tff.TensorType(np.float32, [_C + 1])
_EXAMPLES = np.array([2.0, 5.0, 3.0])
_ROUTERS = np.array([[0.9, 0.1], [0.25, 0.75], [0.5, 0.5]])


def _values():
  """Returns the values of three clients."""
  rng = np.random.default_rng(0)
  draw = lambda t: rng.normal(size=list(t.shape)).astype(t.dtype)
  return [
      tff.types.structure_from_tensor_type_tree(draw, _VALUE)
      for _ in range(3)
  ]


def _weights(examples=_EXAMPLES, routers=_ROUTERS):
  """Returns the clients' weights (n_k, pi_k n_k)."""
  return [
      router.router_weight(n, tf.constant(pi, tf.float64)).numpy()
      for n, pi in zip(examples, routers)
  ]


def _leaves(value):
  return (
      tf.nest.flatten(value['adaptors']), tf.nest.flatten(value['base'])
  )


def _expected(values, examples, routers):
  """Returns (adaptor leaves, base leaves) by the closed form, in float64."""
  n = np.asarray(examples, np.float64)
  used = n[:, None] * np.asarray(routers, np.float64)
  adaptors, base = zip(*map(_leaves, values))
  return (
      [
          np.stack([
              np.average([leaf[c] for leaf in leaves], 0, used[:, c])
              for c in range(_C)
          ])
          for leaves in zip(*adaptors)
      ],
      [np.average(leaves, 0, n) for leaves in zip(*base)],
  )


def _assert_close(result, expected, atol=1e-6):
  for found, wanted in zip(_leaves(result), expected):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol)


@pytest.fixture(scope='module', name='mean')
def _mean():
  return router.RouterWeightedFactory().create(_VALUE, _WEIGHT)


def _aggregate(process, values, weights):
  return process.next(process.initialize(), values, weights).result


def test_base_by_examples_and_adaptors_by_use(mean):
  """FLoRAL check 5: the closed form, in any order of the cohort."""
  values, weights = _values(), _weights()
  expected = _expected(values, _EXAMPLES, _ROUTERS)
  result = _aggregate(mean, values, weights)
  _assert_close(result, expected)
  for leaf, want in zip(
      tf.nest.flatten(result), tff.structure.flatten(_VALUE)
  ):
    assert leaf.dtype == want.dtype
  order = [2, 0, 1]
  shuffled = _aggregate(
      mean, [values[k] for k in order], [weights[k] for k in order]
  )
  _assert_close(shuffled, _leaves(result))


def test_weights_of_every_part_sum_to_one(mean):
  """FLoRAL check 5: a constant value is its own mean."""
  result = _aggregate(mean, [_values()[0]] * 3, _weights())
  _assert_close(result, _leaves(_values()[0]))


def test_uniform_routers_are_fedavg(mean):
  """FLoRAL check 5: all parts get p(k) = n_k / n."""
  result = _aggregate(
      mean, _values(), _weights(routers=np.full([3, _C], 1 / _C))
  )
  plain = tff.aggregators.MeanFactory().create(
      _VALUE, tff.TensorType(np.float32)
  )
  fedavg = plain.next(
      plain.initialize(), _values(), [np.float32(n) for n in _EXAMPLES]
  ).result
  _assert_close(result, _leaves(fedavg))


def test_one_hot_routers_with_equal_sizes_are_fedavg_per_cluster(mean):
  """FLoRAL check 5."""
  values = _values()
  result = _aggregate(
      mean, values, _weights([4, 4, 4], [[1, 0], [0, 1], [1, 0]])
  )
  adaptors = [_leaves(value)[0] for value in values]
  for found, (a, b, c) in zip(_leaves(result)[0], zip(*adaptors)):
    np.testing.assert_allclose(found[0], (a[0] + c[0]) / 2, rtol=1e-6)
    np.testing.assert_allclose(found[1], b[1], rtol=1e-6)


@pytest.mark.parametrize('small', [0.0, 3.7e-44, 1e-30])
def test_an_adaptor_that_nobody_used_keeps_its_value(mean, small):
  """FLoRAL check 5: the difference is 0, whatever clients made of it.

  3.7e-44 is the softmax of the logits 0 and -100, subnormal in float32.
  """
  values = _values()
  for leaf in _leaves(values[1])[0]:
    leaf[1] = np.inf
  values[2]['adaptors'][0]['bias'][1] = np.nan
  routers = [[1, small]] * 3
  result = _aggregate(mean, values, _weights(routers=routers))
  finite = _values()
  expected = _expected(finite, _EXAMPLES, [[1, 1]] * 3)
  for found, wanted in zip(_leaves(result)[0], expected[0]):
    np.testing.assert_array_equal(found[1], np.zeros_like(found[1]))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)


def test_no_weight_at_all_gives_zeros(mean):
  result = _aggregate(mean, _values(), _weights(examples=[0, 0, 0]))
  for leaf in tf.nest.flatten(result):
    np.testing.assert_array_equal(leaf, np.zeros_like(leaf))


def test_rarely_used_adaptors_are_averaged_all_the_same(mean):
  """A weight is relative: all of 1e-12 is as good as all of 1."""
  routers = np.array([[1, 1e-12], [1, 2e-12], [1, 3e-12]])
  result = _aggregate(mean, _values(), _weights(routers=routers))
  _assert_close(result, _expected(_values(), _EXAMPLES, routers))


def test_shares_say_how_much_each_adaptor_is_used():
  process = router.RouterWeightedFactory(with_shares=True).create(
      _VALUE, _WEIGHT
  )
  result = _aggregate(process, _values(), _weights())
  np.testing.assert_allclose(
      result['shares'], _EXAMPLES @ _ROUTERS / _EXAMPLES.sum(), rtol=1e-6
  )


def _single_type():
  """A value of one dtype, as secure and compressed sums want it."""
  return tff.to_type(collections.OrderedDict(
      adaptors=(tff.TensorType(np.float32, [_C, 3]),),
      base=(tff.TensorType(np.float32, [4]),),
  ))


_INNER = {
    'clipped': lambda: tff.aggregators.clipping_factory(
        100.0, tff.aggregators.SumFactory()
    ),
    'private': lambda: tff.aggregators.DifferentiallyPrivateFactory(
        tfp.GaussianSumQuery(100.0, 0.0)
    ),
    'compressed': lambda: (
        tff.aggregators.EncodedSumFactory.quantize_above_threshold(
            quantization_bits=16, threshold=1
        )
    ),
    'secure': lambda: tff.aggregators.SecureSumFactory(20.0, -20.0),
}


@pytest.mark.parametrize('name', sorted(_INNER))
def test_inner_sums_compose(name):
  """Sums that change nothing but rounding give the plain mean."""
  value_type = _single_type()
  rng = np.random.default_rng(1)
  values = [
      tff.types.structure_from_tensor_type_tree(
          lambda t: rng.normal(size=list(t.shape)).astype(t.dtype), value_type
      )
      for _ in range(3)
  ]
  weight_sum = _INNER['secure']() if name == 'secure' else None
  process = router.RouterWeightedFactory(_INNER[name](), weight_sum).create(
      value_type, _WEIGHT
  )
  assert process.is_weighted
  result = _aggregate(process, values, _weights())
  _assert_close(result, _expected(values, _EXAMPLES, _ROUTERS), atol=1e-3)


def test_clips_the_weighted_values():
  """What a client sends is n_k base_k and pi_kc n_k adaptors_k[c]."""
  process = router.RouterWeightedFactory(
      tff.aggregators.clipping_factory(1.0, tff.aggregators.SumFactory())
  ).create(_single_type(), _WEIGHT)
  value = collections.OrderedDict(
      adaptors=(np.zeros([_C, 3], np.float32),),
      base=(np.array([3, 4, 0, 0], np.float32),),
  )
  result = _aggregate(process, [value], _weights([10], _ROUTERS[:1]))
  np.testing.assert_allclose(  # 10 * base, clipped to norm 1, over 10.
      result['base'][0], [0.06, 0.08, 0, 0], rtol=1e-6
  )


@pytest.mark.parametrize('value_type, weight_type, message', [
    (tff.to_type((np.float32, np.float32)), _WEIGHT, 'structure <adaptors,'),
    (
        tff.to_type(collections.OrderedDict(adaptors=(), base=np.int32)),
        _WEIGHT, 'of floats, found',
    ),
    (_VALUE, tff.TensorType(np.float32), r'float32\[C\+1\] for C >= 0'),
    (_VALUE, tff.TensorType(np.float32, [4]), r'one row per adaptor, \[3, ...'),
])
def test_raises_on_other_types(value_type, weight_type, message):
  with pytest.raises(TypeError, match=message):
    router.RouterWeightedFactory().create(value_type, weight_type)
