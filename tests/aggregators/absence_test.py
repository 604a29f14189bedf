"""Clients of weight 0 are absent from unweighted aggregators."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import absence

VALUES = [np.float32([1, 2]), np.float32([3, 5]), np.float32([70, 80])]
TYPE = tff.TensorType(np.float32, [2])


def aggregate(factory, weights, values=VALUES):
  process = absence.leave_out_absent(factory).create(
      TYPE, tff.TensorType(np.float32)
  )
  return process.next(
      process.initialize(), values, [np.float32(w) for w in weights]
  )


def test_a_mean_is_over_those_who_are_present():
  mean = tff.aggregators.UnweightedMeanFactory()
  np.testing.assert_allclose(aggregate(mean, [1, 1, 0]).result, [2, 3.5])
  # Weights do not count beyond that.
  np.testing.assert_allclose(aggregate(mean, [1, 9, 0]).result, [2, 3.5])
  np.testing.assert_array_equal(aggregate(mean, [0, 0, 0]).result, [0, 0])


def test_with_everybody_present_no_bit_changes():
  mean = tff.aggregators.UnweightedMeanFactory()
  plain = mean.create(TYPE)
  np.testing.assert_array_equal(
      aggregate(mean, [1, 1, 1]).result,
      plain.next(plain.initialize(), VALUES).result,
  )


def test_a_mean_inside_of_other_factories_is_seen():
  wrapped = tff.aggregators.zeroing_factory(
      1e3, tff.aggregators.clipping_factory(
          1e3, tff.aggregators.UnweightedMeanFactory()
      )
  )
  assert absence.divides_by_clients(wrapped.create(TYPE))
  np.testing.assert_allclose(aggregate(wrapped, [1, 1, 0]).result, [2, 3.5])


def test_a_sum_is_left_as_it_is():
  total = tff.aggregators.SumFactory()
  assert not absence.divides_by_clients(total.create(TYPE))
  np.testing.assert_allclose(aggregate(total, [1, 1, 0]).result, [4, 7])


def test_a_weighted_factory_is_returned_as_it_is():
  weighted = tff.aggregators.MeanFactory()
  assert absence.leave_out_absent(weighted) is weighted


class _FiniteMedian(tff.aggregators.UnweightedAggregationFactory):
  """The median of those messages that are finite, as robust rules are."""

  def create(self, value_type):
    rows_type = tff.TensorType(np.float32, [None, 2])

    @tff.tensorflow.computation(rows_type)
    def median(rows):
      kept = tf.boolean_mask(rows, tf.reduce_all(tf.math.is_finite(rows), 1))
      size = tf.shape(kept)[0]
      middle = tf.sort(kept, axis=0)[size // 2 : size // 2 + 1]
      return tf.reduce_sum(middle, axis=0) + tf.where(size > 0, 0.0, np.nan)

    @tff.tensorflow.computation(rows_type)
    def count(rows):
      finite = tf.reduce_all(tf.math.is_finite(rows), 1)
      return collections.OrderedDict(
          num_non_finite=tf.reduce_sum(1 - tf.cast(finite, tf.int32))
      )

    as_row = tff.tensorflow.computation(
        lambda x: tf.ensure_shape(x[None], [None, 2]), value_type
    )
    concat = tff.tensorflow.computation(
        lambda a, b: tf.concat([a, b], 0), rows_type, rows_type
    )
    none = tff.tensorflow.computation(lambda: tf.zeros([0, 2]))
    empty = tff.tensorflow.computation(lambda: ())

    @tff.federated_computation
    def init_fn():
      return tff.federated_eval(empty, tff.SERVER)

    @tff.federated_computation(
        init_fn.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_fn(state, value):
      rows = tff.federated_map(as_row, value)
      result, measured = (
          tff.federated_aggregate(rows, none(), concat, concat, report)
          for report in (median, count)
      )
      return tff.templates.MeasuredProcessOutput(state, result, measured)

    return tff.templates.AggregationProcess(init_fn, next_fn)


@pytest.mark.parametrize('weights, expected', [
    ([1, 1, 1], [3, 5]), ([1, 0, 0], [1, 2]), ([0, 0, 0], [0, 0]),
])
def test_rules_that_remove_what_is_not_finite_get_nan(weights, expected):
  np.testing.assert_allclose(
      aggregate(_FiniteMedian(), weights).result, expected
  )


def test_rules_inside_of_clipping_get_nan_too():
  clipped = tff.aggregators.clipping_factory(1e3, _FiniteMedian())
  np.testing.assert_allclose(aggregate(clipped, [1, 0, 0]).result, [1, 2])


def test_integers_of_a_sum_are_those_of_who_is_present():
  factory = tff.aggregators.SumFactory()
  value_type = tff.to_type(
      collections.OrderedDict(count=np.int32, total=np.float32)
  )
  process = absence.leave_out_absent(factory).create(
      value_type, tff.TensorType(np.float32)
  )
  values = [collections.OrderedDict(count=1, total=2.0)] * 3
  result = process.next(
      process.initialize(), values, [np.float32(w) for w in (1, 0, 1)]
  ).result
  assert (result['count'], result['total']) == (2, 4.0)
