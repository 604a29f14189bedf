"""Python values of TFF types: fields of containers, arrays of leaves."""

import collections
import typing
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
# Not exported by TFF: which Python values are of a type.
from tensorflow_federated.python.core.impl.compiler import array as array_lib


def as_array(value: Any, tensor_type: tff.TensorType) -> np.ndarray:
  """Returns `value` as an array of the type, as TFF's own executor takes it.

  Raises:
    TypeError: If it is not of that type. Numbers of another kind (int for
      float) or of a wider one are not.
    NotImplementedError: If it is no number, string or array.
  """
  if isinstance(value, (tf.Tensor, tf.Variable)):
    value = value.numpy()
  dtype = numpy_dtype(tensor_type)
  is_numpy = isinstance(value, (np.ndarray, np.generic))
  if is_numpy and value.dtype == dtype != object:
    array = np.asarray(value)
  else:
    array = _converted(value, tensor_type, dtype)
  if not _fits(array.shape, tensor_type.shape):
    raise TypeError(
        f'A value of type {tensor_type} was expected, found one of shape'
        f' {array.shape}.'
    )
  return array


def _fits(shape, expected) -> bool:
  """Whether `shape` is one of those that a type allows."""
  return expected is None or len(shape) == len(expected) and all(
      want is None or have == want for have, want in zip(shape, expected)
  )


def _converted(value, tensor_type, dtype) -> np.ndarray:
  """Returns `value` as an array of `dtype`."""
  is_list = isinstance(value, (list, tuple))
  if not is_list and not isinstance(value, typing.get_args(array_lib.Array)):
    raise NotImplementedError(
        f'A value of type {tensor_type} was expected, found a {type(value)}.'
    )
  if not all(
      array_lib.is_compatible_dtype(item, tensor_type.dtype.type)
      for item in (tf.nest.flatten(value) if is_list else [value])
  ):
    raise TypeError(
        f'A value of type {tensor_type} was expected, found {value!r}.'
    )
  return np.asarray(value, dtype)


def numpy_dtype(tensor_type: tff.TensorType):
  """Returns the dtype of arrays of a type."""
  dtype = tf.as_dtype(tensor_type.dtype)
  return np.dtype(object) if dtype == tf.string else dtype.as_numpy_dtype


def tuples(value, type_signature):
  """Returns the structure `value` as nested tuples."""
  if not isinstance(type_signature, tff.StructType):
    return value
  return tuple(
      tuples(item, part)
      for item, part in zip(
          fields(value, type_signature), type_signature.children()
      )
  )


def fields(value: Any, struct: tff.StructType) -> list:
  """Returns the fields of a Python structure, in the order of the type.

  As TFF has it, fields are matched by position, not by name.

  Raises:
    TypeError: If `value` is no structure, or not one of that many fields.
  """
  container = type(value)
  if container in (dict, collections.OrderedDict):  # Faster than TFF's, the same.
    items = list(value.values())
  elif container in (list, tuple):
    items = list(value)
  else:
    items = list(tff.structure.from_container(value))
  if len(items) != len(struct):
    raise TypeError(
        f'A structure of type {struct} was expected, found one of'
        f' {len(items)} fields.'
    )
  return items
