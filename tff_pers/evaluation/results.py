"""The files of a run's folder: written by programs, read by tables and plots.

    config.json   flags, variant, versions, seed        written first
    metrics.csv   a row per evaluated round (see simulation/metric_rows.py)
    clients.csv   a row per client, last evaluated round
    validation.csv  a row per client that trains  --validation_fraction
    features.json preprocessing of the columns of a table, see data/features.py
    data.csv      client, group, examples per class     classes, groups or names
    mixing.npy    float32[N, N], mixing weights         methods that learn them
                  (float32[C, N] with C models)
    router.npy    float[N, C], weights of the models    methods that report them
    tiers.csv     a row per capacity tier's model and   if there are tiers
                  evaluated round
    finetuning.csv  the global model after local steps  --finetune_steps
    dropped.csv   client, rounds it was dropped in      --on_non_finite=drop, or
                                                        some message was refused
    diverged.txt  the sentence that the run ended with  NaN or infinity

Column `client` has the names that the data give, else numbers in the whole
task. In CSV files a text that a spreadsheet would treat as a formula is
prefixed by `'` (`files.to_cell`); `read_rows` removes the prefix.
Byzantine clients have no rows in clients.csv, and NaN in router.npy.
"""

import csv
import itertools
import json
import os
import re
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.core import files
from tff_pers.data import features as features_lib
from tff_pers.data import npy_headers
from tff_pers.evaluation import damaged

CONFIG, METRICS, CLIENTS = 'config.json', 'metrics.csv', 'clients.csv'
DATA, MIXING, ROUTER = 'data.csv', 'mixing.npy', 'router.npy'
CONFUSION = 'confusion.csv'
TIERS, DROPPED = 'tiers.csv', 'dropped.csv'
VALIDATION, FEATURES = 'validation.csv', 'features.json'
FINETUNING, DIVERGED = 'finetuning.csv', 'diverged.txt'
CHECKPOINT = 'checkpoint.sqlite'
CLIENT_COLUMNS = ('client', 'seen', 'num_train', 'num_test', 'accuracy', 'loss')
VALIDATION_COLUMNS = ('client', 'num_validation', 'accuracy', 'loss')
TIER_COLUMNS = (
    'algo', 'seed', 'round', 'tier', 'parameters', 'accuracy', 'loss'
)
FINETUNING_COLUMNS = (
    'seen', 'steps', 'accuracy_mean', 'accuracy_worst_decile', 'loss_mean',
    'share_hurt',
)
DROPPED_COLUMNS = ('client', 'rounds')


class Run(NamedTuple):
  """The contents of a run's folder.

  Attributes:
    folder: The folder.
    config: `config.json`.
    metrics: Columns of `metrics.csv`, floats; NaN for empty cells.
    clients: Columns of `clients.csv`, likewise, but `client` is int64[N] or, if
      any name is not a number, text [N]; None while it runs.
    class_counts: int64[N, num_classes], or None.
    groups: int64[N], -1 unknown, or None.
    mixing: float32[N, N] or, with C models, [C, N]; or None.
    router: float[N, C], or None.
    finetuning: Columns of `finetuning.csv`, floats, or None.
    client_names: int64[N] or text [N], the clients that train; None: unknown,
      they only have the numbers 0..N-1.
    validation: Columns of `validation.csv`, or None.
    diverged: The sentence with which a diverged run ended, or None.
    class_names: Names of the columns of `class_counts`.
  """

  folder: str
  config: Mapping[str, Any]
  metrics: Mapping[str, np.ndarray]
  clients: Optional[Mapping[str, np.ndarray]]
  class_counts: Optional[np.ndarray]
  groups: Optional[np.ndarray]
  mixing: Optional[np.ndarray]
  router: Optional[np.ndarray] = None
  finetuning: Optional[Mapping[str, np.ndarray]] = None
  client_names: Optional[np.ndarray] = None
  validation: Optional[Mapping[str, np.ndarray]] = None
  diverged: Optional[str] = None
  class_names: tuple[str, ...] = ()

  @property
  def final_clients(self) -> Mapping[str, np.ndarray]:
    """`clients` of a finished run."""
    assert self.clients is not None
    return self.clients

  @property
  def variant(self) -> str:
    """The method with its options, as in tables and legends."""
    return self.config['variant']


def read_run(folder: str) -> Run:
  """Reads a run's folder.

  Raises:
    FileNotFoundError: If it holds no run.
    damaged.DamagedError: If a file is damaged.
  """
  config = read_config(folder)
  counts = _read_optional(folder, DATA, ('client', 'group'))
  return Run(
      folder=folder,
      config=config,
      metrics=_read_metrics(folder),
      clients=_read_optional(folder, CLIENTS, CLIENT_COLUMNS),
      class_counts=_class_counts(counts) if counts else None,
      groups=counts['group'].astype(np.int64) if counts else None,
      mixing=_load_optional(folder, MIXING),
      router=_load_optional(folder, ROUTER),
      finetuning=_read_optional(folder, FINETUNING, FINETUNING_COLUMNS),
      client_names=counts['client'] if counts else None,
      validation=_read_optional(folder, VALIDATION, VALIDATION_COLUMNS),
      diverged=_read_diverged(folder),
      class_names=_class_names(counts or ()),
  )


def find_runs(folder: str) -> list[str]:
  """Returns the folders in and under `folder` that hold a run, sorted."""
  return sorted(
      path for path, _, files in os.walk(folder) if CONFIG in files
  )


def read_config(folder: str) -> dict[str, Any]:
  """Returns `config.json` of a run's folder.

  Raises:
    FileNotFoundError: If there is none.
    damaged.DamagedError: If it is damaged.
  """
  path = os.path.join(folder, CONFIG)
  with open(path, encoding='utf-8') as file, damaged.reading(
      path, damaged.RUN_AGAIN
  ):
    config = json.load(file)
    for name, kind in (('variant', str), ('flags', dict)):
      if not isinstance(config, dict) or not isinstance(config.get(name), kind):
        raise ValueError(f'no {name} of a run')
    return config


def write_config(folder: str, config: Mapping[str, Any]) -> None:
  """Makes the folder and writes `config.json` atomically."""
  os.makedirs(folder, exist_ok=True)
  files.write_text(
      os.path.join(folder, CONFIG), json.dumps(config, indent=2) + '\n'
  )


def write_features(folder: str, features: features_lib.Features) -> None:
  """Makes the folder and writes `features.json` atomically."""
  os.makedirs(folder, exist_ok=True)
  files.write_text(os.path.join(folder, FEATURES), features.to_json())


def read_features(folder: str) -> Optional[features_lib.Features]:
  """Returns a run's preprocessing of its table; None: x is used as is.

  Raises:
    damaged.DamagedError: If the file is damaged.
  """
  path = os.path.join(folder, FEATURES)
  if not os.path.exists(path):
    return None
  with damaged.reading(path, damaged.RUN_AGAIN), open(
      path, encoding='utf-8'
  ) as file:
    return features_lib.Features.from_json(file.read())


def write_clients(folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes `clients.csv`; rows have `CLIENT_COLUMNS` and possibly others."""
  _write_more(os.path.join(folder, CLIENTS), CLIENT_COLUMNS, rows)


def write_confusion(
    folder: str, table: np.ndarray, classes: Sequence[str]
) -> None:
  """Writes int[C, C], test examples by class and predicted class."""
  columns = ('class', *(f'predicted_{name}' for name in classes))
  write_csv(os.path.join(folder, CONFUSION), columns, [
      dict(zip(columns, (name, *row)))
      for name, row in zip(classes, table.tolist())
  ])


def read_confusion(
    folder: str
) -> Optional[tuple[np.ndarray, list[str]]]:
  """Returns the table and names of `write_confusion`; None: no file."""
  rows = read_rows(folder, CONFUSION, ('class',))
  if not rows:
    return None
  with damaged.reading(os.path.join(folder, CONFUSION)):
    table = np.array([list(row.values())[1:] for row in rows], np.int64)
  return table, [row['class'] for row in rows]


def read_clients(folder: str) -> Optional[Mapping[str, np.ndarray]]:
  """Returns the columns of `clients.csv`, see `Run`; None: there is none."""
  return _read_optional(folder, CLIENTS, CLIENT_COLUMNS)


def write_validation(folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes `validation.csv`: `VALIDATION_COLUMNS` and possibly others."""
  _write_more(os.path.join(folder, VALIDATION), VALIDATION_COLUMNS, rows)


def _write_more(path: str, columns: Sequence[str], rows) -> None:
  more = [name for name in (rows[0] if rows else ()) if name not in columns]
  write_csv(path, (*columns, *more), rows)


def write_tiers(folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes `tiers.csv`; rows have `TIER_COLUMNS`."""
  write_csv(os.path.join(folder, TIERS), TIER_COLUMNS, rows)


def read_tiers(run: Run) -> dict[str, dict[str, np.ndarray]]:
  """Returns the columns of `tiers.csv` by tier, the smallest model first.

  Empty if there is none, or it has no rounds, as runs of before.
  """
  rows = read_rows(run.folder, TIERS)
  if not rows or 'round' not in rows[0]:
    return {}
  sizes = {row['tier']: int(row['parameters']) for row in rows}
  return {
      tier: {
          name: np.array([
              float(row[name] or 'nan') for row in rows if row['tier'] == tier
          ]) for name in ('round', 'accuracy', 'loss')
      } for tier in sorted(sizes, key=lambda tier: sizes[tier])
  }


def write_finetuning(folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes `finetuning.csv`; rows have `FINETUNING_COLUMNS`."""
  write_csv(os.path.join(folder, FINETUNING), FINETUNING_COLUMNS, rows)


def write_diverged(folder: str, sentence: Optional[str]) -> None:
  """Writes `diverged.txt`; None removes it, because the run continues."""
  path = os.path.join(folder, DIVERGED)
  if sentence is not None:
    files.write_text(path, sentence + '\n')
  elif os.path.exists(path):
    os.remove(path)


def _read_diverged(folder: str) -> Optional[str]:
  path = os.path.join(folder, DIVERGED)
  if not os.path.exists(path):
    return None
  with open(path, encoding='utf-8') as file:
    return file.read().strip()


def write_dropped(folder: str, rounds: Mapping[Any, int]) -> None:
  """Writes `dropped.csv`: the number of rounds that dropped each client."""
  rows = [
      dict(client=client, rounds=number) for client, number in rounds.items()
  ]
  write_csv(os.path.join(folder, DROPPED), DROPPED_COLUMNS, rows)


def read_rows(
    folder: str, name: str, required: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> list[dict[str, str]]:
  """Returns the rows of a CSV file as texts; empty without the file.

  Raises:
    damaged.DamagedError: If the file is damaged, a required column is missing,
      or a cell of the columns `numbers` is neither a number nor empty.
  """
  path = os.path.join(folder, name)
  if not os.path.exists(path):
    return []
  rows = damaged.rows(path, required)[1]
  with damaged.reading(path):
    for row in rows:
      for column in numbers:
        damaged.number(row, column)
  return rows


def write_data(
    folder: str, clients: Sequence[Any], class_counts: Optional[np.ndarray],
    groups: Optional[np.ndarray], classes: Optional[Sequence[str]] = None,
) -> None:
  """Writes `data.csv`.

  Args:
    folder: The run's folder.
    clients: The name or number of each client that trains.
    class_counts: int[N, num_classes], its training examples.
    groups: int[N], its true cluster, -1 unknown; or None.
    classes: Names of the classes; None: their labels.
  """
  if class_counts is None:
    class_counts = np.zeros([len(clients), 0], np.int64)
  names = [str(label) for label in range(class_counts.shape[1])]
  if classes and not set(classes) & {'client', 'group'}:
    names = list(classes)
  if groups is None:
    groups = np.full(len(clients), -1)
  rows = [
      dict(zip(names, counts.tolist()), client=client, group=int(group))
      for client, counts, group in zip(clients, class_counts, groups)
  ]
  write_csv(os.path.join(folder, DATA), ('client', 'group', *names), rows)


def write_csv(
    path: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
  """Writes a CSV file atomically.

  None is an empty cell; texts are written by `files.to_cell`.

  Raises:
    ValueError: If a row has a cell without a column.
  """
  with files.whole(path) as file:
    writer = csv.DictWriter(file, columns)
    for row in itertools.chain([dict(zip(columns, columns))], rows):
      writer.writerow({name: files.to_cell(row[name]) for name in row})


def write_matrix(folder: str, name: str, matrix: np.ndarray) -> None:
  """Writes `MIXING` or `ROUTER` atomically."""
  with files.whole(os.path.join(folder, name), 'wb') as file:
    np.save(file, matrix)


def markdown(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
  """Returns an aligned Markdown table; floats with four digits."""
  cells = [list(columns)] + [
      [_cell(row[column]) for column in columns] for row in rows
  ]
  widths = [max(map(len, column)) for column in zip(*cells)]
  lines = [
      '| ' + ' | '.join(c.ljust(w) for c, w in zip(line, widths)) + ' |'
      for line in cells
  ]
  rule = '|' + '|'.join('-' * (width + 2) for width in widths) + '|'
  return '\n'.join([lines[0], rule, *lines[1:]])


def _cell(value) -> str:
  if value is None:
    return ''
  if isinstance(value, float):
    return f'{value:.4f}' if abs(value) < 1000 else f'{value:.6g}'
  return str(value)


def _read_metrics(folder: str) -> dict[str, np.ndarray]:
  """Returns the columns of `metrics.csv`; empty without the file."""
  columns = _read_optional(folder, METRICS, ('round',)) or {}
  with damaged.reading(os.path.join(folder, METRICS)):
    damaged.check_rounds(columns.get('round', ()))
  return columns


def _read_optional(folder: str, name: str, required: Sequence[str]):
  """Returns the columns of a CSV file, None if there is no file."""
  path = os.path.join(folder, name)
  if not os.path.exists(path):
    return None
  names, rows = damaged.rows(path, required)
  with damaged.reading(path):
    return {column: _column(column, rows) for column in names}


# As in `data/tables.py`: the name 01 is a text, not the number 1.
_INTEGER = re.compile('0|-?[1-9][0-9]{0,14}')


def _column(name: str, rows: Sequence[Mapping[str, str]]) -> np.ndarray:
  """Returns floats; for clients, names, or int64 if all are integers."""
  if name == 'client':
    cells = [row[name] for row in rows]
    are_numbers = all(_INTEGER.fullmatch(cell) for cell in cells)
    return np.array(cells, np.int64 if are_numbers else str)
  # An empty cell is a metric that the task or the method lacks.
  return np.array([damaged.number(row, name) for row in rows])


def _load_optional(folder: str, name: str) -> Optional[np.ndarray]:
  """Returns the matrix in a .npy file, or None without the file."""
  path = os.path.join(folder, name)
  if not os.path.exists(path):
    return None
  with damaged.reading(path):
    npy_headers.check_npy(path)
    matrix = np.load(path, allow_pickle=False)
    if matrix.ndim != 2 or matrix.dtype.kind != 'f':
      raise ValueError(f'shape {matrix.shape} of dtype {matrix.dtype}')
    return matrix


def _class_names(columns) -> tuple[str, ...]:
  return tuple(name for name in columns if name not in ('client', 'group'))


def _class_counts(columns) -> Optional[np.ndarray]:
  names = _class_names(columns)
  # Regression has no classes to count.
  if not names:
    return None
  return np.stack([columns[name] for name in names], 1).astype(np.int64)
