"""The files of a run's folder: written by programs, read by tables and plots.

    config.json   flags, variant, versions, seed        written first
    metrics.csv   a row per evaluated round (see simulation/program.py)
    clients.csv   a row per client, last evaluated round
    features.json what was made of the columns of a table, see data/features.py
    data.csv      client, group, examples per class     classes, groups or names
    mixing.npy    float32[N, N], mixing weights         methods that learn them
                  (float32[C, N] with C models)
    router.npy    float[N, C], weights of the models    methods that report them
    tiers.csv     a row per capacity tier's model       if there are tiers
    finetuning.csv  the global model after local steps  --finetune_steps
    dropped.csv   client, rounds it was dropped in      --on_non_finite=drop, or
                                                        some message was refused

Column `client` has the names that the data give, else numbers of the whole
task.
Byzantine clients are no rows of clients.csv, and NaN in router.npy.
"""

import csv
import json
import os
import re
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.data import features as features_lib

CONFIG, METRICS, CLIENTS = 'config.json', 'metrics.csv', 'clients.csv'
DATA, MIXING, ROUTER = 'data.csv', 'mixing.npy', 'router.npy'
TIERS, DROPPED = 'tiers.csv', 'dropped.csv'
FINETUNING, FEATURES = 'finetuning.csv', 'features.json'
CHECKPOINT = 'checkpoint.sqlite'
CLIENT_COLUMNS = ('client', 'seen', 'num_train', 'num_test', 'accuracy', 'loss')
TIER_COLUMNS = ('algo', 'seed', 'tier', 'parameters', 'accuracy', 'loss')
FINETUNING_COLUMNS = (
    'seen', 'steps', 'accuracy_mean', 'accuracy_worst_decile', 'loss_mean',
    'share_hurt',
)
DROPPED_COLUMNS = ('client', 'rounds')


class Run(NamedTuple):
  """What a run's folder holds.

  Attributes:
    folder: The folder.
    config: `config.json`.
    metrics: Columns of `metrics.csv`, floats; NaN for empty cells.
    clients: Columns of `clients.csv`, likewise, but `client` is int64[N] or,
      if one of them is no number, text [N]; None while it runs.
    class_counts: int64[N, num_classes], or None.
    groups: int64[N], -1 unknown, or None.
    mixing: float32[N, N] or, with C models, [C, N]; or None.
    router: float[N, C], or None.
    finetuning: Columns of `finetuning.csv`, floats, or None.
    client_names: int64[N] or text [N], the clients that train; None: unknown,
      they have numbers 0..N-1 alone.
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

  @property
  def variant(self) -> str:
    """The method with its options, as in tables and legends."""
    return self.config['variant']


def read_run(folder: str) -> Run:
  """Reads a run's folder.

  Raises:
    FileNotFoundError: If it holds no run.
  """
  counts = _read_optional(folder, DATA)
  return Run(
      folder=folder,
      config=read_config(folder),
      metrics=_read_optional(folder, METRICS) or {},
      clients=_read_optional(folder, CLIENTS),
      class_counts=_class_counts(counts) if counts else None,
      groups=counts['group'].astype(np.int64) if counts else None,
      mixing=_load_optional(folder, MIXING),
      router=_load_optional(folder, ROUTER),
      finetuning=_read_optional(folder, FINETUNING),
      client_names=counts['client'] if counts else None,
  )


def find_runs(folder: str) -> list[str]:
  """Returns the folders in and under `folder` that hold a run, sorted."""
  return sorted(
      path for path, _, files in os.walk(folder) if CONFIG in files
  )


def read_config(folder: str) -> dict[str, Any]:
  """Returns `config.json` of a run's folder."""
  with open(os.path.join(folder, CONFIG), encoding='utf-8') as file:
    return json.load(file)


def write_config(folder: str, config: Mapping[str, Any]) -> None:
  """Makes the folder and writes `config.json`, whole or not at all."""
  _write_text(folder, CONFIG, json.dumps(config, indent=2) + '\n')


def write_features(folder: str, features: features_lib.Features) -> None:
  """Makes the folder and writes `features.json`, whole or not at all."""
  _write_text(folder, FEATURES, features.to_json())


def read_features(folder: str) -> Optional[features_lib.Features]:
  """Returns what a run made of the columns of its table; None: x as it is."""
  path = os.path.join(folder, FEATURES)
  if not os.path.exists(path):
    return None
  with open(path, encoding='utf-8') as file:
    return features_lib.Features.from_json(file.read())


def _write_text(folder: str, name: str, text: str) -> None:
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, name)
  with open(path + '_temp', 'w', encoding='utf-8') as file:
    file.write(text)
  os.replace(path + '_temp', path)


def write_clients(folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes `clients.csv`; rows have `CLIENT_COLUMNS`."""
  write_csv(os.path.join(folder, CLIENTS), CLIENT_COLUMNS, rows)


def write_tiers(folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes `tiers.csv`; rows have `TIER_COLUMNS`."""
  write_csv(os.path.join(folder, TIERS), TIER_COLUMNS, rows)


def write_finetuning(folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes `finetuning.csv`; rows have `FINETUNING_COLUMNS`."""
  write_csv(os.path.join(folder, FINETUNING), FINETUNING_COLUMNS, rows)


def write_dropped(folder: str, rounds: Mapping[Any, int]) -> None:
  """Writes `dropped.csv`: in how many rounds each client was dropped."""
  rows = [
      dict(client=client, rounds=number) for client, number in rounds.items()
  ]
  write_csv(os.path.join(folder, DROPPED), DROPPED_COLUMNS, rows)


def read_rows(folder: str, name: str) -> list[dict[str, str]]:
  """Returns the rows of a CSV file as texts, none if there is no file."""
  path = os.path.join(folder, name)
  if not os.path.exists(path):
    return []
  with open(path, newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file))


def write_data(folder: str, clients, class_counts, groups) -> None:
  """Writes `data.csv`.

  Args:
    folder: The run's folder.
    clients: The name or number of each client that trains.
    class_counts: int[N, num_classes], its training examples.
    groups: int[N], its true cluster, -1 unknown; or None.
  """
  if class_counts is None:
    class_counts = np.zeros([len(clients), 0], np.int64)
  names = [str(label) for label in range(class_counts.shape[1])]
  rows = [
      dict(zip(names, counts.tolist()), client=client, group=-1)
      for client, counts in zip(clients, class_counts)
  ]
  for row, group in zip(rows, () if groups is None else groups):
    row['group'] = int(group)
  write_csv(os.path.join(folder, DATA), ('client', 'group', *names), rows)


def write_csv(
    path: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
  """Writes a CSV file, whole or not at all; None is an empty cell."""
  with open(path + '_temp', 'w', newline='', encoding='utf-8') as file:
    writer = csv.DictWriter(file, columns)
    writer.writeheader()
    writer.writerows(rows)
  os.replace(path + '_temp', path)


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


def _read_optional(folder: str, name: str):
  """Returns the columns of a CSV file, None if there is no file."""
  path = os.path.join(folder, name)
  if not os.path.exists(path):
    return None
  with open(path, newline='', encoding='utf-8') as file:
    reader = csv.DictReader(file)
    rows, names = list(reader), reader.fieldnames or []
  return {
      column: _column(column, [row[column] for row in rows]) for column in names
  }


# As `data/tables.py` reads names: 01 is a text, not the number 1.
_INTEGER = re.compile('0|-?[1-9][0-9]{0,14}')


def _column(name: str, cells: Sequence[str]) -> np.ndarray:
  """Returns floats; of clients their names, int64 if all are integers."""
  if name == 'client':
    are_numbers = all(_INTEGER.fullmatch(cell) for cell in cells)
    return np.array(cells, np.int64 if are_numbers else str)
  # An empty cell is a metric that the task or the method lacks.
  return np.array([float(cell or 'nan') for cell in cells])


def _load_optional(folder: str, name: str) -> Optional[np.ndarray]:
  path = os.path.join(folder, name)
  return np.load(path) if os.path.exists(path) else None


def _class_counts(columns) -> Optional[np.ndarray]:
  names = [name for name in columns if name not in ('client', 'group')]
  # On regression there are no classes to count.
  if not names:
    return None
  return np.stack([columns[name] for name in names], 1).astype(np.int64)
