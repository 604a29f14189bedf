"""Reads TFRecord files of `tf.train.Example` as columns; see `arrow_files`.

Records describe themselves: the columns are all features that occur in any
record. A feature of n values is n columns (`pixels 0`, `pixels 1`, ...), and a
feature that a record lacks has no value there.
"""

import itertools
from typing import Any, Collection, Iterator, Sequence

import pyarrow as pa
import tensorflow as tf

from tff_pers.data import errors

_BATCH_ROWS = 2**14
_TYPES = {
    'bytes_list': pa.string(), 'float_list': pa.float32(),
    'int64_list': pa.int64(),
}


class RecordFile:
  """A TFRecord file, gzipped if its name ends in .gz."""

  unit, about, num_rows, decimal_comma = 'record', '', None, False

  def __init__(self, path: str):
    """Reads the names and kinds of the features.

    Raises:
      errors.DataError: If it cannot be read, or a feature has values of two
        kinds, or a varying number of values.
    """
    self.path = path
    self._kinds: dict[str, tuple[str, int]] = {}
    for row, example in enumerate(self._examples()):
      for name, (kind, values) in example.items():
        before = self._kinds.setdefault(name, (kind, len(values)))
        if before != (kind, len(values)):
          raise errors.DataError(
              f'{path} must hold one kind and number of values of {name} in'
              f' every record, found {_shown(*before)} and'
              f' {_shown(kind, len(values))}, the latter in record {row}.'
          )
    self._columns = [
        (name, place, kind) for name, (kind, size) in sorted(
            self._kinds.items()
        ) for place in range(size)
    ]
    self.names = [
        name.strip() if self._kinds[name][1] == 1 else f'{name} {place}'
        for name, place, _ in self._columns
    ]

  def batches(
      self, numbers: Collection[str] = ()
  ) -> Iterator[Sequence[pa.Array]]:
    """Yields the columns of consecutive records.

    Raises:
      errors.DataError: If the file cannot be read.
    """
    del numbers  # Values have types.
    examples = self._examples()
    while some := list(itertools.islice(examples, _BATCH_ROWS)):
      yield [
          pa.array([
              example[name][1][place] if name in example else None
              for example in some
          ], _TYPES[kind]) for name, place, kind in self._columns
      ]

  def position(self, row: int) -> str:
    """Returns a record as text; the first one is record 0."""
    return f'record {row}'

  def _examples(self) -> Iterator[dict[str, tuple[str, Any]]]:
    """Yields kind and values of each record's non-empty features, by name."""
    kind = 'GZIP' if self.path.endswith('.gz') else ''
    records = tf.data.TFRecordDataset(self.path, kind)
    try:
      for record in records.as_numpy_iterator():
        yield dict(sorted(_values(tf.train.Example.FromString(record))))
    # The error of protocol buffers is not a ValueError.
    except Exception as error:
      raise errors.DataError(
          f'{self.path} must be a complete TFRecord file of tf.train.Example'
          ' with numbers and texts in UTF-8, found it unreadable'
          f' ({errors.first_line(error)}).'
      ) from error


def _values(example: tf.train.Example) -> Iterator[tuple[str, Any]]:
  for name, feature in example.features.feature.items():
    kind = feature.WhichOneof('kind')
    values = getattr(feature, kind).value if kind else ()
    if kind == 'bytes_list':
      values = [value.decode('utf-8') for value in values]
    if values:
      yield name, (kind, values)


def _shown(kind: str, size: int) -> str:
  return f'{size} of {kind.removesuffix("_list")}'
