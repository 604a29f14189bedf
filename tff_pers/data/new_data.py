"""Tables that come after training: other data, new clients, no labels.

Columns are those of the training data, found by name, and become what the model
takes by the statistics that were fitted then (`features.Features`): nothing is
fitted to the new rows.
"""

import os
from typing import Any, Optional, Sequence

import numpy as np

from tff_pers.data import arrow_files
from tff_pers.data import cells
from tff_pers.data import checks
from tff_pers.data import columnar
from tff_pers.data import errors
from tff_pers.data import features as features_lib
from tff_pers.data import tables

# The most texts of a column that a sentence names.
_NAMED = 8


def read(
    path: str,
    fitted: Optional[features_lib.Features],
    x_shape: Sequence[Any],
    needs: Sequence[str] = tables.REQUIRED,
) -> tables.Table:
  """Returns a table whose x is what the model takes, float32[n, *x_shape].

  Texts that the training data had not become zeros; `remarks` names them.

  Args:
    path: A .csv, .parquet or .npz file, or a folder that holds one such file.
    fitted: What was made of the columns of the training data; None: x as it is.
    x_shape: Shape of an example.
    needs: Columns or arrays that must be there, of `client` and `y`. Without
      `client` all rows are of one client with the name ''.

  Raises:
    errors.DataError: If the file cannot be read, or is not such a table.
  """
  kind = _kind(path)
  path = tables.locate(path, kind)
  if kind == 'npz':
    table = _of_arrays(path, needs)
  else:
    file = (
        arrow_files.CsvFile if kind == 'csv' else arrow_files.ParquetFile
    )(path)
    table = _of_columns(file, kind, fitted, needs)
  x = table.x
  if fitted is not None:
    assert table.columns is not None  # Asked for, where there is a `fitted`.
    x = fitted.apply(x, table.columns)
    table = table._replace(remarks=_remarks(table, fitted))
  if list(x.shape[1:]) != list(x_shape):
    raise errors.DataError(
        f'{path} must hold examples of shape {list(x_shape)} as in training,'
        f' found {list(x.shape[1:])}.'
    )
  return table._replace(x=x)


def labels(
    table: tables.Table, num_classes: int,
    classes: Optional[Sequence[str]] = None,
) -> np.ndarray:
  """Returns y as in training: int32[n] labels 0..C-1, or float32[n] targets.

  Args:
    table: The table.
    num_classes: C; 0: regression.
    classes: Names of the labels, or None: they are numbers.

  Raises:
    errors.DataError: If y holds something else.
  """
  where = f'{table.path}, y'
  numbers = [cells.number(name) for name in classes or ()]
  if table.classes is None and numbers and None not in numbers:
    return _numbered(table, numbers, where)
  if (table.classes is None) != (classes is None):
    kinds = ['names of classes', 'numbers']
    raise errors.DataError(
        f'{where} must hold {kinds[classes is None]} as in the training data,'
        f' found {kinds[table.classes is None]}.'
    )
  if not num_classes:
    return checks.targets(table.y, where, table.place)
  if classes is None or table.classes is None:
    return checks.labels(table.y, where, num_classes, table.place)[0]
  codes = {name: code for code, name in enumerate(classes)}
  unknown = [name for name in table.classes if name not in codes]
  if unknown:
    raise errors.DataError(
        f'{where} must be one of {", ".join(classes[:8])}, the classes of the'
        f' training data, found {unknown[0]!r}.'
    )
  return np.array([codes[name] for name in table.classes], np.int32)[table.y]


def _numbered(table: tables.Table, classes, where: str) -> np.ndarray:
  """Returns the labels of numbers whose classes are named by numbers."""
  y = np.asarray(table.y, np.float64)
  order = np.argsort(classes)
  known = np.array(classes)[order]
  places = np.minimum(np.searchsorted(known, y), len(known) - 1)
  unknown = known[places] != y
  if unknown.any():
    row = int(unknown.argmax())
    raise errors.DataError(
        f'{where} must be one of {", ".join(f"{n:g}" for n in known[:_NAMED])},'
        f' the classes of the training data, found {y[row]:g} in'
        f' {table.place(row)}.'
    )
  return order[places].astype(np.int32)


def _remarks(
    table: tables.Table, fitted: features_lib.Features
) -> tuple[str, ...]:
  """Names the texts that training had not, of each column, and their rows."""
  remarks = []
  assert table.columns is not None
  places = {column.name: place for place, column in enumerate(table.columns)}
  for feature in fitted.features:
    texts = table.columns[places[feature.name]].categories
    if texts is None or feature.categories is None:
      continue
    codes = table.x[:, places[feature.name]]
    codes = np.where(np.isnan(codes), len(texts), codes).astype(int)
    known = {*feature.categories, *[''][:feature.indicator]}
    counts = zip((*texts, ''), np.bincount(codes).tolist())
    found = [
        (repr(text) if text else 'no value')
        + f' in {number} row{"s"[:number != 1]}'
        for text, number in counts if number and text not in known
    ]
    if found:
      more = len(found) - _NAMED
      found[_NAMED:] = [f'{more} others'] if more > 0 else []
      remarks.append(
          f'{table.path}, column {feature.name} holds what the training data'
          f' had not: {", ".join(found)}. The model takes zeros there.'
      )
  return tuple(remarks)


def _kind(path: str) -> str:
  """Returns the key of `tables.EXTENSIONS` of a file, or of one in a folder."""
  names = [path]
  if os.path.isdir(path):
    names = sorted(os.listdir(path))
  kinds = {
      kind for kind, ends in tables.EXTENSIONS.items()
      if any(name.endswith(ends) for name in names)
  }
  if len(kinds) != 1 or not os.path.exists(path):
    raise errors.DataError(
        '`data_dir` must name a .csv, .parquet or .npz file or the folder of'
        f' one, found {path!r}.'
    )
  return kinds.pop()


def _of_columns(file, kind: str, fitted, needs) -> tables.Table:
  """Returns the table of a file of columns."""
  known = () if fitted is None else fitted.features
  reading = columnar.Reading(
      kind, missing=any(feature.indicator for feature in known),
      texts=any(feature.categories is not None for feature in known),
      text_columns=frozenset(
          f.name for f in known if f.categories is not None
      ) & frozenset(file.names),
      needs=tuple(needs),
  )
  try:
    return columnar.read(file, reading)
  except errors.DataError as error:
    # The flags that its tip names are those of training.
    sentence, tip, _ = str(error).partition(f' Tip: --{kind}_')
    if not tip:
      raise
    raise errors.DataError(
        f'{sentence} Tip: the training data had no such cells; mend or leave'
        ' out the row.'
    ) from error


def _of_arrays(path: str, needs) -> tables.Table:
  """Returns the table of an .npz file."""
  if set(needs) >= set(tables.REQUIRED):
    table = tables.read_npz(path)
  else:
    arrays = tables.load_arrays(path, ('x', *needs), ('client',))
    x = arrays['x']
    size = len(x) if x.ndim else 0
    client = arrays.get('client', np.full([size], ''))
    if client.shape != (size,):
      raise errors.DataError(
          f'{path} must hold one row per example in every array, found'
          f' {size} of x and shape {list(client.shape)} of client.'
      )
    names, codes = np.unique(client, return_inverse=True)
    table = tables.Table(
        path, x, np.zeros([size], np.int64), codes.astype(np.int32), names, None
    )
  x = checks.features(table.x, f'{path}, x', table.place)
  return table._replace(x=x, columns=features_lib.unnamed(x))
