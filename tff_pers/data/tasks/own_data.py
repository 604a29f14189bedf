"""`npz` and `csv`: a user's own per-client data (formats: `data/tables.py`)."""

import dataclasses

from tff_pers import hyperparameters as hp
from tff_pers.data import checks
from tff_pers.data import tables
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry


@dataclasses.dataclass(frozen=True)
class OwnDataOptions:
  """How to read y."""

  kind: str = hp.field(
      'auto',
      'What y is; auto: classification if y is made of integers.',
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


# The data say how many clients there are, and what y is.
DECLARATION = registry.Declaration(
    classification=None, model=None, num_clients=0, partitions=('by_client',)
)


@registry.register(
    'npz', OwnDataOptions, declares=DECLARATION,
    summary='your own data: --data_dir names an .npz with x, y, client',
)
def build_npz(request: registry.TaskRequest, options: OwnDataOptions):
  """Builds the task from the arrays of one file."""
  table = tables.read_npz(tables.locate(request.data_dir, 'npz'))
  return _build('npz', request, options, table)


@registry.register(
    'csv', OwnDataOptions, declares=DECLARATION,
    summary='your own data: --data_dir names a .csv with client, y, ...',
)
def build_csv(request: registry.TaskRequest, options: OwnDataOptions):
  """Builds the task from the columns of one file."""
  table = tables.read_csv(tables.locate(request.data_dir, 'csv'))
  return _build('csv', request, options, table)


def _build(
    name: str, request: registry.TaskRequest, options: OwnDataOptions,
    table: tables.Table,
):
  """Builds either task: the clients of the file, sorted, are the clients."""
  if request.partition not in ('', DECLARATION.partition):
    raise ValueError(
        f'`partition` must be by_client for task {name}, found'
        f' {request.partition!r}.'
    )
  if table.is_test is not None and request.train_fraction:
    raise ValueError(
        f'`train_fraction` must not be given because {table.path} has its own'
        f' split, found {request.train_fraction}.'
    )
  is_classes = options.kind == 'classification' or (
      options.kind == 'auto' and table.y.dtype.kind in 'iub'
  )
  x = checks.features(table.x, f'{table.path}, x', table.client)
  where = f'{table.path}, y'
  num_classes = 0
  if is_classes:
    y, num_classes = checks.labels(
        table.y, where, options.num_classes, table.client
    )
  else:
    y = checks.targets(table.y, where, table.client)
  return assembly.assemble(
      name, request,
      assembly.Examples(
          x, y, num_classes, table.path, table.client, table.is_test,
          tier=table.tier,
      ),
      partition=DECLARATION.partition,
      num_clients=DECLARATION.num_clients,
      train_fraction=0.8,
      model='logistic_regression' if is_classes else 'linear_regression',
  )
