"""The tables of `benchmark_defaults`, made from scikit-learn's data sets."""

import os

import numpy as np
from sklearn import datasets


def write(folder: str) -> None:
  """Writes NPZ files of x, y and client to a folder, which is made if need be.

  Ten clients each:
    tumours.npz: Every second client has swapped labels.
    tumours_by_size.npz: Each client has a tenth of the tumours, by size.
    wines.npz: Each client has a tenth of the wines, by their color.
    diabetes.npz: A regression; each client has a tenth of the patients, by age.

  Digits of twenty clients, whose labels are permuted:
    unequal.npz: Alike in clusters of 14, 4 and 2 clients.
    loners.npz: Alike in two clusters of 7; each of 6 others has its own.
    sizes.npz: Alike in clusters of 5; 8 to 200 rows a client, log-uniform.
  """
  os.makedirs(folder, exist_ok=True)
  x, y = _standardized(datasets.load_breast_cancer)
  client = np.random.default_rng(0).integers(10, size=len(y))
  _save(folder, 'tumours', x, np.where(client % 2, 1 - y, y), client)
  _save(folder, 'tumours_by_size', x, y, _tenths(x[:, 0]))
  x, y = _standardized(datasets.load_wine)
  _save(folder, 'wines', x, y, _tenths(x[:, 9]))
  x, y = _standardized(datasets.load_diabetes)
  y = ((y - y.mean()) / y.std()).astype(np.float32)
  _save(folder, 'diabetes', x, y, _tenths(x[:, 0]))
  sizes = np.exp(
      np.random.default_rng(2).uniform(np.log(8), np.log(200), 20)
  ).astype(int)
  _save_digits(folder, 'unequal', [89] * 20, [14, 4, 2])
  _save_digits(folder, 'loners', [89] * 20, [7, 7] + [1] * 6)
  _save_digits(folder, 'sizes', sizes, [5] * 4)


def _standardized(load) -> tuple[np.ndarray, np.ndarray]:
  x, y = load(return_X_y=True)
  return ((x - x.mean(0)) / x.std(0)).astype(np.float32), y


def _tenths(values) -> np.ndarray:
  """Returns for every row which tenth of the sorted values it is in."""
  return np.argsort(np.argsort(values)) * 10 // len(values)


def _save_digits(folder: str, name: str, counts, clusters) -> None:
  """Writes digits of clients with `counts` rows, in clusters of given sizes."""
  x, y = datasets.load_digits(return_X_y=True)
  rng = np.random.default_rng(0)
  # The first cluster keeps the labels as they are.
  names = [np.arange(10)] + [rng.permutation(10) for _ in clusters[1:]]
  client = np.repeat(np.arange(20), counts)
  rows = np.random.default_rng(1).permutation(len(y))[:len(client)]
  of_client = np.repeat(names, clusters, axis=0)
  _save(
      folder, name, (x[rows] / 16).astype(np.float32),
      of_client[client, y[rows]].astype(np.int32), client,
  )


def _save(folder: str, name: str, x, y, client) -> None:
  np.savez(os.path.join(folder, f'{name}.npz'), x=x, y=y, client=client)
