"""Compares and splits the contents of arrays, bit by bit."""

from typing import Any, Sequence

import numpy as np


def equal(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
  """Whether arrays agree in shape and in every bit; NaN equals the same NaN."""
  return len(some) == len(others) and all(
      a.shape == b.shape and np.array_equal(_bits(a), _bits(b))
      for a, b in zip(some, others)
  )


def is_constant(value: Any) -> bool:
  """Whether an array can never change, because it is a view of bytes.

  An array that is only marked read-only can be made writeable again.
  """
  while isinstance(value, np.ndarray):
    value = value.base
  return isinstance(value, bytes)


def split(entries: np.ndarray, like: Sequence[np.ndarray]) -> list:
  """Returns consecutive views of `entries` with the shapes of `like`."""
  flat = entries.reshape([-1])
  stops = np.cumsum([array.size for array in like])
  return [
      piece.reshape(array.shape)
      for piece, array in zip(np.split(flat, stops[:-1]), like)
  ]


def _bits(array: np.ndarray) -> np.ndarray:
  """Returns the words of an array as a flat array; strings are unchanged."""
  flat = np.ascontiguousarray(array).reshape([-1])
  return flat if flat.dtype == object else flat.view(f'u{min(flat.itemsize, 8)}')
