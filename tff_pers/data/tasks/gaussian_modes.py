"""`gaussian_modes`: classes of several modes, observed by a curved map.

A small classification task that needs a network of some width, for methods that
shrink networks: a small case of the setting of FedHM (`models/factorized.py`),
not in the paper.
"""

import dataclasses
from typing import Any

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import client_data
from tff_pers.data import partition as partition_lib
from tff_pers.data import sources
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry

CLASSES, MODES = 10, 3
LATENT, FEATURES = 12, 32
NOISE = 0.1
# Training examples of a client per test example; it has at least one of these.
_TRAIN_PER_TEST = 4


@dataclasses.dataclass(frozen=True)
class GaussianModesOptions(hp.Options):
  """Sizes of the task."""

  train: int = hp.field(
      4000, 'Training examples of all clients together.', minimum=20
  )
  test: int = hp.field(2000, 'Examples of the common test set.', minimum=1)


DECLARATION = registry.Declaration(
    classification=True, model='mlp_128', num_clients=20, clients_per_round=10,
    partition='dirichlet[alpha=0.5,min=40]',
    partitions=('dirichlet', 'iid', 'one_class', 'shards'),
)


@registry.register(
    'gaussian_modes', GaussianModesOptions, declares=DECLARATION,
    summary='generated: 10 classes of 3 modes each, 32 features',
)
def build(
    request: registry.TaskRequest, options: GaussianModesOptions
) -> task_lib.Task:
  """Builds the task: 20 clients, 10 per round, tiers 1, 1/4, 1/8, 1/16.

  A client's test examples are drawn for labels in the proportions of its
  training labels; in the common test set, all classes are equally frequent.

  Raises:
    ValueError: If the request has something that the task lacks, e.g. a
      partition that test examples cannot follow.
  """
  registry.refuse('gaussian_modes', request, 'data_dir', 'train_fraction')
  partition = request.partition or DECLARATION.partition
  if DECLARATION.named_partition(partition) not in DECLARATION.partitions:
    # Others rotate images or rename labels, which test examples do not follow.
    raise ValueError(
        f'`partition` must be {", ".join(DECLARATION.partitions)} for task'
        f' gaussian_modes, found {partition!r}.'
    )
  rng = partition_lib.generator(request.seed, _EXAMPLES)
  world = _world(partition_lib.generator(request.seed, _WORLD))
  y = rng.integers(CLASSES, size=options.train).astype(np.int32)
  y_test = rng.integers(CLASSES, size=options.test).astype(np.int32)
  x, x_test = (features(labels, world, rng) for labels in (y, y_test))
  made = partition_lib.build(
      partition, y, request.num_clients or DECLARATION.num_clients,
      request.seed,
  )
  train = made.clients(x, y)
  own_labels = [labels[::_TRAIN_PER_TEST] for _, labels in train]
  test = [(features(labels, world, rng), labels) for labels in own_labels]
  return task_lib.Task(
      name='gaussian_modes',
      model=assembly.build_model(
          DECLARATION.named_model(request.model), train, CLASSES
      ),
      train=sources.from_arrays(train),
      test=sources.from_arrays(test),
      groups=made.groups,
      num_classes=CLASSES,
      class_counts=partition_lib.class_counts(
          [labels for _, labels in train], CLASSES
      ),
      partition=made.name,
      client_weighting='uniform',
      clients_per_round=min(DECLARATION.clients_per_round, len(train)),
      rounds=60,
      eval_every=10,
      global_test=client_data.dense(-1, x_test, y_test),  # -1: of no client.
      rank_ratios=(1.0, 0.25, 0.125, 0.0625),
  )


# Uses of the seed (0 and 1 belong to partition and split).
_EXAMPLES = 2
_WORLD = 3


def _world(rng):
  """Returns the centres of the modes, [10, 3, 12], and the maps B and C."""
  centres = rng.standard_normal((CLASSES, MODES, LATENT))
  b, c = rng.standard_normal((2, LATENT, FEATURES)) / np.sqrt(LATENT)
  return centres, b, c


def features(
    labels: np.ndarray, world: Any, rng: np.random.Generator
) -> np.ndarray:
  """Returns x = tanh(z B) + sin(z C) / 2 + noise, float32[n, 32].

  z is one of the centres of the label, drawn uniformly, plus unit noise.
  """
  centres, b, c = world
  modes = rng.integers(MODES, size=len(labels))
  z = centres[labels, modes] + rng.standard_normal((len(labels), LATENT))
  noise = NOISE * rng.standard_normal((len(labels), FEATURES))
  return (np.tanh(z @ b) + 0.5 * np.sin(z @ c) + noise).astype(np.float32)
