"""The partition `pachinko`: classes by the hierarchy of CIFAR-100.

Adaptive Federated Optimization. Reddi, Charles, Zaheer, Garrett, Rush, Konecny,
Kumar, McMahan. ICLR 2021, appendix on data sets: the Pachinko Allocation Method
that made the clients of TFF's CIFAR-100.
"""

import dataclasses
from typing import Any

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import errors
from tff_pers.data import partitioners

# The coarse class of each fine class of CIFAR-100.
COARSE = np.array([
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5,
    10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8,
    15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12,
    16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19,
    5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
])
_NUM_COARSE = 20


@dataclasses.dataclass(frozen=True)
class PachinkoOptions(hp.Options):
  """Options of `pachinko`; the defaults are those of TFF's CIFAR-100."""

  alpha: float = hp.field(
      0.1, 'Concentration over coarse classes; small is unequal.', above=0.0
  )
  beta: float = hp.field(
      10.0, 'Concentration over the classes of a coarse class.', above=0.0
  )


@partitioners.register(
    'pachinko', PachinkoOptions(), 'classes by the hierarchy of CIFAR-100'
)
def pachinko(given: partitioners.Given) -> Any:
  """Equal clients; each draws coarse classes from a Dirichlet, then classes.

  A client has weights theta ~ Dir(alpha) over the coarse classes and theta_c ~
  Dir(beta) over the classes of each. For every example it draws c from theta, y
  from theta_c, and one of the examples of y that are still free. Classes
  without free examples are removed from both, and the weights are normalized.

  Raises:
    DataError: If the data do not have the 100 classes of CIFAR-100.
  """
  labels, num_clients, rng, options, _ = given
  counts = partitioners.class_counts(labels, 'pachinko')
  if len(counts) != len(COARSE):
    raise errors.DataError(
        '`partition` must not be pachinko on data other than the'
        f' {len(COARSE)} classes of CIFAR-100, found {len(counts)} classes.'
    )
  left = [rng.permutation(np.flatnonzero(labels == y)).tolist()
          for y in range(len(COARSE))]
  classes = [np.flatnonzero(COARSE == c) for c in range(_NUM_COARSE)]
  some = counts > 0
  indices = []
  for rows in np.array_split(np.arange(len(labels)), num_clients):
    theta = rng.dirichlet(np.full(_NUM_COARSE, options.alpha))
    theta_of = [rng.dirichlet(np.full(len(y), options.beta)) for y in classes]
    own = []
    for _ in rows:
      of_coarse = np.bincount(COARSE[some], minlength=_NUM_COARSE) > 0
      coarse = _draw(theta, of_coarse, rng)
      of_class = some[classes[coarse]]
      y = classes[coarse][_draw(theta_of[coarse], of_class, rng)]
      own.append(left[y].pop())
      some[y] = bool(left[y])
    indices.append(np.sort(own))
  return indices, np.full(num_clients, -1), None


def _draw(weights: np.ndarray, some: np.ndarray, rng) -> int:
  """Returns a position where `some` is true, by weight."""
  weights = np.where(some, weights, 0.0)
  # The remaining weights may underflow: then all classes are equally likely.
  if weights.sum() <= 0.0:
    weights = some.astype(np.float64)
  return int(rng.choice(len(weights), p=weights / weights.sum()))
