"""Writes tables of ten hospitals: as one has them, and scaled by hand.

    python -m examples.hospitals FOLDER

scikit-learn's breast_cancer, 569 rows with 30 features up to the thousands.
raw.csv has the features; in gaps.csv one is a text and two have gaps.
raw_by_hand.csv and gaps_by_hand.csv are the same, scaled and filled with NumPy:
what `--standardize`, `--csv_missing=mean` and `--csv_categories=one_hot` do.
"""

import csv
import pathlib
import sys
from typing import Any, Mapping, Sequence

import numpy as np
from sklearn import datasets

from tff_pers.data import split as split_lib

_CLIENTS = 10


def raw() -> dict[str, list[Any]]:
  """Returns columns: client, y, split, 30 raw features.

  The clients are hospitals whose patients differ in the first feature.
  """
  data = datasets.load_breast_cancer()
  generator = np.random.default_rng(0)
  radius = data.data[:, 0] + generator.normal(0, 3, len(data.data))
  client = np.argsort(np.argsort(radius)) * _CLIENTS // len(radius)
  split = np.zeros(len(radius), int)
  for rows in map(np.flatnonzero, client == np.arange(_CLIENTS)[:, None]):
    [own] = split_lib.split_clients([len(rows)], 0, 0.8)
    split[rows[own.test]] = 1
  return dict(
      client=[f'hospital {number}' for number in client],
      y=data.target.tolist(), split=split.tolist(),
      **{
          name: values.tolist()
          for name, values in zip(data.feature_names, data.data.T)
      },
  )


def gaps(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
  """Makes a text of a column, and gaps in it and in another one."""
  generator = np.random.default_rng(1)
  area = np.array(columns['mean area'])
  size = np.digitize(area, np.quantile(area, [0.3, 0.7]))
  columns = dict(columns)
  del columns['mean area']
  columns['size'] = [
      '' if gap else ('small', 'medium', 'large')[place]
      for place, gap in zip(size, generator.random(len(size)) < 0.1)
  ]
  columns['mean smoothness'] = [
      'NA' if gap else value
      for value, gap in zip(
          columns['mean smoothness'], generator.random(len(size)) < 0.2
      )
  ]
  return columns


def by_hand(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
  """Returns what somebody would feed to a model, all of it numbers."""
  train_rows = np.array(columns['split']) == 0
  made = {name: columns[name] for name in ('client', 'y', 'split')}
  for name, column in columns.items():
    if name == 'size':
      for text in ('large', 'medium', 'small'):
        made[f'size {text}'] = [int(cell == text) for cell in column]
      made['no size'] = [int(not cell) for cell in column]
    elif name not in made:
      values = np.array([np.nan if v == 'NA' else v for v in column], float)
      mean = np.nanmean(values[train_rows])
      scaled = (values - mean) / np.nanstd(values[train_rows])
      made[name] = np.nan_to_num(scaled).tolist()
      if np.isnan(values).any():
        made[f'no {name}'] = np.isnan(values).astype(int).tolist()
  return made


def write_csv(path: pathlib.Path, columns: Mapping[str, Sequence[Any]]) -> None:
  """Writes columns as a table."""
  with open(path, 'w', encoding='utf-8', newline='') as file:
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))


def write(folder: pathlib.Path) -> None:
  """Writes the four tables."""
  folder.mkdir(parents=True, exist_ok=True)
  for name, columns in (('raw', raw()), ('gaps', gaps(raw()))):
    write_csv(folder / f'{name}.csv', columns)
    write_csv(folder / f'{name}_by_hand.csv', by_hand(columns))


if __name__ == '__main__':
  if len(sys.argv) != 2:
    sys.exit('Usage: python -m examples.hospitals FOLDER')
  write(pathlib.Path(sys.argv[1]))
