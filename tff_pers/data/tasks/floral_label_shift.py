"""`floral_label_shift`: Gaussian classes that clusters name differently.

A small classification problem for FLoRAL under label shift: without
personalization, at most one of C clusters can be served well.
"""

import dataclasses

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import partition as partition_lib
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import floral_regression
from tff_pers.data.tasks import registry

DIMENSION = 20
CLASSES = 10
CLUSTERS = 4
RADIUS = 3.0  # Norm of every class mean.
NOISE = 0.7  # Standard deviation of every feature around it.
_TEST_EXAMPLES = 100  # Of a client.


@dataclasses.dataclass(frozen=True)
class FloralLabelShiftOptions(hp.Options):
  """Size; the reduced version has train=10."""

  train: int = hp.field(40, 'Training examples per client.', minimum=1)


DECLARATION = registry.Declaration(
    classification=True, model='mlp_50', num_clients=20, groups=True
)


@registry.register(
    'floral_label_shift', FloralLabelShiftOptions, declares=DECLARATION,
    summary='generated: 4 clusters that name 10 Gaussian classes differently',
)
def build(
    request: registry.TaskRequest, options: FloralLabelShiftOptions
) -> task_lib.Task:
  """Builds the task: 20 clients, client k is in cluster k mod 4."""
  groups = floral_regression.cluster_of(
      request.num_clients or DECLARATION.num_clients, CLUSTERS
  )
  x, y = generate(groups, options.train + _TEST_EXAMPLES, request.seed)
  return assembly.generated(
      'floral_label_shift', request, DECLARATION, x, y, options.train,
      num_classes=CLASSES, groups=groups, rounds=200, eval_every=20,
  )


# Uses of the seed (0 and 1 belong to partition and split).
_EXAMPLES = 2
_MEANS = 3


def generate(
    groups: np.ndarray, num_examples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns x float32[N, n, 20] and y int32[N, n].

    z ~ uniform over 10 classes,  x ~ N(mean_z, NOISE^2 I),  y = (z + c) mod 10

  c is the client's cluster; the means have norm RADIUS and random directions.
  """
  rng = partition_lib.generator(seed, _MEANS)
  means = rng.standard_normal((CLASSES, DIMENSION))
  means *= RADIUS / np.linalg.norm(means, axis=1, keepdims=True)
  # Not the generator of the means, which therefore do not depend on the number
  # of clients or examples.
  rng = partition_lib.generator(seed, _EXAMPLES)
  z = rng.integers(0, CLASSES, (len(groups), num_examples))
  x = means[z] + NOISE * rng.standard_normal((*z.shape, DIMENSION))
  y = (z + np.asarray(groups)[:, None]) % CLASSES
  return x.astype(np.float32), y.astype(np.int32)
