"""Bad input: the same value, or the same class of error, on both runtimes."""

import collections
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib

agree = agree_lib.agree


def clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


VECTOR = tff.TensorType(np.float32, [None])
STRUCT = tff.to_type(
    collections.OrderedDict(b=np.float32, a=tff.TensorType(np.int32, [2]))
)


@tff.federated_computation(clients(np.float32))
def mean(values):
  return tff.federated_mean(values)


@tff.federated_computation(clients(np.int32))
def extremes(values):
  return (
      tff.federated_sum(values), tff.federated_min(values),
      tff.federated_max(values),
  )


@tff.federated_computation(clients(np.float32), clients(np.float32))
def weighted_mean(values, weights):
  return tff.federated_mean(values, weights)


@tff.federated_computation(clients(VECTOR))
def returned(values):
  return values


@tff.tensorflow.computation(STRUCT)
def swapped(value):
  return collections.OrderedDict(a=value['a'] * 2, b=value['b'])


@tff.federated_computation(clients(STRUCT))
def mapped(values):
  return tff.federated_map(swapped, values)


@tff.federated_computation(tff.FederatedType(STRUCT, tff.SERVER))
def applied(value):
  return tff.federated_map(swapped, value)


@tff.federated_computation(
    tff.FederatedType(np.float32, tff.SERVER), clients(np.float32)
)
def shared(at_server, at_clients):
  return tff.federated_broadcast(at_server), tff.federated_sum(at_clients)


@tff.federated_computation(clients(tff.SequenceType(np.int32)))
def counted(values):
  @tff.tensorflow.computation(tff.SequenceType(np.int32))
  def count(dataset):
    return dataset.reduce(0, lambda n, _: n + 1)
  return tff.federated_sum(tff.federated_map(count, values))


def field(**fields):
  return collections.OrderedDict(**fields)


ERRORS = {
    'int_for_float': (TypeError, mean, [1, 2]),
    'wider_float': (TypeError, mean, [np.float64(1.0)]),
    'overflow': (TypeError, mean, [1e300]),
    'string_for_float': (TypeError, mean, ['a']),
    'float_for_int': (TypeError, extremes, [1.5]),
    'bool_for_int': (TypeError, extremes, [True]),
    'wider_int': (TypeError, extremes, [np.int64(3)]),
    'int_overflow': (TypeError, extremes, [2**40]),
    'vector_for_scalar': (TypeError, mean, [np.ones([2], np.float32)]),
    'scalar_for_vector': (TypeError, returned, [1.0]),
    'matrix_for_vector': (TypeError, returned, [np.ones([1, 2], np.float32)]),
    'mixed_list': (TypeError, returned, [[1.0, 'a']]),
    'array_for_clients': (TypeError, mean, np.ones([2], np.float32)),
    'tuple_for_clients': (TypeError, mean, (1.0, 2.0)),
    'scalar_for_clients': (TypeError, mean, 1.0),
    'dict_for_clients': (TypeError, mean, {'a': 1.0}),
    'none_for_tensor': (NotImplementedError, mean, [None]),
    'set_for_tensor': (NotImplementedError, returned, [{1.0}]),
    'missing_field': (TypeError, mapped, [field(b=1.0)]),
    'extra_field': (TypeError, mapped, [field(b=1.0, a=[1, 2], c=1.0)]),
    'tensor_for_struct': (TypeError, mapped, [1.0]),
    'wrong_order': (TypeError, mapped, [field(a=[1, 2], b=1.0)]),
    'wrong_shape': (TypeError, mapped, [field(b=1.0, a=[1, 2, 3])]),
    'second_client': (TypeError, mapped, [(1.0, [1, 2]), (1.0, [1.5, 2.0])]),
    'wrong_shape_at_server': (TypeError, applied, field(b=1.0, a=[1])),
    'array_for_sequence': (TypeError, counted, [np.arange(3)]),
    'tuple_for_sequence': (TypeError, counted, [(1, 2)]),
    'wider_elements': (
        TypeError, counted, [tf.data.Dataset.range(3)],
    ),
    'elements_of_other_shape': (
        TypeError, counted,
        [tf.data.Dataset.from_tensors(np.ones([2], np.int32))],
    ),
    'empty_cohort_at_clients': (ValueError, returned, []),
    'empty_cohort_mapped': (ValueError, mapped, []),
    'empty_cohort_beside_what_is_shared': (ValueError, shared, 1.0, []),
}


@pytest.mark.parametrize('name', ERRORS)
def test_both_raise(name):
  error, computation, *arguments = ERRORS[name]
  with pytest.raises(error):
    agree(computation, *arguments)


VALUES = {
    'python_numbers': (returned, [[1.0, 2.0], (3.0,)]),
    'narrower_float': (returned, [np.ones([2], np.float16)]),
    'narrower_int': (extremes, [np.int8(3), np.uint16(7)]),
    'tensors': (returned, [tf.ones([2]), tf.Variable([3.0])]),
    'strided': (returned, [np.arange(6, dtype=np.float32)[::2]]),
    'empty_vector': (returned, [np.zeros([0], np.float32)]),
    'dict': (mapped, [{'b': 1.0, 'a': [1, 2]}]),
    'other_names': (mapped, [field(c=1.0, d=[1, 2])]),
    'tuple_for_struct': (mapped, [(1.0, [1, 2])]),
    'list_for_struct': (mapped, [[1.0, (1, 2)]]),
    'tuple_for_struct_at_server': (applied, (1.0, [1, 2])),
    'empty_cohort_mean': (mean, []),
    'empty_cohort_extremes': (extremes, []),
    'list_for_sequence': (counted, [[1, 2, 3], []]),
}


@pytest.mark.parametrize('name', VALUES)
def test_both_accept(name):
  computation, argument = VALUES[name]
  agree(computation, argument)


@pytest.mark.parametrize('computation, argument, sentence', [
    (applied, dict(b=1.0, a=np.ones(2)), 'found one of float64. Field: a.'),
    (mapped, [dict(b=1.0, a=np.int32([1]))],
     'found one of shape (1,). Field: a.'),
    (weighted_mean, ([1.0], ['one']), "found 'one'. Field: weights."),
])
def test_the_field_is_named(computation, argument, sentence):
  arguments = argument if isinstance(argument, tuple) else (argument,)
  with pytest.raises(TypeError, match=re.escape(sentence)):
    agree_lib.on_fused(computation, *arguments)


def test_cohorts_of_different_sizes():
  with pytest.raises(ValueError, match='cardinalities'):
    agree(weighted_mean, [1.0, 2.0], [1.0])


def test_zero_weights():
  assert np.isnan(agree(weighted_mean, [1.0, 2.0], [0.0, 0.0]))


def test_number_of_arguments():
  with pytest.raises(TypeError):
    agree(weighted_mean, [1.0])
  with pytest.raises(TypeError):
    agree(mean)


def test_results_of_one_computation_checked_as_arguments_of_another():
  """A result keeps its tensor; the next computation may want another type."""
  server = lambda member: tff.FederatedType(member, tff.SERVER)

  @tff.tensorflow.computation
  def ones():
    return tf.ones([1000])

  @tff.federated_computation(server(tff.TensorType(np.float64, [1000])))
  def widened(value):
    return value

  @tff.federated_computation(server(tff.TensorType(np.float32, [10])))
  def short(value):
    return value

  result = agree_lib.on_fused(ones)
  assert agree(widened, result).dtype == np.float64
  with pytest.raises(TypeError):
    agree(short, result)


def test_kept_clients_are_checked_for_another_type():
  """A cohort of constant arrays is kept; another type still does not fit."""
  arrays = [np.ones([1000], np.float32) for _ in range(2)]
  for array in arrays:
    array.flags.writeable = False

  @tff.federated_computation(clients(tff.TensorType(np.float32, [10])))
  def short(values):
    return values

  agree(returned, arrays)
  with pytest.raises(TypeError):
    agree(short, arrays)


def test_kept_dataset_is_checked_for_another_type():
  dataset = tf.data.Dataset.from_tensor_slices(np.arange(1000, dtype=np.int32))

  @tff.federated_computation(clients(tff.SequenceType(np.float32)))
  def floats(values):
    @tff.tensorflow.computation(tff.SequenceType(np.float32))
    def count(elements):
      return elements.reduce(0, lambda n, _: n + 1)
    return tff.federated_sum(tff.federated_map(count, values))

  assert agree(counted, [dataset]) == 1000
  with pytest.raises(TypeError):
    agree(floats, [dataset])


def test_changed_array_is_read_again():
  """An array that can change is not remembered by its identity."""
  array = np.ones([1000], np.float32)
  total = lambda values: sum(v.sum() for v in values)
  assert total(agree(returned, [array])) == 1000
  array[:] = 2
  assert total(agree(returned, [array])) == 2000
