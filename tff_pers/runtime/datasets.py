"""`tf.data` datasets of an argument, read once and kept as stacked batches."""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import sequences

# Operations whose data set differs from one pass to the next.
_VARYING = (
    'Shuffle', 'Random', 'PyFunc', 'Generator', 'Sample', 'Multinomial',
    'Snapshot', 'Cache',
)


class Reader:
  """Reads datasets; those that are the same in every pass only once."""

  def __init__(self, max_bytes: int):
    self._max_bytes = max_bytes
    self._bytes = 0
    self._kept = collections.OrderedDict()

  def segments(self, dataset: Any, element_type: tff.Type) -> list:
    """Returns the elements, stacked to segments of equal shapes.

    Args:
      dataset: A `tf.data.Dataset`, or a list of elements.
      element_type: TFF type of an element.

    Returns:
      List of segments, each a list of arrays [elements, ...] in the order of
      `tf.data`.
    """
    kept = self._kept.get(id(dataset))
    if kept is not None:
      self._kept.move_to_end(id(dataset))
      return kept[1]
    segments = _read(dataset, element_type)
    for array in (array for segment in segments for array in segment):
      array.flags.writeable = False
    if isinstance(dataset, tf.data.Dataset) and _is_fixed(dataset):
      self._keep(dataset, segments)
    return segments

  def _keep(self, dataset, segments) -> None:
    size = sum(array.nbytes for segment in segments for array in segment)
    if size > self._max_bytes:
      return
    # The data set is kept too: its id is the key.
    self._kept[id(dataset)] = (dataset, segments, size)
    self._bytes += size
    while self._bytes > self._max_bytes:
      _, (_, _, freed) = self._kept.popitem(last=False)
      self._bytes -= freed


def _read(dataset, element_type) -> list:
  """Reads all elements."""
  types = sequences.flat_types(element_type)
  if isinstance(dataset, tf.data.Dataset):
    elements = [
        [np.asarray(leaf) for leaf in tf.nest.flatten(element)]
        for element in dataset.as_numpy_iterator()
    ]
  elif isinstance(dataset, (list, tuple)):
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


def empty_segment(types) -> list:
  """Returns a segment of no elements."""
  return [
      np.zeros([0, *(d or 0 for d in t.shape or ())], _numpy_dtype(t))
      for t in types
  ]


def as_array(value: Any, tensor_type: tff.TensorType) -> np.ndarray:
  """Returns `value` as an array of the type.

  Raises:
    TypeError: If it is not of that type.
  """
  dtype = _numpy_dtype(tensor_type)
  try:
    array = np.asarray(value)
    if array.dtype.kind in 'SU' or dtype == object:
      array = np.asarray(value, object)
    elif array.dtype != dtype:
      exact = array.astype(dtype)
      if not np.can_cast(array.dtype, dtype, 'same_kind') or (
          array.dtype.kind != exact.dtype.kind
          and isinstance(value, (np.ndarray, np.generic, tf.Tensor))
      ):
        raise TypeError()
      array = exact
  except (TypeError, ValueError) as e:
    raise TypeError(
        f'A value of type {tensor_type} was expected, found {value!r}.'
    ) from e
  if not tf.TensorShape(tensor_type.shape).is_compatible_with(array.shape):
    raise TypeError(
        f'A value of type {tensor_type} was expected, found one of shape'
        f' {array.shape}.'
    )
  return array


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

  Raises:
    TypeError: If the structure does not match the type.
  """
  names = [name for name, _ in tff.structure.to_elements(struct)]
  if isinstance(value, collections.abc.Mapping):
    if set(value) != set(names):
      raise TypeError(
          f'A structure with the fields {names} was expected, found'
          f' {list(value)}.'
      )
    return [value[name] for name in names]
  if isinstance(value, tff.structure.Struct) or not isinstance(
      value, (list, tuple)
  ):
    value = tff.structure.from_container(value)
    items = [item for _, item in tff.structure.iter_elements(value)]
  else:
    items = list(value)
  if len(items) != len(names):
    raise TypeError(
        f'A structure of {len(names)} fields was expected, found {len(items)}.'
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
  return not any(part in node.op for node in nodes for part in _VARYING)
