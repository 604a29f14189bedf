"""`synthetic_groups`: two groups of clients with opposite labels.

Distributed Personalized Empirical Risk Minimization
    Deng, Kamani, Mahdavinia, Mahdavi. NeurIPS 2023. Figure 1.
"""

import dataclasses

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import errors
from tff_pers.data import partition as partition_lib
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry


@dataclasses.dataclass(frozen=True)
class SyntheticGroupsOptions(hp.Options):
  """Configuration of the two groups; most defaults are ours."""

  dimension: int = hp.field(60, 'Number of features d.', minimum=1)
  mu: float = hp.field(
      0.2, 'Mean of every feature: +mu in group 0, -mu in group 1.'
  )
  exponent: float = hp.field(
      1.2, 'Feature k has variance k^-exponent, and so has w_true.', minimum=0.0
  )
  train: int = hp.field(100, 'Training examples per client.', minimum=1)
  test: int = hp.field(500, 'Test examples per client.', minimum=1)
  l2: float = hp.field(
      1e-3, 'L2 regularization: l2 / 2 * ||w||^2 is added to the loss.',
      minimum=0.0,
  )


DECLARATION = registry.Declaration(
    classification=True, model='logistic_regression', num_clients=50,
    groups=True,
)


@registry.register(
    'synthetic_groups', SyntheticGroupsOptions, declares=DECLARATION,
    summary='generated: two groups of clients with opposite labels',
)
def build(
    request: registry.TaskRequest, options: SyntheticGroupsOptions
) -> task_lib.Task:
  """Builds the task: N = 50 clients, the first half is group 0.

  Raises:
    ValueError: If the request has something that the task lacks, or fewer than
      two clients.
  """
  num_clients = request.num_clients or DECLARATION.num_clients
  if num_clients < 2:
    raise ValueError(
        f'`num_clients` must be >= 2, one per group, found {num_clients}.'
    )
  groups = (np.arange(num_clients) * 2 // num_clients).astype(np.int32)
  x, y = generate(groups, options, request.seed)
  return assembly.generated(
      'synthetic_groups', request, DECLARATION, x, y, options.train,
      num_classes=2, l2=options.l2, groups=groups, rounds=100, eval_every=10,
  )


# Uses of the seed (0 and 1 belong to partition and split).
_FEATURES = 2
_LABELLING = 3

# Range of the share of positive labels in each group, for which w_true is drawn
# again, and the maximum number of draws.
BALANCE = (0.3, 0.7)
_DRAWS = 1000


def generate(
    groups: np.ndarray, options: SyntheticGroupsOptions, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns x float32[N, train + test, d] and y int32[N, train + test].

    x ~ N(+-mu, Sigma), w_true ~ N(0, Sigma), Sigma = diag(k^-exponent)
    y = 1[w_true . x > 0] in group 0, 1[-w_true . x > 0] in group 1

  w_true is drawn again until the positive fraction of each group is in
  `BALANCE`; otherwise nearly all labels may be equal, in both groups.

  Raises:
    errors.DataError: If no draw is balanced (mu is too large).
  """
  # Sigma_kk = k^-exponent; this is its root, the standard deviation.
  scale = np.arange(1, options.dimension + 1) ** (-options.exponent / 2)
  shape = (len(groups), options.train + options.test, options.dimension)
  mean = np.where(groups == 0, options.mu, -options.mu)[:, None, None]
  rng = partition_lib.generator(seed, _FEATURES)
  x = (mean + scale * rng.standard_normal(shape)).astype(np.float32)
  sign = np.where(groups == 0, 1.0, -1.0)[:, None]
  # A separate generator, so that repeated draws of w_true do not change x.
  rng = partition_lib.generator(seed, _LABELLING)
  for _ in range(_DRAWS):
    w_true = scale * rng.standard_normal(options.dimension)
    y = (sign * (x @ w_true) > 0).astype(np.int32)
    shares = [y[groups == group].mean() for group in (0, 1)]
    if BALANCE[0] <= min(shares) and max(shares) <= BALANCE[1]:
      return x, y
  raise errors.DataError(
      f'`mu` must leave both labels in each group ({BALANCE[0]} to {BALANCE[1]}'
      f' positive), found no such labelling in {_DRAWS} draws with'
      f' mu={options.mu}. Tip: lower it.'
  )
