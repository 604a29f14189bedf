"""`tf.data` datasets of an argument, read once and kept as stacked batches."""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime.fused import operations
from tff_pers.runtime.fused.values import cache
from tff_pers.runtime.fused.values import python_values
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
    elements = _listed(dataset, element_type, types)
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
  """Checks a data set as TFF does.

  Raises:
    TypeError: Unless elements of `spec` are of `element_type`.
    ValueError: If named fields are not sorted and do not say that their order
      counts: TFF could not tell which is meant.
  """
  found = tff.types.tensorflow_to_type(spec)
  if _is_ambiguous(found):
    raise ValueError(
        'The names of fields of a data set must be sorted, unless they are in a'
        f' `collections.OrderedDict`, found {found}.'
    )
  if not element_type.is_assignable_from(found):
    raise TypeError(
        f'A sequence of elements of type {element_type} was expected, found one'
        f' of {found}.'
    )


def empty_segment(types) -> list:
  """Returns a segment of no elements."""
  return [
      np.zeros(
          [0, *(d or 0 for d in t.shape or ())], python_values.numpy_dtype(t)
      )
      for t in types
  ]


def _is_ambiguous(part) -> bool:
  """Whether TFF does not know the order of named fields of data sets."""
  if not isinstance(part, tff.StructType):
    return False
  names = tff.structure.name_list(part)
  return (
      names != sorted(names)
      and getattr(part, 'python_container', None) is not collections.OrderedDict
      or any(_is_ambiguous(child) for child in part.children())
  )


def _listed(elements, element_type, types) -> list:
  """Returns the leaves of each element, in the order of `tf.data`."""
  if not elements:
    return []
  leaves = sequences.flatten(
      python_values.columns(elements, element_type), element_type
  )
  return list(zip(*map(python_values.element_arrays, leaves, types)))


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
