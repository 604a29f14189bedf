"""Reads tables after training: other data, new clients, no labels.

Columns are those of the training data, identified by name, and become the
model's inputs by the statistics fitted in training (`features.Features`):
nothing is fitted to the new rows.
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
from tff_pers.data import image_folders
from tff_pers.data import readings
from tff_pers.data import tables

# Distance of a mean from training's that is reported, in deviations.
_MOVED = 5


def read(
    path: str,
    fitted: Optional[features_lib.Features],
    x_shape: Sequence[Any],
    needs: Sequence[str] = tables.REQUIRED,
) -> tables.Table:
  """Returns a table whose x is the model's input, float32[n, *x_shape].

  The path is that of a .csv, .parquet, .tfrecord or .npz file, or of a folder
  of such files, or of images. Texts that the training data lacked become zeros;
  `remarks` names them. If nothing was `fitted`, x is unchanged. `needs` are the
  required columns or arrays among `client` and `y`; without `client`, all rows
  belong to one client named ''.

  Raises:
    errors.DataError: If the file cannot be read, or is not such a table.
  """
  kind = _kind(path)
  if kind == 'npz':
    [path] = tables.locate(path, kind)
    table = _of_arrays(path, fitted, needs)
  elif kind == 'images':
    table = image_folders.read(path)
    table = table._replace(columns=features_lib.unnamed(table.x))
  else:
    table = _of_columns(path, kind, fitted, needs)
  x, columns = table.x, table.columns
  assert columns is not None  # These tables have named columns.
  if fitted is not None:
    x = fitted.apply(x, columns)
    table = table._replace(
        remarks=(*table.remarks, *_remarks(table, fitted))
    )
  elif kind != 'images':
    offsets = np.array([column.offset for column in columns])
    x = (x + offsets.reshape(x.shape[1:])).astype(np.float32)
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

  `num_classes` is 0 for regression, and `classes` None if they are numbers.

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
    near = errors.nearest(unknown[0], classes)
    raise errors.DataError(
        f'{where} must be one of {errors.listed(classes)}, the classes of the'
        f' training data, found {unknown[0]!r}.'
        + (f' Tip: {near!r}.' if near else '')
    )
  return np.array([codes[name] for name in table.classes], np.int32)[table.y]


def _numbered(table: tables.Table, classes, where: str) -> np.ndarray:
  """Returns labels for numbers in y, if classes are named by numbers."""
  y = np.asarray(table.y, np.float64)
  order = np.argsort(classes)
  known = np.array(classes)[order]
  places = np.minimum(np.searchsorted(known, y), len(known) - 1)
  unknown = known[places] != y
  if unknown.any():
    row = int(unknown.argmax())
    raise errors.DataError(
        f'{where} must be one of {errors.listed([f"{n:g}" for n in known])},'
        f' the classes of the training data, found {y[row]:g} in'
        f' {table.place(row)}.'
    )
  return order[places].astype(np.int32)


def _remarks(
    table: tables.Table, fitted: features_lib.Features
) -> tuple[str, ...]:
  """Returns sentences about new texts, missing values, and moved means."""
  assert table.columns is not None
  places = {column.name: place for place, column in enumerate(table.columns)}
  values = table.x.reshape(len(table.x), -1)
  remarks, moved, gaps = [], [], []
  for feature in fitted.features:
    column = table.columns[places[feature.name]]
    own = values[:, places[feature.name]]
    if column.categories is None:
      number = int(np.isnan(own).sum())
      if number and not feature.indicator:
        gaps.append(f'{_rows(number)} of {feature.name}')
      if number < len(own):
        mean = float(np.nanmean(own, dtype=np.float64)) + column.offset
        # If a column was constant, any other mean counts as far.
        if abs(mean - feature.mean) > max(
            _MOVED * feature.scale, 1e-6 * abs(feature.mean)
        ):
          moved.append(f'{feature.name} from {feature.mean:g} to {mean:g}')
      continue
    remarks += _unknown_texts(table, feature, column.categories, own)
  if gaps:
    remarks.append(
        f'{table.path} has no value in {errors.listed(gaps)}, where the'
        ' training data had all values. The model uses the training mean there.'
    )
  if moved:
    remarks.append(
        f'{table.path} is far from the training data: the mean moved by more'
        f' than {_MOVED} of their standard deviations,'
        f' {errors.listed(moved)}. Are units and columns the same?'
    )
  return tuple(remarks)


def _unknown_texts(table, feature, texts, codes: np.ndarray) -> list[str]:
  """Returns a sentence about texts that training lacked, with their rows."""
  codes = np.where(np.isnan(codes), len(texts), codes).astype(int)
  known = {*feature.categories, *[''][:feature.indicator]}
  counts = zip((*texts, ''), np.bincount(codes).tolist())
  found = [
      (repr(text) if text else 'no value') + f' in {_rows(number)}'
      for text, number in counts if number and text not in known
  ]
  if not found:
    return []
  return [
      f'{table.path}, column {feature.name} holds what the training data'
      f' lacked: {errors.listed(found)}. The model uses zeros there.'
  ]


def _rows(number: int) -> str:
  return f'{number} row{"s"[:number != 1]}'


def _kind(path: str) -> str:
  """Returns the key of `tables.EXTENSIONS` for a file, or files in a folder.

  A file with any other name has separated values; folders hold images.
  """
  if path and not os.path.exists(path):
    raise errors.DataError(f'`data_dir` must exist, found {path!r}.')
  names, kinds = [path], set()
  if os.path.isdir(path):
    names = sorted(os.listdir(path))
    if any(os.path.isdir(os.path.join(path, name)) for name in names):
      kinds = {'images'}
  elif path:
    kinds = {'csv'}
  kinds = {
      kind for kind, ends in tables.EXTENSIONS.items()
      if any(name.endswith(ends) for name in names)
  } or kinds
  if len(kinds) != 1:
    raise errors.DataError(
        '`data_dir` must name a .csv, .parquet, .tfrecord or .npz file or the'
        f' folder of one, found {path!r}.'
    )
  return kinds.pop()


def _of_columns(path: str, kind: str, fitted, needs) -> tables.Table:
  """Returns the table of a file of columns, read as in training."""
  options = {} if fitted is None else fitted.reading
  reading = readings.Reading.by_options(kind, options)
  if fitted is not None:
    reading = reading._replace(
        text_columns=frozenset(fitted.texts), texts=False,
        only=frozenset(feature.name for feature in fitted.features),
        # Near 0 float32 is exact, so an exported model predicts the same.
        offsets={
            f.name: f.mean for f in fitted.features
            if fitted.standardize and f.categories is None
        },
    )
  reading = reading._replace(needs=tuple(needs))
  file = arrow_files.open_table(path, kind, reading.columns['client'])
  label = reading.columns['y']
  if 'y' in needs and label not in file.names:
    raise errors.DataError(
        f'{path} must have the column {label} to be tested on, found none among'
        f' {errors.listed(file.names)}. Tip: binaries.predict takes rows'
        ' without it.'
    )
  try:
    return columnar.read(file, reading)
  except errors.DataError as error:
    # The flags in its tip are those of training.
    sentence, tip, _ = str(error).partition(f' Tip: --{kind}_')
    if not tip:
      raise
    if 'must have the columns' in sentence:
      raise errors.DataError(
          f'{sentence} Tip: binaries.predict takes rows without clients with'
          ' --client.'
      ) from error
    raise errors.DataError(
        f'{sentence} Tip: the training data had no such cells; correct or drop'
        ' the row.'
    ) from error


def _of_arrays(path: str, fitted, needs) -> tables.Table:
  """Returns the table of an .npz file."""
  if set(needs) >= set(tables.REQUIRED):
    table = tables.read_npz(path)
  else:
    arrays = tables.load_arrays(path, ('x', *needs), ('client',))
    table = tables.of_clients(path, arrays, arrays['x'], None)
  x = checks.features(table.x, f'{path}, x', table.place)
  means = {
      f.name: f.mean for f in (fitted.features if fitted is not None else ())
      if f.is_rounded
  }
  offsets = np.array([
      means.get(column.name, 0.0) for column in features_lib.unnamed(x)
  ]).reshape(x.shape[1:])
  if means:
    x = (table.x - offsets).astype(np.float32)
  return table._replace(x=x, columns=features_lib.unnamed(x, offsets))
