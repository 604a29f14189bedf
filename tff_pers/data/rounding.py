"""Finds numbers whose differences float32 would lose: times in seconds."""

import numpy as np

# Share of the spread of numbers that rounding to float32 may lose.
SHARE = 1e-4
# Rows that are looked at together, because copies take memory.
_BLOCK = 8192


def is_rounded(center: float, spread: float) -> bool:
  """Returns whether float32 rounds numbers of this mean and deviation."""
  error = np.spacing(np.float32(abs(center))) / 2
  return bool(spread and error > SHARE * spread)


class Numbers:
  """Statistics of the numbers in columns, without zeros and NaN.

  Zeros do not count, because people write them where there is no value.
  """

  def __init__(self, width: int = 1):
    self._first, self._count, self._total, self._squares, self._error = (
        np.zeros([5, width])
    )

  def add(self, x: np.ndarray) -> None:
    """Adds rows, float64[n, columns]."""
    there = ~np.isnan(x) & (x != 0)
    first = x[there.argmax(0), np.arange(x.shape[1])]
    self._first = np.where(self._count, self._first, first)
    deviations = np.where(there, x - self._first, 0)
    # Numbers too large for float32 are refused elsewhere.
    with np.errstate(over='ignore', invalid='ignore'):
      errors = np.where(there, np.abs(x.astype(np.float32) - x), 0)
    self._count = self._count + there.sum(0)
    self._total = self._total + deviations.sum(0)
    self._squares = self._squares + np.square(deviations).sum(0)
    self._error = np.maximum(self._error, errors.max(0, initial=0))

  def offsets(self) -> np.ndarray:
    """Returns what to subtract before the conversion, float64[columns].

    It is 0 where float32 keeps the differences, and a number of the column
    elsewhere, as a float32 so that 0 minus it is exact.
    """
    count = np.maximum(self._count, 1)
    variance = self._squares / count - np.square(self._total / count)
    spread = np.sqrt(np.maximum(variance, 0))
    needed = (spread > 0) & (self._error > SHARE * spread)
    offsets = np.where(needed, self._first, 0)
    return offsets.astype(np.float32).astype(np.float64)


def offsets_of(x: np.ndarray) -> np.ndarray:
  """Returns `Numbers.offsets` of an array [n, ...], with its shape [...]."""
  if np.can_cast(x.dtype, np.float32):
    return np.zeros(x.shape[1:])
  numbers = Numbers(int(np.prod(x.shape[1:])))
  for first in range(0, len(x), _BLOCK):
    rows = x[first:first + _BLOCK]
    numbers.add(rows.reshape(len(rows), -1).astype(np.float64))
  return numbers.offsets().reshape(x.shape[1:])
