"""Describes the leaves of a model's weights: kernels, biases, norms."""

import collections.abc
from typing import Any, Iterator, Sequence

import tensorflow as tf

from tff_pers.models import functional

_ROLES = {'dense': 'kernel', 'conv': 'kernel', 'bias': 'bias'}
_KERNELS = {2: 'dense', 4: 'conv'}  # By number of dimensions.


def describe(
    model: functional.FunctionalModel
) -> tuple[functional.LayerWeight, ...]:
  """Returns a tuple of `functional.LayerWeight`, one per leaf of the weights.

  Models of the zoo and Keras models describe their weights (`model.layers`).
  For other models the shapes decide: a matrix is a dense kernel, a leaf of four
  dimensions a convolution kernel, and a vector next to one of them in the same
  container, with as many entries as it has outputs, its bias; all others are
  'unknown'.

  Raises:
    ValueError: If `model.layers` does not fit the weights.
  """
  shapes = [tuple(leaf.shape) for leaf in tf.nest.flatten(model.spec)]
  if model.layers is None:
    return _infer(shapes, [path[:-1] for path in paths(model.spec)])
  found = [weight.shape for weight in model.layers]
  if found != shapes:
    raise ValueError(
        '`model.layers` must have the shapes of the leaves of the weights,'
        f' {shapes}, found {found}.'
    )
  return tuple(model.layers)


def as_applied(
    weights: Sequence[functional.LayerWeight]
) -> list[functional.LayerWeight]:
  """Returns descriptions in the order in which layers are applied."""
  return sorted(weights, key=lambda weight: weight.applied)


def table(rows: Sequence[Sequence[str]]) -> str:
  """Returns rows of texts as lines with aligned columns."""
  widths = [max(map(len, column)) for column in zip(*rows)]
  return '\n'.join(
      '  '.join(map(str.ljust, row, widths)).rstrip() for row in rows
  )


def paths(structure: Any, path: tuple = ()) -> Iterator[tuple]:
  """Yields the keys that lead to each leaf, in the order of `tf.nest`."""
  is_mapping = isinstance(structure, collections.abc.Mapping)
  if not is_mapping and not isinstance(structure, (list, tuple)):
    yield path
    return
  keys = sorted(structure) if is_mapping else range(len(structure))
  for key in keys:
    yield from paths(structure[key], (*path, key))


def _infer(shapes, containers):
  """Returns descriptions of leaves, inferred from shapes and containers."""
  kinds = [_KERNELS.get(len(shape), 'unknown') for shape in shapes]
  layers = [f'{kind}_{i}' for i, kind in enumerate(kinds)]
  for kernel, shape in enumerate(shapes):
    if kinds[kernel] not in _KERNELS.values():
      continue
    # Sorted keys put `bias` before `kernel`; a sequence puts it after.
    for bias in (kernel + 1, kernel - 1):
      is_free = (
          0 <= bias < len(shapes)
          and kinds[bias] == 'unknown'
          and containers[bias] == containers[kernel]
      )
      if is_free and shapes[bias] == shape[-1:]:
        kinds[bias], layers[bias] = 'bias', layers[kernel]
        break
  return tuple(
      functional.LayerWeight(
          f'{layer}/{_ROLES.get(kind, "weight")}',
          layer, kind, shape,
      )
      for layer, kind, shape in zip(layers, kinds, shapes)
  )
