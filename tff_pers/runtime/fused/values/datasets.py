"""Checks elements of sequences and stacks them to segments."""

import collections
from typing import Any, Sequence

import numpy as np

from tff_pers.runtime.fused.values import python_values
from tff_pers.runtime.fused.values import sequences
from tff_pers import tff


def segments(elements: Sequence[Any], types: Sequence[tff.TensorType]) -> list:
  """Returns elements, each a list of arrays, stacked by equal shapes."""
  found, start = [], 0
  for stop in range(1, len(elements) + 1):
    if stop == len(elements) or _shapes(elements[stop]) != _shapes(
        elements[start]
    ):
      found.append([np.stack(c) for c in zip(*elements[start:stop])])
      start = stop
  return padded(found, types)


def padded(found: list, types: Sequence[tff.TensorType]) -> list:
  """Returns segments padded with empty ones, so that most cohorts agree."""
  least = 1 if all(t.shape is not None and None not in t.shape
                   for t in types) else 2
  missing = max(0, least - len(found))
  return [*found, *(empty_segment(types) for _ in range(missing))]


def check_elements(spec: Any, element_type: tff.Type) -> None:
  """Checks the elements of a data set as TFF does.

  Raises:
    TypeError: Unless elements of `spec` are of `element_type`.
    ValueError: If named fields are neither sorted nor in an ordered container:
      TFF could not tell which order is meant.
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


def empty_segment(types: Sequence[tff.Type]) -> list:
  """Returns a segment without elements."""
  return [
      np.zeros(
          [0, *(d or 0 for d in t.shape or ())],
          python_values.numpy_dtype(t.dtype),
      )
      for t in types
  ]


def _is_ambiguous(part) -> bool:
  """Whether TFF cannot know the order of named fields of a data set."""
  if not isinstance(part, tff.StructType):
    return False
  names = tff.structure.name_list(part)
  return (
      names != sorted(names)
      and getattr(part, 'python_container', None) is not collections.OrderedDict
      or any(_is_ambiguous(child) for child in part.children())
  )


def listed(elements: Sequence[Any], element_type: tff.Type) -> list:
  """Returns the arrays of each element of a list, in `tf.data`'s order."""
  types = sequences.flat_types(element_type)
  if not elements:
    return []
  leaves = sequences.flatten(
      python_values.columns(elements, element_type), element_type
  )
  return list(zip(*map(python_values.element_arrays, leaves, types)))


def _shapes(element):
  return [array.shape for array in element]
