"""The contents of a file of federated data: the records of each client."""

from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from tff_pers.data import errors


class Field(NamedTuple):
  """A field of every record.

  Attributes:
    dtype: `np.float32`, `np.int64`, or `bytes` for text.
    shape: Shape of the value in one record.
  """

  dtype: Any
  shape: tuple[int, ...] = ()


class Records(NamedTuple):
  """Records of P clients, read one client at a time.

  Attributes:
    where: The file, for messages.
    clients: Names of the clients, distinct and sorted.
    sizes: Number of records of each client, int64[P].
    read: From the position of a client to arrays by field name, with one row
      per record, in the order of the file; text is an array of `bytes` objects.
      Several threads may call it at the same time.
  """

  where: str
  clients: Sequence[str]
  sizes: np.ndarray
  read: Callable[[int], Mapping[str, np.ndarray]]

  @property
  def places(self) -> dict[str, int]:
    """The position of each client by its name."""
    return {name: position for position, name in enumerate(self.clients)}


def make(
    where: str,
    sizes: Mapping[str, int],
    read: Callable[[str], Mapping[str, np.ndarray]],
    fields: Mapping[str, Field],
) -> Records:
  """Returns the records of a file, which are checked when they are read.

  `sizes` are numbers of records by client; `read(client)` returns arrays by
  field name.

  Raises:
    errors.DataError: If there is no client. Reading raises it if a client lacks
      a field, or has one of another form.
  """
  if not sizes:
    raise errors.DataError(f'{where} must hold a client, found none.')
  clients = sorted(sizes)

  def read_checked(position: int) -> dict[str, np.ndarray]:
    client = clients[position]
    found = read(client)
    return {
        name: _checked(
            found, name, field, sizes[client], f'{where}, client {client}'
        )
        for name, field in fields.items()
    }

  return Records(
      where, clients, np.array([sizes[c] for c in clients], np.int64),
      read_checked,
  )


def text(values: np.ndarray, where: str) -> list[str]:
  """Returns the bytes of a field as text.

  Raises:
    errors.DataError: If a value is not UTF-8.
  """
  decoded = []
  for row, value in enumerate(values):
    try:
      decoded.append(value.decode('utf-8'))
    except UnicodeDecodeError as error:
      raise errors.DataError(
          f'{where}: text must be UTF-8, found bytes that are not in record'
          f' {row} ({error.reason} at byte {error.start}).'
      ) from error
  return decoded


def _checked(found, name: str, field: Field, size: int, where: str):
  """Returns the values of one field, with its dtype and shape."""
  if name not in found:
    raise errors.DataError(
        f'{where} must have {name} in its records, found'
        f' {", ".join(sorted(found)) or "nothing"}.'
    )
  if field.dtype is bytes:
    return _bytes(found[name], name, size, where)
  values = np.asarray(found[name])
  # A client without records has no shape to check.
  if not size and not values.size:
    return np.zeros([0, *field.shape], field.dtype)
  expected = (size, *field.shape)
  if values.dtype.kind not in 'biuf' or values.size != np.prod(expected):
    raise errors.DataError(
        f'{where}: {name} must be numbers of shape {list(expected)}, found'
        f' {values.dtype} of shape {list(values.shape)}.'
    )
  return values.reshape(expected).astype(field.dtype)


def _bytes(values, name: str, size: int, where: str) -> np.ndarray:
  found = np.empty([len(values)], object)
  found[:] = [
      value.encode('utf-8') if isinstance(value, str) else value
      for value in values
  ]
  if len(found) != size or not all(isinstance(v, bytes) for v in found):
    raise errors.DataError(
        f'{where}: {name} must be {size} texts, found {len(found)} values of'
        f' type {type(values[0]).__name__ if len(found) else "none"}.'
    )
  return found
