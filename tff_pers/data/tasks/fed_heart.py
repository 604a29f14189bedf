"""`fed_heart`: heart disease at four hospitals, FLamby's Fed-Heart-Disease.

FLamby: Datasets and Benchmarks for Cross-Silo Federated Learning in Realistic
Healthcare Settings (NeurIPS 2022). Files: the four `processed.*.data` of the
UCI repository's heart disease set.
"""

import numpy as np
from sklearn import model_selection

from tff_pers.data import errors
from tff_pers.data import sources
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry

# In FLamby's order, which is also the alphabet's.
HOSPITALS = ('cleveland', 'hungarian', 'switzerland', 'va')
_NUM_COLUMNS = 14
# Slope, vessels and thallium scan, which most hospitals did not record.
_DROPPED = (10, 11, 12)
# Kind of chest pain, and result of the resting electrocardiogram.
_CODES = (2, 6)
_TRAIN_FRACTION, _SPLIT_SEED = 0.66, 43
_FEWEST = 4  # Rows of a hospital: a deviation needs two to train on.

DECLARATION = registry.Declaration(
    classification=True,
    model='logistic_regression',
    num_clients=len(HOSPITALS),
    partitions=('by_client',),
    networks=('mlp_small',),
)


@registry.register(
    'fed_heart', registry.NoOptions, declares=DECLARATION,
    summary='heart disease at four hospitals, from --data_dir',
)
def build(
    request: registry.TaskRequest, options: registry.NoOptions
) -> task_lib.Task:
  """Builds the task; x is float32[n, 13], y is 1 for a disease.

  Preprocessing and split are FLamby's: rows with a missing value are left out,
  codes become zeros and ones without their first level, 66 % of a hospital's
  rows are for training (the same for every seed), and features are standardized
  by the hospital's training rows.

  Raises:
    errors.DataError: If a file is missing or malformed.
  """
  del options  # There are none.
  # The split is the published one.
  registry.refuse('fed_heart', request, 'train_fraction')
  registry.refuse_partition('fed_heart', request)
  rows = [_read(path) for path in sources.paths(
      'fed_heart', request.data_dir,
      [f'processed.{hospital}.data' for hospital in HOSPITALS],
  )]
  client = np.repeat(range(len(rows)), [len(own) for own in rows])
  x, y = _features_and_labels(np.concatenate(rows))
  is_test = np.concatenate([
      _drawn_test(y[client == hospital]) for hospital in range(len(rows))
  ])
  for hospital in range(len(rows)):
    own = client == hospital
    train = x[own & ~is_test]
    # A column may be constant at a hospital.
    x[own] = (x[own] - train.mean(0)) / (train.std(0, ddof=1) + 1e-9)
  return assembly.assemble(
      'fed_heart', request,
      assembly.Examples(
          x.astype(np.float32), y, 2, 'fed_heart', client, is_test,
          client_names=np.array(HOSPITALS),
      ),
      DECLARATION,
      train_fraction=_TRAIN_FRACTION,
      rounds=15,
      eval_every=5,
      splits='file',
  )


def _read(path: str) -> np.ndarray:
  """Returns a hospital's complete rows without the dropped columns."""
  numbers: list[list[float]] = []
  with open(path, encoding='utf-8') as file:
    for number, line in enumerate(filter(str.strip, file), 1):
      cells = [cell.strip() for cell in line.split(',')]
      try:
        numbers.append([
            np.nan if cell in ('', '?') else float(cell) for cell in cells
        ])
      except ValueError as error:
        raise errors.DataError(
            f'{path}, row {number} must hold numbers, ? where one is missing,'
            f' found: {errors.first_line(error)}.'
        ) from error
      if len(cells) != _NUM_COLUMNS:
        raise errors.DataError(
            f'{path}, row {number} must have {_NUM_COLUMNS} columns with'
            f' commas, found {len(cells)}.'
        )
  rows = np.delete(np.reshape(numbers, [-1, _NUM_COLUMNS]), _DROPPED, axis=1)
  rows = rows[~np.isnan(rows).any(axis=1)]
  if len(rows) < _FEWEST:
    raise errors.DataError(
        f'{path} must have at least {_FEWEST} rows without a missing value, two'
        f' of them to train on, found {len(rows)}.'
    )
  return rows


def _features_and_labels(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns x float64[n, 13] and y int32[n] of the rows of all hospitals."""
  x, label = rows[:, :-1], rows[:, -1]
  # The remaining positions of columns before the dropped ones are unchanged.
  codes = [
      x[:, [column]] == np.unique(x[:, column])[1:] for column in _CODES
  ]
  return (
      np.hstack([np.delete(x, _CODES, axis=1), *codes]).astype(np.float64),
      (label > 0).astype(np.int32),
  )


def _drawn_test(y: np.ndarray) -> np.ndarray:
  """Returns bool[n], a hospital's test rows."""
  _, test = model_selection.train_test_split(
      np.arange(len(y)), train_size=_TRAIN_FRACTION, random_state=_SPLIT_SEED,
      stratify=y if np.bincount(y, minlength=2).min() > 2 else None,
  )
  return np.isin(np.arange(len(y)), test)
