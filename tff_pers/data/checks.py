"""Checks of examples from users' files.

In messages `where` is the file (and array), and `place` names a row.
"""

from typing import Callable

import numpy as np
import numpy.typing as npt

from tff_pers.data import errors

Place = Callable[[int], str]
_row = 'row {}'.format


def features(x: npt.ArrayLike, where: str, place: Place = _row) -> np.ndarray:
  """Returns numbers x, [n, ...], as float32.

  Raises:
    errors.DataError: If x is not an array of finite numbers with rows.
  """
  x = np.asarray(x)
  if x.dtype.kind not in 'biuf':
    raise errors.DataError(
        f'{where} must hold real numbers in one shape for all examples, found'
        f' dtype {x.dtype}.'
    )
  if x.ndim < 2 or 0 in x.shape:
    raise errors.DataError(
        f'{where} must have the shape [examples, features...] with at least one'
        f' of each, found {list(x.shape)}.'
    )
  # Numbers too large for float32 become inf here and are reported below.
  with np.errstate(over='ignore'):
    x = x.astype(np.float32, copy=False)
  finite = np.isfinite(x).reshape(len(x), -1).all(axis=1)
  all_finite(finite, 'features', where, place)
  return x


def targets(y: npt.ArrayLike, where: str, place: Place = _row) -> np.ndarray:
  """Returns regression targets y as float32[n]; raises as `features`."""
  y = np.asarray(y)
  if y.ndim != 1 or not len(y) or y.dtype.kind not in 'biuf':
    raise errors.DataError(
        f'{where} must be one real number per example, found shape'
        f' {list(y.shape)} of dtype {y.dtype}.'
    )
  with np.errstate(over='ignore'):
    y = y.astype(np.float32)
  all_finite(np.isfinite(y), 'targets', where, place)
  return y


def labels(
    y: npt.ArrayLike, where: str, num_classes: int = 0, place: Place = _row
) -> tuple[np.ndarray, int]:
  """Returns labels y, integers 0..C-1, as int32[n], and the number of classes.

  If C is not given, it is the largest label + 1, and every class must occur.

  Raises:
    errors.DataError: If y is not as described; names the client.
  """
  y = np.asarray(y)
  if y.ndim != 1 or not len(y) or y.dtype.kind not in 'biuf':
    raise errors.DataError(
        f'{where} must be one integer label per example, found shape'
        f' {list(y.shape)} of dtype {y.dtype}.'
    )
  whole = np.isfinite(y) & (y == np.round(y))
  _each(whole, 'must be integers', y, where, place)
  top = f'0..{num_classes - 1}' if num_classes else '0..C-1'
  # Labels become int32, and no data set has a million classes: a larger number
  # is a mistake, e.g. an identifier instead of a label.
  limit = num_classes or 10**6
  _each((y >= 0) & (y < limit), f'must be in {top}', y, where, place)
  y = y.astype(np.int32)
  present = np.unique(y)
  if not num_classes and len(present) != present[-1] + 1:
    missing = np.setdiff1d(np.arange(present[-1] + 1), present)[0]
    raise errors.DataError(
        f'{where} must hold every label 0..C-1 at least once, found'
        f' {len(present)} classes up to {present[-1]} without {missing}. Tip:'
        ' set num_classes if a class has no example here, or choose regression'
        ' if y is a quantity.'
    )
  num_classes = num_classes or int(present[-1]) + 1
  if num_classes < 2:
    raise errors.DataError(
        f'{where} must hold at least 2 classes, found {num_classes}.'
    )
  return y, num_classes


def _each(good, rule: str, y, where: str, place) -> None:
  if not good.all():
    row = int(np.argmin(good))
    raise errors.DataError(
        f'{where}: labels {rule}, found {y[row]} in {place(row)}.'
    )


def all_finite(
    finite: np.ndarray, what: str, where: str, place: Place = _row
) -> None:
  """Raises a DataError if a row of the numbers `what` is not finite."""
  if not finite.all():
    row = int(np.argmin(finite))
    raise errors.DataError(
        f'{where}: {what} must be finite (float32), found NaN or infinity in'
        f' {place(row)}.'
    )
