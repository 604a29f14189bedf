"""`csv`, `parquet`, `npz`, `images`, `leaf`, ...: users' own data."""

import dataclasses
import functools
from typing import Callable, Iterator, Optional, Sequence
import zlib

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import arrow_files
from tff_pers.data import cells
from tff_pers.data import checks
from tff_pers.data import columnar
from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import image_folders
from tff_pers.data import leaf_tables
from tff_pers.data import readings
from tff_pers.data import rounding
from tff_pers.data import split
from tff_pers.data import table_remarks
from tff_pers.data import tables
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry

# Maximum number of clients that a sentence names.
_NAMED = 8
# Largest share of the standard deviation of y that float32 may round away.
_MAX_LOST = 1e-3


@dataclasses.dataclass(frozen=True)
class OwnDataOptions(hp.Options):
  """How y is interpreted."""

  kind: str = hp.field(
      'auto',
      'What y is; auto: classification if y is made of texts, of booleans or of'
      f' at most {cells.MAX_NAMED} different whole numbers.',
      choices=('auto', 'classification', 'regression'),
  )
  min_examples: int = hp.field(
      2, 'Clients with fewer rows are left out.', minimum=2
  )


@dataclasses.dataclass(frozen=True)
class ColumnOptions(OwnDataOptions):
  """How y and the columns of features are interpreted."""

  missing: str = hp.field(
      'refuse', 'What to do with missing features; mean: use the mean of the'
      ' training data, and add a feature that marks missing ones.',
      choices=('refuse', 'mean'),
  )
  categories: str = hp.field(
      'refuse', 'What to do with features that are texts; one_hot: a feature'
      ' of zeros and ones for each text of the training data.',
      choices=('refuse', 'one_hot'),
  )
  categorical: str = hp.field(
      '', 'Columns whose numbers are codes, with commas: a feature of zeros and'
      ' ones for each code of the training data.',
  )
  dates: str = hp.field(
      '', 'Columns of dates, with commas; year, month, weekday and days since'
      ' 1970 become features.',
  )
  client_column: str = hp.field('client', 'Column with the client of a row.')
  label_column: str = hp.field('y', 'Column of labels or targets.')
  split_column: str = hp.field(
      'split', 'Column that marks the test set: train or test, 0 or 1.'
  )
  drop_columns: str = hp.field(
      '', 'Columns that are not features and are dropped, with commas.'
  )

  def __post_init__(self):
    super().__post_init__()
    named = self.client_column, self.label_column, self.split_column
    if '' in named or len(set(named)) < len(named):
      raise ValueError(
          '`client_column`, `label_column` and `split_column` must be three'
          f' columns, found {", ".join(map(repr, named))}.'
      )


# The data determine the number of clients and the kind of y.
_ARRAYS = registry.Declaration(
    classification=None, model=None, num_clients=0, partitions=('by_client',),
    standardize=False,
)
_COLUMNS = dataclasses.replace(_ARRAYS, standardize=True)


def _register(
    name: str, options: type[OwnDataOptions], declares: registry.Declaration,
    read: Callable[..., tables.Table], what: str,
) -> None:
  """Registers a task of the table `read(data_dir, options)`."""
  @registry.register(
      name, options, declares=declares, summary=f'your own {what}'
  )
  def _build_table(request, options):
    return _build(name, request, options, read(request.data_dir, options))


def _columns(kind: str, data_dir: str, options: ColumnOptions) -> tables.Table:
  """Returns the table of a file of columns."""
  return columnar.read(
      arrow_files.open_table(data_dir, kind, options.client_column),
      readings.Reading.by_options(kind, dataclasses.asdict(options)),
  )


for _kind, _what in (
    ('csv', 'with client, y, ...'), ('parquet', 'with client, y, ...'),
    ('tfrecord', 'of tf.train.Example'),
):
  _register(
      _kind, ColumnOptions, _COLUMNS, functools.partial(_columns, _kind),
      f'data: --data_dir names a .{_kind} {_what}',
  )
_register(
    'npz', OwnDataOptions, _ARRAYS,
    lambda data_dir, _: tables.read_npz(*tables.locate(data_dir, 'npz')),
    'data: --data_dir names an .npz with x, y, client',
)
_register(
    'images', OwnDataOptions, _ARRAYS,
    lambda data_dir, _: image_folders.read(data_dir),
    'images: --data_dir names a folder client/class/image.png',
)
_register(
    'leaf', OwnDataOptions, _ARRAYS,
    lambda data_dir, _: leaf_tables.read(data_dir),
    'data: --data_dir names a folder of JSON files as LEAF\'s',
)


def _build(
    name: str, request: registry.TaskRequest, options: OwnDataOptions,
    table: tables.Table,
):
  """Builds any of the tasks, whose clients are those of the file, sorted."""
  registry.refuse_partition(name, request)
  if table.is_test is not None and request.train_fraction:
    raise ValueError(
        f'`train_fraction` must not be given because {table.path} has its own'
        f' split, found {request.train_fraction}.'
    )
  if table.columns is None:
    x = checks.features(table.x, f'{table.path}, x', table.place)
    offsets = rounding.offsets_of(table.x)
    if offsets.any():
      x = (table.x - offsets).astype(np.float32)
    table = table._replace(x=x)
    columns = features.unnamed(x, offsets)
  else:
    columns = table.columns
  table, left_out = _without_small(name, table, options.min_examples)
  y, num_classes, classes = _labels_or_targets(name, table, options)
  task = assembly.assemble(
      name, request,
      assembly.Examples(
          table.x, y, num_classes, table.path, table.client, table.is_test,
          tier=table.tier, client_names=table.names,
          row_keys=split.content_keys(_contents(table, columns)),
      ),
      _ARRAYS,
      train_fraction=0.8,
      model='logistic_regression' if num_classes else 'linear_regression',
  )
  recipe, centred = None, any(column.offset for column in columns)
  if table.columns is not None or (
      classes or request.standardize or not num_classes or centred
  ):
    recipe = features.Recipe(
        columns, bool(request.standardize), classes,
        reading=dataclasses.asdict(options),
    )
  about = ' '.join((
      _of_y(name, options, y, classes, num_classes),
      _of_clients(table.client, table.names) + left_out,
      _of_columns(table), *table.remarks, *table_remarks.find(table, name),
  ))
  return dataclasses.replace(
      task, recipe=recipe, fits_rounds=True, about=about,
      splits='file' if table.is_test is not None
      # Rows with numbers that float32 rounds had other keys before.
      else 'content, centred' if centred else 'content',
  )


def _contents(
    table: tables.Table, columns: Sequence[features.Column]
) -> Iterator[np.ndarray]:
  """Yields y and the features, uint64[n] each.

  The positions of texts depend on the order in which they occur, and so does
  what was subtracted from numbers. So that the order of clients does not
  matter, the texts themselves are hashed, and the numbers of the file.
  """
  yield _of_texts(table.y, table.classes).astype(np.float64).view(np.uint64)
  x = np.ascontiguousarray(table.x, np.float32).reshape(len(table.x), -1)
  for values, column in zip(x.T, columns):
    if column.offset:
      values = values.astype(np.float64) + column.offset
    yield _of_texts(values, column.categories).astype(np.float32).view(
        np.uint32
    ).astype(np.uint64)


def _of_texts(
    codes: np.ndarray, texts: Optional[Sequence[str]]
) -> np.ndarray:
  """Returns hashes of texts; None: they are numbers already."""
  if texts is None:
    return codes
  numbers = [zlib.crc32(text.encode()) for text in texts or ('',)]
  is_missing = np.isnan(codes)
  numbers_of = np.array(numbers)[np.where(is_missing, 0, codes).astype(int)]
  return np.where(is_missing, np.nan, numbers_of)


def _without_small(
    name: str, table: tables.Table, least: int
) -> tuple[tables.Table, str]:
  """Returns the table without small clients, and a sentence about these."""
  counts = np.bincount(table.client, minlength=len(table.names))
  small = np.flatnonzero(counts < least)
  if not len(small):
    return table, ''
  if len(small) == len(counts):
    raise errors.DataError(
        f'{table.path} must hold a client with at least {least} rows, one to'
        ' train and one to test on, found none.'
    )
  found = errors.listed([str(table.names[client]) for client in small])
  sentence = (
      f' {_count(len(small), "client")} with fewer than {least} rows'
      f' {"is" if len(small) == 1 else "are"} left out ({found}):'
      f' --{name}_min_examples.'
  )
  return table.take(np.flatnonzero(~np.isin(table.client, small))), sentence


def _labels_or_targets(
    name: str, table: tables.Table, options: OwnDataOptions
) -> tuple[np.ndarray, int, Optional[tuple[str, ...]]]:
  """Returns checked labels, number of classes and class names, or targets.

  Labels that are 0, 1, ... have no other names (None); for targets the number
  of classes is 0.
  """
  where = f'{table.path}, y'
  if table.classes is not None:
    if options.kind == 'regression':
      raise errors.DataError(
          f'{where} must be numbers with --{name}_kind=regression, found'
          f' {table.classes[0]!r}.'
      )
    labels = checks.labels(table.y, where, place=table.place)
    return (*labels, table.classes)
  is_whole = table.y.dtype.kind in 'iub'
  is_classes = options.kind == 'classification' or (
      options.kind == 'auto' and is_whole and table.spelling is not None
  )
  if not is_classes:
    targets = checks.targets(table.y, where, table.place)
    _check_differences(table.y, targets, where)
    return targets, 0, None
  if not is_whole:
    return (*checks.labels(table.y, where, place=table.place), None)
  distinct, codes = np.unique(table.y, return_inverse=True)
  names = table.spelling or tuple(map(str, distinct.tolist()))
  usual = tuple(map(str, range(len(distinct))))
  labels = checks.labels(codes, where, place=table.place)
  return (*labels, None if names == usual else names)


def _check_differences(y: np.ndarray, rounded: np.ndarray, where: str) -> None:
  """Raises a DataError if float32 loses how targets differ, as of times."""
  y = y.astype(np.float64)
  lost, spread = np.sqrt(np.mean((rounded - y) ** 2)), y.std()
  if np.ptp(y) and lost > _MAX_LOST * spread:
    raise errors.DataError(
        f'{where} must keep its differences as float32, found values near'
        f' {y.mean():.6g} with a standard deviation of {spread:.3g}, of which'
        f' rounding takes {lost:.2g}. Tip: subtract {y.min():.17g} from y.'
    )


def _of_y(
    name: str, options: OwnDataOptions, y: np.ndarray,
    classes: Optional[tuple[str, ...]], num_classes: int,
) -> str:
  """Returns how y was interpreted, and the flag if that may be wrong."""
  if num_classes:
    labels = classes or tuple(map(str, range(num_classes)))
    counts = np.bincount(y, minlength=num_classes).tolist()
    shown = errors.listed(
        [f'{label}: {n}' for label, n in zip(labels, counts)]
    )
    tip = ''
    are_numbers = all(cells.number(label) is not None for label in labels)
    if options.kind == 'auto' and are_numbers and num_classes > 2:
      tip = f' If y is a quantity: --{name}_kind=regression.'
    return f'Classification: {num_classes} classes ({shown} rows).{tip}'
  tip = ''
  if options.kind == 'auto' and cells.are_whole(y.astype(np.float64)):
    tip = (
        ' All y are whole numbers; if they are labels:'
        f' --{name}_kind=classification.'
    )
  return f'Regression: y from {y.min():g} to {y.max():g}.{tip}'


def _of_clients(client: np.ndarray, names: np.ndarray) -> str:
  """Returns a sentence about the clients' numbers of rows."""
  counts = np.bincount(client, minlength=len(names)).tolist()
  if len(counts) > _NAMED:
    least, most = min(counts), max(counts)
    shown = f'{least} to ' * (least < most) + f'{_count(most, "row")} each'
  else:
    shown = errors.listed(
        [f'{name}: {n}' for name, n in zip(names, counts)]
    )
  clients, rows = _count(len(counts), 'client'), _count(len(client), 'row')
  return f'{clients}, {rows} ({shown}).'


def _of_columns(table: tables.Table) -> str:
  """Returns a sentence about the features and how they were read."""
  width = int(np.prod(table.x.shape[1:]))
  if table.columns is None or table.x.ndim > 2:
    return f'{_count(width, "feature")}.'
  texts = [
      f'{len(column.categories)} in {column.name}' for column in table.columns
      if column.categories is not None
  ]
  gaps = [
      f'{_count(missing, "row")} of {column.name}'
      for column, values in zip(table.columns, table.x.T)
      if (missing := int(np.isnan(values).sum()))
  ]
  return (
      f'{_count(width, "feature")}:'
      f' {errors.listed([column.name for column in table.columns])}'
      + (f'; different texts: {errors.listed(texts)}' if texts else '')
      + (f'; no value: {errors.listed(gaps)}' if gaps else '') + '.'
  )


def _count(number: int, word: str) -> str:
  return f'{number} {word}' + 's' * (number != 1)
