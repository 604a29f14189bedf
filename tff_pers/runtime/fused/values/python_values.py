"""Converts Python values of TFF types to fields and arrays."""

import collections
import functools
import typing
from typing import Any, Sequence

import numpy as np
import tensorflow as tf

from tff_pers import tff
# Not exported by TFF: which Python values are of a type.
from tensorflow_federated.python.core.impl.compiler import array as array_lib

_NUMPY = (np.ndarray, np.generic)
_PYTHON_SCALARS = frozenset({bool, int, float, str, bytes})


def as_array(value: Any, tensor_type: tff.TensorType) -> np.ndarray:
  """Returns `value` as an array of the type, as TFF's own executor takes it.

  Raises:
    TypeError: If it is not of that type, e.g. an int for a float, or a number
      of a wider type.
    NotImplementedError: If it is not a number, string or array.
  """
  if not isinstance(value, _NUMPY) and isinstance(
      value, (tf.Tensor, tf.Variable)
  ):
    value = value.numpy()
  dtype = numpy_dtype(tensor_type.dtype)
  if isinstance(value, _NUMPY) and value.dtype == dtype != object:
    return _of_shape(np.asarray(value), tensor_type)
  return _of_shape(_converted(value, tensor_type, dtype), tensor_type)


def element_arrays(
    column: Sequence[Any], tensor_type: tff.TensorType
) -> list:
  """Returns one leaf of the elements of a list, as TensorFlow converts it.

  TFF makes a data set of the list. So values are accepted here that are refused
  outside of sequences, such as an int for a float.

  Raises:
    TypeError, ValueError: If a value cannot be converted.
    TypeError: If one has another shape.
  """
  dtype = numpy_dtype(tensor_type.dtype)
  tf_dtype = tf.as_dtype(tensor_type.dtype)
  kinds = set(map(type, column))
  if len(kinds) == 1 and kinds <= _PYTHON_SCALARS:  # One call each is slow.
    column = tf.convert_to_tensor(list(column), tf_dtype).numpy()
    return [_of_shape(np.asarray(v, dtype), tensor_type) for v in column]
  return [
      _of_shape(_element_array(value, dtype, tf_dtype), tensor_type)
      for value in column
  ]


def _element_array(value, dtype, tf_dtype) -> np.ndarray:
  if isinstance(value, _NUMPY) and value.dtype == dtype != object:
    return np.asarray(value)
  if isinstance(value, (tf.Tensor, tf.Variable)):
    value = value.numpy()
  tensor = tf.convert_to_tensor(_without_struct(value), tf_dtype)
  return np.asarray(tensor.numpy(), dtype)


def _of_shape(array, tensor_type) -> np.ndarray:
  """Returns `array` if the type allows its shape; else raises TypeError."""
  if not _fits(array.shape, tensor_type.shape):
    raise TypeError(
        f'A value of type {tensor_type} was expected, found one of shape'
        f' {array.shape}.'
    )
  return array


def _fits(shape, expected) -> bool:
  """Whether a type allows `shape`."""
  return expected is None or len(shape) == len(expected) and all(
      want is None or have == want for have, want in zip(shape, expected)
  )


def _converted(value, tensor_type, dtype) -> np.ndarray:
  """Returns `value` as an array of `dtype`."""
  value = _without_struct(value)
  is_list = isinstance(value, (list, tuple))
  if not is_list and not isinstance(value, typing.get_args(array_lib.Array)):
    raise NotImplementedError(
        f'A value of type {tensor_type} was expected, found a {type(value)}.'
    )
  if not all(
      array_lib.is_compatible_dtype(item, tensor_type.dtype.type)
      for item in (tf.nest.flatten(value) if is_list else [value])
  ):
    found = f'one of {value.dtype.name}' if hasattr(value, 'dtype') else repr(value)
    raise TypeError(
        f'A value of type {tensor_type} was expected, found {found}.'
    )
  return np.asarray(value, dtype)


@functools.lru_cache(maxsize=None)
def numpy_dtype(dtype: Any) -> Any:
  """Returns the dtype of arrays that hold tensors of this dtype."""
  found = tf.as_dtype(dtype)
  return np.dtype(object) if found == tf.string else found.as_numpy_dtype


def unpacked(argument: Any, part: tff.Type) -> Any:
  """Returns an argument, a `Struct` of named fields as a Python container.

  TFF packs the arguments of a call into a `Struct`. Outside of sequences, names
  matter only here.

  Raises:
    TypeError: If the fields of a `Struct` have other names than the type, or
      an unnamed one follows a named one.
    ValueError: If a `Struct` is given for a tensor or a sequence.
  """
  if not isinstance(argument, tff.structure.Struct):
    return argument
  if not isinstance(part, (tff.StructType, tff.FederatedType)):
    raise ValueError(f'A value of type {part} must not be a `Struct`.')
  names = _names(argument)
  if any(name and not after for name, after in zip(names, names[1:])):
    raise TypeError(
        'Unnamed fields of a `Struct` must precede named ones, found'
        f' {argument}.'
    )
  is_struct = isinstance(part, tff.StructType)
  if is_struct and len(names) == len(part) and any(
      name and name != expected for name, expected in zip(names, _names(part))
  ):
    raise TypeError(
        f'A structure of type {part} was expected, found one with fields'
        f' {names}.'
    )
  return tuple(argument)


def fields(value: Any, struct: tff.StructType) -> list:
  """Returns the fields of a structure, in the order of the type.

  As in TFF, fields are matched by position, not by name, except in elements of
  sequences: see `columns`.

  Raises:
    TypeError: If `value` is not a structure, or has another number of fields.
    ValueError: If `value` is a `Struct` that has names for some fields only.
  """
  found = items(value)
  if len(found) != len(struct):
    raise TypeError(
        f'A structure of type {struct} was expected, found one of'
        f' {len(found)} fields.'
    )
  return found


def items(value: Any) -> list:
  """Returns the fields of a structure in its own order; raises as `fields`."""
  container = type(value)
  if container in (dict, collections.OrderedDict):  # Faster than TFF's code.
    return list(value.values())
  if container in (list, tuple):
    return list(value)
  return list(tff.structure.from_container(_without_struct(value)))


def columns(elements: Sequence[Any], element_type: tff.Type) -> Any:
  """Returns the leaves of the elements of a sequence given as a list.

  As in TFF, the elements, at least one, are matched by name if they are
  dictionaries or named tuples, by position if they are lists or tuples.

  Returns:
    Nested tuples, in the order of the type, of lists with one leaf of all
    elements.

  Raises:
    TypeError: If an element does not have that structure.
    ValueError: If one is a `Struct` that has names for some fields only.
  """
  if not isinstance(element_type, tff.StructType):
    return elements
  names = _names(element_type)
  keys = frozenset(names) if all(names) else None
  rows = [_element_fields(e, element_type, names, keys) for e in elements]
  return tuple(
      columns(column, part)
      for column, part in zip(zip(*rows), element_type.children())
  )


def _element_fields(element, struct, names, keys):
  """Returns the fields of an element; `keys` is the set of names, or None."""
  if not isinstance(element, (dict, list)):
    element = _without_struct(element)
  if keys is not None:
    if hasattr(element, '_fields') and hasattr(element, '_asdict'):
      element = element._asdict()
    if isinstance(element, dict) and element.keys() == keys:
      return [element[name] for name in names]
  if isinstance(element, (list, tuple)) and len(element) == len(names):
    return element
  raise TypeError(
      f'An element of type {struct} was expected, found {element!r}. Tip: it'
      ' must be a dictionary or a named tuple of these names, or a list or a'
      ' tuple.'
  )


def _names(struct) -> list:
  return [name for name, _ in tff.structure.iter_elements(struct)]


def _without_struct(value):
  """Returns a `Struct` as a dictionary or tuple, anything else unchanged."""
  if isinstance(value, tff.structure.Struct):
    return tff.structure.to_odict_or_tuple(value, recursive=False)
  return value
