"""The mean of each coordinate over those who have it."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import aggregators

VECTOR = tff.TensorType(np.float64, [4])
STRUCTURE = tff.to_type(
    collections.OrderedDict(kept=(VECTOR,), update=(VECTOR,))
)
START = np.full(4, 10.0)
# Clients keep 4, 2 and 2 leading coordinates; they send w - w_i.
KEPT = (4, 2, 2)
VALUES = (4.0, 1.0, 2.0)


def _process(value_type=STRUCTURE):
  return aggregators.PartialMeanFactory().create(
      value_type, tff.TensorType(np.float32)
  )


def _sent(count, value):
  kept = (np.arange(4) < count).astype(np.float64)
  return dict(kept=(kept,), update=(kept * (START - value),))


def _mean(clients, weights):
  process = _process()
  values = [_sent(KEPT[i], VALUES[i]) for i in clients]
  update, = process.next(
      process.initialize(), values, list(np.float32(weights))
  ).result
  return START - update


@pytest.mark.parametrize(
    'weights, expected',
    [
        ((1, 1, 1), (7 / 3, 7 / 3, 4, 4)),
        ((1, 3, 2), (11 / 6, 11 / 6, 4, 4)),  # (4 + 3 + 4) / 6.
    ],
)
def test_example_of_the_sheet(weights, expected):
  """Baselines 7.1, B22: (2.333333, ..) and (1.833333, .., 4, 4)."""
  np.testing.assert_allclose(
      _mean((0, 1, 2), weights), expected, rtol=1e-10
  )


def test_coordinates_of_nobody_stay():
  np.testing.assert_allclose(_mean((1, 2), (1, 1)), (1.5, 1.5, 10, 10))


def test_coordinates_of_the_absent_alone_stay():
  np.testing.assert_allclose(
      _mean((0, 1, 2), (0, 1, 1)), (1.5, 1.5, 10, 10)
  )


def test_of_whole_updates_it_is_the_mean_bit_for_bit():
  rng = np.random.default_rng(0)
  updates = [rng.standard_normal(4) for _ in range(5)]
  weights = list(np.float32([3, 1, 7, 5, 2]))
  process = _process()
  update, = process.next(
      process.initialize(),
      [dict(kept=(np.ones(4),), update=(u,)) for u in updates], weights,
  ).result
  plain = tff.aggregators.MeanFactory().create(
      VECTOR, tff.TensorType(np.float32)
  )
  expected = plain.next(plain.initialize(), updates, weights).result
  np.testing.assert_array_equal(update, expected)


def test_inner_mean_is_used():
  """Of one that clips the norm of both fields together to 1."""
  factory = aggregators.PartialMeanFactory(tff.aggregators.clipping_factory(
      1.0, tff.aggregators.MeanFactory()
  ))
  process = factory.create(STRUCTURE, tff.TensorType(np.float32))
  output = process.next(
      process.initialize(), [_sent(4, 4.0)], [np.float32(1)]
  )
  assert 'clipping' in output.measurements
  # Both are shorter by one factor, which the quotient does not show.
  np.testing.assert_allclose(output.result[0], START - 4.0, rtol=1e-5)


@pytest.mark.parametrize('value_type', [
    VECTOR,
    tff.to_type(collections.OrderedDict(update=VECTOR)),
    tff.to_type(collections.OrderedDict(
        kept=VECTOR, update=tff.TensorType(np.float64, [3])
    )),
    tff.to_type(collections.OrderedDict(kept=VECTOR, other=VECTOR)),
])
def test_raises_on_other_types(value_type):
  with pytest.raises(TypeError, match=(
      '`value_type` must be a structure <kept, update> of two structures'
  )):
    _process(value_type)


def test_type_of_the_result_is_that_of_the_update():
  result = _process().next.type_signature.result.result.member
  tf.nest.assert_same_structure(result, STRUCTURE['update'])
  assert result == STRUCTURE['update']


def test_a_list_is_a_tuple_of_the_same_tensors():
  process = _process(tff.to_type(
      collections.OrderedDict(kept=[VECTOR], update=(VECTOR,))
  ))
  sent = _sent(2, 1.0)
  result = process.next(
      process.initialize(), [dict(sent, kept=list(sent['kept']))], [np.float32(1)]
  ).result
  np.testing.assert_allclose(result[0], sent['update'][0])
