"""Remarks on possible mistakes in a table that can be read.

Nothing here changes the data: users may spell a name in two ways, number their
rows, or write codes as numbers, and only they know whether they did.
"""

import shlex
from typing import Sequence
import unicodedata

import numpy as np

from tff_pers.data import cells
from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import rounding
from tff_pers.data import tables

_NAMED_COLUMNS = ('csv', 'parquet', 'tfrecord')
# With fewer rows, whole numbers may all differ by chance.
_FEWEST = 20
# Numbers of distinct whole numbers that suggest codes; two are zeros and ones.
_CODES = range(3, 11)
_MANY_TEXTS = 50


def find(table: tables.Table, task: str) -> list[str]:
  """Returns remarks about spelling, identifiers, codes, zeros, many texts.

  The task is for the flags that they name.
  """
  found = [spelled_alike(
      'Clients', list(map(str, table.names)), np.bincount(table.client)
  )]
  if table.classes is not None:
    found.append(
        spelled_alike('Classes', table.classes, np.bincount(table.y))
    )
  identifiers, codes, far = [], [], []
  # Arrays have neither names nor flags for columns.
  columns = table.columns if task in _NAMED_COLUMNS else None
  for column, values in zip(columns or (), table.x.T):
    there = values[~np.isnan(values)]
    if column.of_date:
      continue
    if column.categories is None:
      is_zero = there == -np.float32(column.offset)
      if column.offset and is_zero.any() and rounding.is_rounded(
          column.offset, float(there[~is_zero].std(dtype=np.float64))
      ):
        far.append(column.name)
      if _is_identifier(there):
        identifiers.append(column.name)
      elif _are_codes(there):
        codes.append(column.name)
      continue
    counts = np.bincount(there.astype(int), minlength=len(column.categories))
    if len(there) >= _FEWEST and counts.max() == 1:
      identifiers.append(column.name)
    elif len(column.categories) > _MANY_TEXTS:
      largest = np.argsort(-counts, kind='stable')[:3]
      shown = ', '.join(f'{column.categories[c]}: {counts[c]}' for c in largest)
      found.append(
          f'{column.name} has {len(column.categories)} different texts ({shown}'
          ' rows, ...), each of which is a feature.'
      )
    found.append(
        spelled_alike(f'Texts of {column.name}', column.categories, counts)
    )
  if far:
    found.append(
        f'0 is far from all other numbers of {errors.listed(far)}, whose'
        ' differences are lost beside it; if it means no value, empty these'
        f' cells: --{task}_missing=mean.'
    )
  if identifiers:
    found.append(
        f'{errors.listed(identifiers)} differ in every row, as identifiers do;'
        f' to leave them out: --{task}_drop_columns={_quoted(identifiers)}.'
    )
  if codes:
    found.append(
        f'{errors.listed(codes)} hold few whole numbers; if they are codes:'
        f' --{task}_categorical={_quoted(codes)}.'
    )
  return list(filter(None, found))


def spelled_alike(
    what: str, names: Sequence[str], counts: np.ndarray
) -> str:
  """Returns a remark on texts with the same `spelling_key`, or ''.

  `what` begins the sentence; `counts` are the numbers of rows of each text.
  """
  groups: dict[str, list[str]] = {}
  for name, count in zip(names, counts):
    groups.setdefault(spelling_key(name), []).append(f'{name!r} ({count})')
  alike = [' and '.join(group) for group in groups.values() if len(group) > 1]
  if not alike:
    return ''
  return (
      f'{what} that differ only in capitals, spaces or a final .0 count as'
      f' different, with these numbers of rows: {errors.listed(alike)}.'
  )


def spelling_key(name: str) -> str:
  """Returns a key shared by names that differ in capitals, spaces and .0."""
  name = unicodedata.normalize('NFKC', name).casefold()
  return cells.code(' '.join(name.split()))


def _quoted(names: Sequence[str]) -> str:
  return shlex.quote(client_names.listed(names))


def _is_identifier(values: np.ndarray) -> bool:
  return bool(
      len(values) >= _FEWEST and np.all(values == np.round(values))
      and len(np.unique(values)) == len(values)
  )


def _are_codes(values: np.ndarray) -> bool:
  few = np.unique(values[:1000])
  return bool(
      len(values) >= _FEWEST and len(few) <= _CODES[-1]
      and len(distinct := np.unique(values)) in _CODES
      and np.all(distinct == np.round(distinct))
  )
