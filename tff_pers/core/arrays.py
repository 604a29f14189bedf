"""Checks and casts arrays that callers pass, with one-sentence errors."""

from typing import Any, Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers import tff


def client_index(value: Any, what: str) -> int:
  """Returns the index of a client as an int.

  Args:
    value: An integer: a Python number, an array or a tensor.
    what: What the value is, for the message.

  Raises:
    TypeError: If it is not a 32-bit integer.
  """
  number = np.asarray(value)
  is_integer = not number.ndim and number.dtype.kind in 'iu'
  if not is_integer or not -2**31 <= int(number) < 2**31:
    raise TypeError(
        f'{what} must be an integer, the number of the client in 0..N-1, found'
        f' {value!r}. Tip: number clients that have names, as `enumerate` does.'
    )
  return int(number)


def as_array(value: Any, where: str) -> Any:
  """Returns an array or tensor unchanged, anything else as an array.

  Args:
    value: An array, tensor, pandas table or column, or nested lists of numbers.
    where: What it is, for messages.

  Raises:
    TypeError: If it is not an array of numbers but, for example, a data set.
    ValueError: If its examples differ in shape.
  """
  if isinstance(value, (np.ndarray, tf.Tensor)):
    if value.dtype != object and len(value.shape):
      return value
  if isinstance(value, tf.data.Dataset):
    raise TypeError(
        f'{where} must be an array with all its examples, found a data set.'
        ' Tip: np.concatenate the arrays of its batches.'
    )
  try:
    array = np.asarray(value)
  except ValueError:
    array = np.asarray(None)
  if array.dtype != object and array.ndim:
    return array
  is_number = array.dtype != object
  found = 'a single number' if is_number else f'a {type(value).__name__}'
  if np.ndim(array) or isinstance(value, (list, tuple, tf.RaggedTensor)):
    shapes = [_shape(row) for row in value]
    for row, shape in enumerate(shapes):
      if shape != shapes[0]:
        raise ValueError(
            f'{where} must have one shape for all examples, found {shape} in'
            f' row {row} and {shapes[0]} in row 0. Tip: pad short examples to'
            ' one length.'
        )
    found += ' of objects'
  raise TypeError(
      f'{where} must be an array of numbers, one row of one shape per example,'
      f' found {found}. Tip: leave out what is not a number, and fill in'
      ' missing values.'
  )


def _shape(row) -> str:
  """Returns the shape of one example, for a message."""
  try:
    array = np.asarray(row)
  except ValueError:
    return 'several lengths'
  if array.dtype.kind in 'OUS':
    return type(row).__name__
  return str(list(array.shape)) if array.ndim else 'a number'


def fitted(value: Any, expected: tff.TensorType, where: str) -> Any:
  """Returns an array of the shape and dtype expected; see `inputs.fitted`.

  Args:
    value: See `as_array`.
    expected: Its TFF type, of the shape [None, ...].
    where: What it is, for messages.

  Raises:
    TypeError: If it is not an array of numbers.
    ValueError: If its shape differs, or a number cannot be cast.
  """
  found = as_array(value, where)
  _check_shape(found, expected, where)
  if found.dtype == expected.dtype:
    return found
  try:
    dtype = np.dtype(tf.as_dtype(found.dtype).as_numpy_dtype)
  except TypeError as error:
    raise TypeError(
        f'{where} must be an array of NumPy of dtype'
        f' {np.dtype(expected.dtype)}, found {found.dtype}.'
    ) from error
  if dtype == np.dtype(expected.dtype):
    return found
  return _cast(np.asarray(found), np.dtype(expected.dtype), where)


def _fits(shape: Sequence[int], expected: Sequence[Optional[int]]) -> bool:
  """Whether a shape is one of those expected."""
  return len(shape) == len(expected) and all(
      size in (None, found) for size, found in zip(expected, shape)
  )


def _check_shape(found, expected: tff.TensorType, where: str) -> None:
  shape = tuple(found.shape)
  if _fits(shape, expected.shape):
    return
  wanted = ['num_examples', *expected.shape[1:]]
  tip = ''
  if shape[1:] == (1, *expected.shape[1:]):
    tip = ' Tip: leave out the axis of length 1, as in y[:, 0].'
  elif shape[2:] == tuple(expected.shape[1:]):
    tip = (
        ' Tip: these look like batches; give all examples in one array, because'
        ' the process makes the batches.'
    )
  raise ValueError(
      f'{where} must be of shape [{", ".join(map(str, wanted))}], as the model'
      f' takes it, found {list(shape)}.{tip}'
  )


def _cast(found: np.ndarray, dtype: np.dtype, where: str) -> np.ndarray:
  """Returns the numbers in another dtype; integers must keep their values."""
  if found.dtype.kind not in 'biuf' or dtype.kind not in 'biuf':
    raise TypeError(
        f'{where} must be of dtype {dtype}, found {found.dtype}.'
    )
  if dtype.kind == 'f':
    # Numbers too large for float32 become infinite; the round reports that.
    with np.errstate(over='ignore'):
      return found.astype(dtype)
  with np.errstate(invalid='ignore'):
    cast = found.astype(dtype)
  same = cast == found
  if not np.all(same):
    row = np.argwhere(~same)[0][0]
    raise ValueError(
        f'{where} must be whole numbers of {dtype}, found'
        f' {found[row][~same[row]].flat[0]} in row {row}.'
    )
  return cast
