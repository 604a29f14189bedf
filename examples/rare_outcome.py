"""Writes a table with a rare outcome, to show what accuracy hides.

    python -m examples.rare_outcome rare.csv
    python -m binaries.train --algo=fedavg --task=csv --data_dir=rare.csv

Six hospitals with 200 rows and eight features; one direction of the features
determines the outcome, 3.3 % of the rows. Always predicting `no` gives .967.
"""

import csv
import sys
from typing import Sequence

import numpy as np

_HOSPITALS, _ROWS, _FEATURES, _SHARE = 6, 200, 8, 0.033


def write(path: str, seed: int = 0) -> None:
  """Writes the table as CSV: client, y (yes or no), x0 to x7."""
  rng = np.random.default_rng(seed)
  x = rng.normal(size=[_HOSPITALS, _ROWS, _FEATURES])
  risk = x[..., 0] + 0.5 * rng.normal(size=[_HOSPITALS, _ROWS])
  has_outcome = risk > np.quantile(risk, 1 - _SHARE)
  with open(path, 'w', newline='', encoding='utf-8') as file:
    writer = csv.writer(file)
    writer.writerow(['client', 'y', *(f'x{i}' for i in range(_FEATURES))])
    for hospital in range(_HOSPITALS):
      for row in range(_ROWS):
        writer.writerow([
            f'hospital_{hospital}',
            'yes' if has_outcome[hospital, row] else 'no',
            *(f'{value:.4f}' for value in x[hospital, row]),
        ])


def main(argv: Sequence[str]) -> None:
  """Writes the table to the given path."""
  write(argv[1])


if __name__ == '__main__':
  main(sys.argv)
