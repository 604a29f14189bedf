"""Clients of weight 0 are absent from unweighted aggregators."""

import collections

import numpy as np
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
