"""`school`: exam scores of pupils at 139 London schools, a regression.

Motley: Benchmarking Heterogeneity and Personalization in Federated Learning
(Wu et al., 2022), the cross-silo task. File: `school.mat`, with X and Y as
[1, 139] cells of float [n_i, 28] and [n_i, 1].
"""

import dataclasses

import numpy as np
from scipy import io
from sklearn import model_selection

from tff_pers.data import errors
from tff_pers.data import sources
from tff_pers.data import split
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry

_FILE = 'school.mat'
_HELD_OUT = 0.15  # Share of the test rows, and as many to validate on.
_FEWEST = 3  # Rows of a school: one for each part.

DECLARATION = registry.Declaration(
    classification=False,
    model='linear_regression',
    num_clients=0,
    partitions=('by_client',),
    networks=('mlp_small',),
)


@registry.register(
    'school', registry.NoOptions, declares=DECLARATION,
    summary='exam scores at 139 schools, a regression, from --data_dir',
)
def build(
    request: registry.TaskRequest, options: registry.NoOptions
) -> task_lib.Task:
  """Builds the task; x is float32[n, 28], y is float32[n] in [0, 1].

  Split and scaling are Motley's: `--seed` draws 15 % of a school's rows to test
  and 15 % to validate on, features are standardized by the other 70 %, and y
  are scaled by the least and the largest score of all schools. A
  `--validation_fraction` of 0.1765 of the training rows holds out those that
  Motley validates on, but for the rounding to a whole row of each school.
  Motley reports half of our loss, the mean squared error.

  Raises:
    errors.DataError: If the file is missing or malformed.
  """
  del options  # There are none.
  # The split is the published one.
  registry.refuse('school', request, 'train_fraction')
  registry.refuse_partition('school', request)
  schools = _read(request.data_dir)
  least = min(y.min() for _, y in schools)
  most = max(y.max() for _, y in schools)
  xs, ys, is_test, raw = [], [], [], []
  for own, scores in schools:
    train, validation, test = _drawn_rows(len(own), request.seed)
    # About half of a school's features are constant.
    deviation = np.where(np.ptp(own[train], 0) > 0, own[train].std(0), 1.0)
    # Rows to validate on are the last ones that are not to test on.
    order = np.concatenate([train, validation, test])
    xs.append((own[order] - own[train].mean(0)) / deviation)
    ys.append((scores[order] - least) / (most - least))
    raw.append(np.column_stack([own, scores])[order])
    is_test.append(np.arange(len(own)) >= len(own) - len(test))
  x, y = (np.concatenate(part).astype(np.float32) for part in (xs, ys))
  sizes = [len(own) for own in xs]
  task = assembly.assemble(
      'school', request,
      assembly.Examples(
          x, y, 0, _FILE, np.repeat(range(len(sizes)), sizes),
          np.concatenate(is_test),
          client_names=np.array([f'school {1 + k}' for k in range(len(sizes))]),
          row_keys=split.content_keys(np.concatenate(raw).T.view(np.uint64)),
      ),
      DECLARATION,
      train_fraction=1 - _HELD_OUT,
  )
  return dataclasses.replace(task, pooled_statistics=True)  # Those of y.


def _drawn_rows(
    num_rows: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns a school's rows to train, validate and test on."""
  rest, test = model_selection.train_test_split(
      np.arange(num_rows), test_size=_HELD_OUT, random_state=seed
  )
  train, validation = model_selection.train_test_split(
      rest, test_size=_HELD_OUT / (1 - _HELD_OUT), random_state=seed
  )
  return train, validation, test


def _read(data_dir: str) -> list[tuple[np.ndarray, np.ndarray]]:
  """Returns x float64[n, d] and y float64[n] of each school."""
  [path] = sources.paths('school', data_dir, [_FILE])
  try:
    found = io.loadmat(path)
  except Exception as error:  # SciPy's readers raise many kinds.
    raise errors.DataError(
        f'{path} must be a MATLAB file, found: {errors.first_line(error)}.'
    ) from error
  if missing := {'X', 'Y'} - found.keys():
    raise errors.DataError(
        f'{path} must hold X and Y, found no {min(missing)}.'
    )
  x, y = found['X'], found['Y']
  if x.dtype != object or x.shape != y.shape or x.shape[:1] != (1,):
    raise errors.DataError(
        f'{path} must hold X and Y as cells [1, n], found {x.dtype} of shape'
        f' {list(x.shape)} and {y.dtype} of shape {list(y.shape)}.'
    )
  schools = [
      (own.astype(np.float64), scores.astype(np.float64).reshape(-1))
      for own, scores in zip(x[0], y[0])
  ]
  width = schools[0][0].shape[-1]
  for number, (own, scores) in enumerate(schools, 1):
    if own.shape != (len(scores), width) or len(scores) < _FEWEST:
      raise errors.DataError(
          f'{path}, school {number} must have {width} features and a score for'
          f' each row, and at least {_FEWEST} rows, found shape'
          f' {list(own.shape)} and {len(scores)} scores.'
      )
    if not (np.isfinite(own).all() and np.isfinite(scores).all()):
      raise errors.DataError(
          f'{path}, school {number} must hold finite numbers, found others.'
      )
  if len({score for _, scores in schools for score in scores}) < 2:
    raise errors.DataError(f'{path}, Y must hold different scores, found one.')
  return schools
