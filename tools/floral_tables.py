"""Writes the tables with which docs/floral.md compares default flags.

    .venv/bin/python tools/floral_tables.py OUT [FEMNIST] [SCHOOL]

OUT/unequal.npz, loners.npz and sizes.npz are those of
tff_pers/experiments/default_tables.py, which come with its other tables;
images.npz is unequal.npz as images of 8 x 8. FEMNIST, the file
`femnist_writers.npz` of x, y and `duplicate`, gives letters.npz: five groups of
12 characters each, called 0 to 11, 5 clients of 60 rows. SCHOOL, `school.mat`,
gives school.npz: its first 20 schools.
"""

import pathlib
import sys

import numpy as np
from scipy import io

from tff_pers.experiments import default_tables


def write_digits(out: pathlib.Path) -> None:
  """Writes the tables of `benchmark_defaults`, and images.npz."""
  default_tables.write(str(out))
  table = dict(np.load(out / 'unequal.npz'))
  np.savez(
      out / 'images.npz', **dict(table, x=table['x'].reshape(-1, 8, 8, 1))
  )


def write_letters(out: pathlib.Path, source: str) -> None:
  """Writes letters.npz, of images halved to 14 x 14."""
  with np.load(source) as arrays:
    is_first = arrays['duplicate'] == 0
    x, y = arrays['x'][is_first], arrays['y'][is_first].astype(int)
  x = (1 - x.reshape(-1, 14, 2, 14, 2).mean((2, 4)) / 255).reshape(len(x), -1)
  rng = np.random.default_rng(3)
  rows = [
      rng.permutation(np.concatenate([
          rng.permutation(np.flatnonzero(y == k))[:25]
          for k in range(12 * group, 12 * group + 12)
      ])) for group in range(5)
  ]
  np.savez(
      out / 'letters.npz', x=x[np.concatenate(rows)].astype(np.float32),
      y=(y[np.concatenate(rows)] % 12).astype(np.int32),
      client=np.repeat(np.arange(25), 60),
  )


def write_school(out: pathlib.Path, source: str) -> None:
  """Writes school.npz."""
  found = io.loadmat(source)
  x, y = (found[name][0][:20] for name in ('X', 'Y'))
  np.savez(
      out / 'school.npz', x=np.concatenate(x).astype(np.float32),
      y=np.concatenate(y)[:, 0].astype(np.float32),
      client=np.repeat(np.arange(20), [len(rows) for rows in x]),
  )


def main(arguments) -> None:
  out = pathlib.Path(arguments[0])
  out.mkdir(parents=True, exist_ok=True)
  write_digits(out)
  for write, source in zip((write_letters, write_school), arguments[1:]):
    write(out, source)


if __name__ == '__main__':
  main(sys.argv[1:])
