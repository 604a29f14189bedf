"""`floral_linear` and `floral_mlp`: clusters whose maps differ by rank one.

Collaborative and Efficient Personalization with Mixtures of Adaptors (FLoRAL),
appendices G.1 and G.2. A client has too few examples to find its map alone;
what the clusters share, and what distinguishes one, is learned together.
"""

import dataclasses

import numpy as np

from tff_pers.data import partition as partition_lib
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry

DIMENSION = 10  # d_x, and d_h of floral_mlp.
TARGETS = 3  # d_y of floral_linear.
ALPHA = 2.0  # Size of the difference between clusters.
# Training examples of a client; G.1 has fewer than features.
_LINEAR_EXAMPLES, _MLP_EXAMPLES = 7, 96
_TEST_EXAMPLES = 500


LINEAR = registry.Declaration(
    classification=False, model='linear_regression', num_clients=10,
    groups=True,
)
MLP = registry.Declaration(
    classification=False, model='mlp_20', num_clients=20, groups=True
)


@registry.register(
    'floral_linear', registry.NoOptions, declares=LINEAR,
    summary='generated: 2 clusters of linear maps 10 -> 3, of rank 1 apart',
)
def build_linear(
    request: registry.TaskRequest, options: registry.NoOptions
) -> task_lib.Task:
  """Builds the task; 10 clients, the student is one linear layer from 0."""
  del options  # There are none.
  task = _build(
      'floral_linear', request, LINEAR, linear_targets, 2, _LINEAR_EXAMPLES
  )
  if request.model not in ('', 'linear_regression'):
    # With hidden layers, many sets of weights compute the same function, so
    # there is no single optimum.
    return task
  optimum = linear_optimum(task.groups, 2, request.seed)
  return dataclasses.replace(task, optimum=optimum)


@registry.register(
    'floral_mlp', registry.NoOptions, declares=MLP,
    summary='generated: 4 clusters of networks 10 -> 1, their first layers of'
    ' rank 1 apart',
)
def build_mlp(
    request: registry.TaskRequest, options: registry.NoOptions
) -> task_lib.Task:
  """Builds the task; 20 clients, the student is a network 10-20-1."""
  del options  # There are none.
  return _build('floral_mlp', request, MLP, mlp_targets, 4, _MLP_EXAMPLES)


def _build(name, request, declares, targets, clusters, num_train):
  """Builds either task; client k is in cluster k mod C."""
  groups = cluster_of(request.num_clients or declares.num_clients, clusters)
  x = features(len(groups), num_train + _TEST_EXAMPLES, request.seed)
  y = targets(x, groups, clusters, request.seed)
  return assembly.generated(
      name, request, declares, x, y, num_train, groups=groups, rounds=1000,
      eval_every=50,
  )


def cluster_of(num_clients: int, clusters: int) -> np.ndarray:
  """Returns k mod C, int32[num_clients].

  Raises:
    ValueError: If a cluster would have no client.
  """
  if num_clients < clusters:
    raise ValueError(
        f'`num_clients` must be >= {clusters}, one per cluster, found'
        f' {num_clients}.'
    )
  return (np.arange(num_clients) % clusters).astype(np.int32)


# Uses of the seed (0 and 1 belong to partition and split).
_FEATURES = 2
_MAPS = 3


def features(num_clients: int, num_examples: int, seed: int) -> np.ndarray:
  """Returns x ~ N(0, I), float32[num_clients, num_examples, d_x]."""
  # Not the generator of the maps, so that the number of examples does not
  # change the maps.
  rng = partition_lib.generator(seed, _FEATURES)
  shape = (num_clients, num_examples, DIMENSION)
  return rng.standard_normal(shape).astype(np.float32)


def linear_targets(
    x: np.ndarray, groups: np.ndarray, clusters: int, seed: int
) -> np.ndarray:
  """Returns y = (W + alpha U_c V_c^T) x, float32[N, n, d_y] (G.1).

  c is the group of the client, and x is [N, n, d_x].
  """
  maps = _linear_maps(clusters, seed)[groups]
  return np.einsum('kij,knj->kni', maps, x).astype(np.float32)


def linear_optimum(
    groups: np.ndarray, clusters: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the optimal weights of `linear_regression` for each client.

  These are the kernel (W + alpha U_c V_c^T)^T and no bias. The targets are
  exact and x has full covariance, so this is the only minimizer of the expected
  loss, which is 0 there; 7 training examples alone do not determine it.

  Returns:
    (kernel float32[N, d_x, d_y], bias float32[N, d_y]).
  """
  kernels = _linear_maps(clusters, seed)[groups].transpose(0, 2, 1)
  return (
      kernels.astype(np.float32), np.zeros([len(groups), TARGETS], np.float32)
  )


def _linear_maps(clusters: int, seed: int) -> np.ndarray:
  """Returns the maps of floral_linear, [C, d_y, d_x]."""
  rng = partition_lib.generator(seed, _MAPS)
  return _maps(rng, TARGETS, clusters)


def mlp_targets(
    x: np.ndarray, groups: np.ndarray, clusters: int, seed: int
) -> np.ndarray:
  """Returns y = Phi ReLU((W + alpha U_c V_c^T) x), float32[N, n] (G.2)."""
  rng = partition_lib.generator(seed, _MAPS)
  maps = _maps(rng, DIMENSION, clusters)[groups]
  # Drawn after the maps and the same for all clusters, which differ only by
  # W + alpha U_c V_c^T.
  readout = rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)  # Phi
  hidden = np.maximum(np.einsum('kij,knj->kni', maps, x), 0)
  return (hidden @ readout).astype(np.float32)


def _maps(rng, num_outputs: int, clusters: int) -> np.ndarray:
  """Returns W + alpha U_c V_c^T, [C, num_outputs, d_x]; U_c V_c^T has rank 1.

  Entries have standard deviation 1 / sqrt(input dimension of the map): W and V
  act on d_x numbers, U on one.
  """
  shared = rng.standard_normal((num_outputs, DIMENSION)) / np.sqrt(DIMENSION)
  u = rng.standard_normal((clusters, num_outputs, 1))
  v = rng.standard_normal((clusters, 1, DIMENSION)) / np.sqrt(DIMENSION)
  return shared + ALPHA * u * v
