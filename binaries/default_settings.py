"""The settings of `benchmark_defaults`, and the tables that it makes."""

import os
import pathlib

import numpy as np
from sklearn import datasets

from tff_pers.experiments import benchmarks

FILE = benchmarks.read_settings(str(
    pathlib.Path(__file__).parent / 'benchmarks/settings/defaults.yaml'
))
SETTINGS = dict(FILE.settings)


def write_tumours(folder: str) -> None:
  """Writes two tables of tumours with 10 clients each.

  In the first, every second client has swapped labels; in the second, each
  client has a tenth of the tumours, sorted by size.

  Args:
    folder: Where tumours.npz and tumours_by_size.npz are made.
  """
  x, y = datasets.load_breast_cancer(return_X_y=True)
  x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
  client = np.random.default_rng(0).integers(10, size=len(y))
  swapped = np.where(client % 2, 1 - y, y)
  tenth = np.argsort(np.argsort(x[:, 0])) * 10 // len(y)
  os.makedirs(folder, exist_ok=True)
  np.savez(os.path.join(folder, 'tumours.npz'), x=x, y=swapped, client=client)
  np.savez(
      os.path.join(folder, 'tumours_by_size.npz'), x=x, y=y, client=tenth
  )
