"""Checks messages that arrive at a server before they enter a computation.

Within a compiled round TFF's types exclude messages of a wrong shape. A program
that runs a round step by step (`process.Parts`) gets messages from elsewhere,
and TFF would abort the whole round at the first message that does not fit.
"""

from typing import Any, Mapping, Sequence

import numpy as np

from tff_pers.aggregators import factor_mean
from tff_pers import tff


def screen(
    outputs: Sequence[Any], output_type: tff.Type
) -> tuple[list[Any], list[int]]:
  """Returns outputs for `parts.aggregate`, and the refused clients.

  An output that is None, has a wrong structure, shape or dtype, or a non-finite
  update or weight, becomes zeros of weight 0, so that its client is absent and
  keeps its previous state.

      outputs, refused = screen(
          outputs, parts.work.type_signature.result.member)

  Args:
    outputs: Messages of the clients of a cohort, like results of `parts.work`.
    output_type: `<client_state, update, weight, own_metrics, metrics>`.

  Returns:
    The outputs, and the positions in the cohort of those refused.
  """
  kept, refused = [], []
  for position, output in enumerate(outputs):
    if not _is_good(output, output_type):
      output = _zeros(output_type)
      refused.append(position)
    kept.append(output)
  return kept, refused


def _is_good(output, output_type) -> bool:
  """Returns whether an output fits its type, with finite update and weight."""
  if not _fits(output, output_type):
    return False
  fields = _fields(output)
  if not all(
      _is_finite(fields[name], output_type[name])
      for name in ('update', 'weight')
  ):
    return False
  # Types do not fix the number of rows of factors.
  update = _fields(fields['update'])
  return 'factors' not in (update or {}) or factor_mean.fits(update)


def _fits(value, expected: tff.Type) -> bool:
  """Returns whether a value has the structure, shapes and dtypes of a type."""
  if isinstance(expected, tff.StructType):
    fields = _fields(value)
    parts = _parts(expected)
    return fields is not None and list(fields) == list(parts) and all(
        _fits(fields[name], part) for name, part in parts.items()
    )
  if _fields(value) is not None:
    return False
  array = np.asarray(value)
  return array.dtype == expected.dtype and len(array.shape) == len(
      expected.shape
  ) and all(
      size in (None, found) for size, found in zip(expected.shape, array.shape)
  )


def _is_finite(value, expected: tff.Type) -> bool:
  """Returns whether all floating tensors of a fitting value are finite."""
  if isinstance(expected, tff.StructType):
    fields = _fields(value)
    return all(
        _is_finite(fields[name], part)
        for name, part in _parts(expected).items()
    )
  is_floating = np.issubdtype(expected.dtype, np.floating)
  return not is_floating or bool(np.all(np.isfinite(value)))


def _fields(value):
  """Returns the parts of a container by name or position; None for others."""
  if hasattr(value, '_asdict'):
    return value._asdict()
  if isinstance(value, Mapping):
    return dict(value)
  if isinstance(value, (list, tuple)):
    return dict(enumerate(value))
  if isinstance(value, tff.structure.Struct):
    return _parts(value)
  return None


def _parts(struct) -> dict[Any, Any]:
  """Returns the elements of a `Struct` by name, or by position."""
  return {
      position if name is None else name: element
      for position, (name, element) in enumerate(
          tff.structure.iter_elements(struct)
      )
  }


def _zeros(output_type: tff.Type):
  """Returns zeros of the type; unknown dimensions are 0."""
  return tff.types.structure_from_tensor_type_tree(
      lambda t: np.zeros([size or 0 for size in t.shape], t.dtype.type),
      output_type,
  )
