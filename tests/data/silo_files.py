"""Small files of the cross-silo tasks, in their original formats."""

import numpy as np
from scipy import io

from tff_pers.data.tasks import fed_heart

# Rows of FLamby's hospitals after incomplete ones are left out.
HEART_ROWS = (303, 261, 46, 130)


def heart(folder, counts=HEART_ROWS, missing=3, seed=0) -> str:
  """Writes the hospitals' files, of so many complete rows; returns the folder.

  Incomplete rows lie between them; a disease is likelier with age.
  """
  rng = np.random.default_rng(seed)
  for hospital, count in zip(fed_heart.HOSPITALS, counts):
    lines = []
    for row in range(count + missing):
      age = int(rng.integers(30, 80))
      cells = [
          age, rng.integers(2), rng.integers(1, 5), rng.integers(90, 200),
          rng.integers(100, 400), rng.integers(2), rng.integers(3),
          rng.integers(70, 200), rng.integers(2), rng.integers(40) / 10,
          '?', '?', '?', max(0, int((age - 40) / 8 + rng.normal())),
      ]
      if row % (count // missing + 1) == 1:
        cells[4] = '?'
      lines.append(','.join(map(str, cells)))
    path = folder / f'processed.{hospital}.data'
    path.write_text('\n'.join(lines) + '\n')
  return str(folder)


def school(folder, counts=(22, 30, 41, 60), seed=0) -> str:
  """Writes school.mat; the first two features are constant at each school."""
  rng = np.random.default_rng(seed)
  x, y = np.empty([2, 1, len(counts)], object)
  for k, count in enumerate(counts):
    features = rng.integers(0, 5, [count, 6])
    features[:, :2] = k
    x[0, k] = features.astype(np.uint8)
    scores = 10 + 3 * features[:, 2:3] + k + rng.integers(0, 4, [count, 1])
    y[0, k] = scores.astype(float)
  io.savemat(folder / 'school.mat', dict(X=x, Y=y))
  return str(folder)
