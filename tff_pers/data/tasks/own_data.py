"""`npz`, `csv`, `parquet`: a user's own data (formats: `data/tables.py`)."""

import dataclasses
from typing import Optional

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import arrow_files
from tff_pers.data import checks
from tff_pers.data import columnar
from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import tables
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry

# More classes, or whole numbers, than labels usually are.
_MANY_CLASSES = 20


@dataclasses.dataclass(frozen=True)
class OwnDataOptions:
  """How to read y."""

  kind: str = hp.field(
      'auto',
      'What y is; auto: classification if y is made of integers or texts.',
      choices=('auto', 'classification', 'regression'),
  )
  num_classes: int = hp.field(
      0, 'Number of classes; 0: the largest label + 1.', minimum=0
  )

  def __post_init__(self):
    hp.validate(self)
    if self.num_classes == 1 or (
        self.num_classes and self.kind == 'regression'
    ):
      raise ValueError(
          '`num_classes` must be 0 or >= 2, and 0 for regression, found'
          f' {self.num_classes}.'
      )


@dataclasses.dataclass(frozen=True)
class ColumnOptions(OwnDataOptions):
  """How to read y and the columns of features."""

  missing: str = hp.field(
      'refuse', 'What to do with features that have no value; mean: the mean of'
      ' the training data, and a feature that says where it was missing.',
      choices=('refuse', 'mean'),
  )
  categories: str = hp.field(
      'refuse', 'What to do with features that are texts; one_hot: a feature'
      ' of zeros and ones for each text of the training data.',
      choices=('refuse', 'one_hot'),
  )


# The data say how many clients there are, and what y is.
_ARRAYS = registry.Declaration(
    classification=None, model=None, num_clients=0, partitions=('by_client',),
    standardize=False,
)
_COLUMNS = dataclasses.replace(_ARRAYS, standardize=True)


@registry.register(
    'npz', OwnDataOptions, declares=_ARRAYS,
    summary='your own data: --data_dir names an .npz with x, y, client',
)
def build_npz(
    request: registry.TaskRequest, options: OwnDataOptions
) -> task_lib.Task:
  """Builds the task from the arrays of one file."""
  table = tables.read_npz(tables.locate(request.data_dir, 'npz'))
  x = checks.features(table.x, f'{table.path}, x', table.place)
  columns = None
  if request.standardize:
    width = int(np.prod(x.shape[1:]))
    columns = tuple(features.Column(f'x{place}') for place in range(width))
  return _build('npz', request, options, table._replace(x=x, columns=columns))


@registry.register(
    'csv', ColumnOptions, declares=_COLUMNS,
    summary='your own data: --data_dir names a .csv with client, y, ...',
)
def build_csv(
    request: registry.TaskRequest, options: ColumnOptions
) -> task_lib.Task:
  """Builds the task from the columns of one file."""
  file = arrow_files.CsvFile(tables.locate(request.data_dir, 'csv'))
  return _build_of_columns('csv', request, options, file)


@registry.register(
    'parquet', ColumnOptions, declares=_COLUMNS,
    summary='your own data: --data_dir names a .parquet with client, y, ...',
)
def build_parquet(
    request: registry.TaskRequest, options: ColumnOptions
) -> task_lib.Task:
  """Builds the task from the columns of one file."""
  file = arrow_files.ParquetFile(tables.locate(request.data_dir, 'parquet'))
  return _build_of_columns('parquet', request, options, file)


def _build_of_columns(
    name: str, request: registry.TaskRequest, options: ColumnOptions,
    file: columnar.File,
):
  table = columnar.read(file, columnar.Reading(
      name, missing=options.missing == 'mean',
      texts=options.categories == 'one_hot',
  ))
  return _build(name, request, options, table)


def _build(
    name: str, request: registry.TaskRequest, options: OwnDataOptions,
    table: tables.Table,
):
  """Builds any of the tasks: the clients of the file, sorted, are theirs."""
  if request.partition not in ('', _ARRAYS.partition):
    raise ValueError(
        f'`partition` must be by_client for task {name}, found'
        f' {request.partition!r}.'
    )
  if table.is_test is not None and request.train_fraction:
    raise ValueError(
        f'`train_fraction` must not be given because {table.path} has its own'
        f' split, found {request.train_fraction}.'
    )
  y, num_classes = _labels_or_targets(name, table, options)
  task = assembly.assemble(
      name, request,
      assembly.Examples(
          table.x, y, num_classes, table.path, table.client, table.is_test,
          tier=table.tier, client_names=table.names,
      ),
      partition=_ARRAYS.partition,
      num_clients=_ARRAYS.num_clients,
      train_fraction=0.8,
      model='logistic_regression' if num_classes else 'linear_regression',
  )
  recipe = None
  if table.columns is not None:
    recipe = features.Recipe(
        table.columns, bool(request.standardize), table.classes
    )
  width = int(np.prod(table.x.shape[1:]))
  return dataclasses.replace(
      task, recipe=recipe, fits_rounds=True, about=_sentence(
          name, options, y, table.classes, num_classes,
          f'{width} features, {task.num_clients} clients',
      ),
  )


def _labels_or_targets(
    name: str, table: tables.Table, options: OwnDataOptions
) -> tuple[np.ndarray, int]:
  """Returns checked labels and the number of classes, or targets and 0."""
  where = f'{table.path}, y'
  if table.classes is not None and options.kind == 'regression':
    raise errors.DataError(
        f'{where} must be numbers with --{name}_kind=regression, found'
        f' {table.classes[0]!r}.'
    )
  is_classes = options.kind == 'classification' or (
      options.kind == 'auto' and table.y.dtype.kind in 'iub'
  )
  if not is_classes:
    return checks.targets(table.y, where, table.place), 0
  return checks.labels(table.y, where, options.num_classes, table.place)


def _sentence(
    name: str, options: OwnDataOptions, y: np.ndarray,
    classes: Optional[tuple[str, ...]], num_classes: int, size: str,
) -> str:
  """Says what y was taken for, and the flag if it may be something else."""
  if num_classes:
    labels = classes or [str(label) for label in range(num_classes)]
    shown = ', '.join(labels[:5]) + (', ...' if num_classes > 5 else '')
    tip = ''
    if options.kind == 'auto' and not classes and num_classes > _MANY_CLASSES:
      tip = f' If y is a quantity: --{name}_kind=regression.'
    return f'Classification: {size}, {num_classes} classes ({shown}).{tip}'
  tip, values = '', np.unique(y)
  if (
      options.kind == 'auto' and len(values) <= _MANY_CLASSES
      and np.array_equal(values, np.round(values))
  ):
    tip = (
        ' All y are whole numbers; if they are labels:'
        f' --{name}_kind=classification.'
    )
  return f'Regression: {size}, y from {y.min():g} to {y.max():g}.{tip}'
