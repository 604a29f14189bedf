"""`tf.data` datasets of an argument, read once and kept as stacked batches."""

import collections
import typing
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
# Not exported by TFF: which Python values are of a type.
from tensorflow_federated.python.core.impl.compiler import array as array_lib

from tff_pers.runtime.fused import operations
from tff_pers.runtime.fused.values import cache
from tff_pers.runtime.fused.values import sequences


class Reader:
  """Reads datasets; those that are the same in every pass only once.

  What was read of a data set is kept as long as the caller holds it.
  """

  def __init__(self, max_bytes: int):
    self._cache = cache.Cache(max_bytes)

  def segments(self, dataset: Any, element_type: tff.Type) -> list:
    """Returns the elements, stacked to segments of equal shapes.

    Args:
      dataset: A `tf.data.Dataset`, or a list of elements.
      element_type: TFF type of an element.

    Returns:
      List of segments, each a list of arrays [elements, ...] in the order of
      `tf.data`.

    Raises:
      TypeError: If the elements are not of that type.
    """
    segments = self._cache.get(element_type, [dataset])
    if segments is not None:
      return segments
    segments = _read(dataset, element_type)
    arrays = [array for segment in segments for array in segment]
    for array in arrays:
      array.flags.writeable = False
    if isinstance(dataset, tf.data.Dataset) and _is_fixed(dataset):
      size = sum(array.nbytes for array in arrays)
      self._cache.put(element_type, [dataset], segments, size)
    return segments


def _read(dataset, element_type) -> list:
  """Reads all elements."""
  types = sequences.flat_types(element_type)
  if isinstance(dataset, tf.data.Dataset):
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
      raise sequences.Unsupported('A data set has no end.')
    _check_elements(dataset.element_spec, element_type)
    elements = [
        [np.asarray(leaf) for leaf in tf.nest.flatten(element)]
        for element in dataset.as_numpy_iterator()
    ]
  elif isinstance(dataset, list):
    elements = [
        [
            as_array(leaf, part)
            for leaf, part in zip(_leaves(element, element_type), types)
        ]
        for element in dataset
    ]
  else:
    raise TypeError(
        'A sequence must be a `tf.data.Dataset` or a list of elements, found'
        f' {type(dataset)}.'
    )
  segments, start = [], 0
  for stop in range(1, len(elements) + 1):
    if stop == len(elements) or _shapes(elements[stop]) != _shapes(
        elements[start]
    ):
      segments.append([np.stack(c) for c in zip(*elements[start:stop])])
      start = stop
  least = 1 if all(t.shape is not None and None not in t.shape
                   for t in types) else 2
  while len(segments) < least:
    segments.append(empty_segment(types))
  return segments


def _check_elements(spec, element_type) -> None:
  """Raises TypeError unless elements of `spec` are of `element_type`."""
  found = tff.types.tensorflow_to_type(spec)
  if not element_type.is_assignable_from(found):
    raise TypeError(
        f'A sequence of elements of type {element_type} was expected, found one'
        f' of {found}.'
    )


def empty_segment(types) -> list:
  """Returns a segment of no elements."""
  return [
      np.zeros([0, *(d or 0 for d in t.shape or ())], _numpy_dtype(t))
      for t in types
  ]


def as_array(value: Any, tensor_type: tff.TensorType) -> np.ndarray:
  """Returns `value` as an array of the type, as TFF's own executor takes it.

  Raises:
    TypeError: If it is not of that type. Numbers of another kind (int for
      float) or of a wider one are not.
    NotImplementedError: If it is no number, string or array.
  """
  if isinstance(value, (tf.Tensor, tf.Variable)):
    value = value.numpy()
  dtype = _numpy_dtype(tensor_type)
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


def _numpy_dtype(tensor_type):
  dtype = tf.as_dtype(tensor_type.dtype)
  return np.dtype(object) if dtype == tf.string else dtype.as_numpy_dtype


def _leaves(element, element_type) -> list:
  """Returns the leaves of an element in the order of `tf.data`."""
  return sequences.flatten(tuples(element, element_type), element_type)


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


def _shapes(element):
  return [array.shape for array in element]


def _is_fixed(dataset: tf.data.Dataset) -> bool:
  """Whether every pass over the data set gives the same elements."""
  options = tf.data.Options()
  graph = tf.compat.v1.GraphDef.FromString(
      dataset.with_options(options)._as_serialized_graph(  # pylint: disable=protected-access
          external_state_policy=(
              tf.data.experimental.ExternalStatePolicy.IGNORE
          )
      ).numpy()
  )
  nodes = list(graph.node)
  for function in graph.library.function:
    nodes.extend(function.node_def)
  return operations.repeat(node.op for node in nodes)
