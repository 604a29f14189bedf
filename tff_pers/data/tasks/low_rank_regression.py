"""`low_rank_regression`: one linear map of low rank, unknown to clients.

All clients have the same map, so that only the ranks of the tiers keep FedHM
from it: below the rank of the map, the loss cannot reach 0. It is a convex case
of the setting of FedHM (`models/factorized.py`), not in the paper.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.data import client_data
from tff_pers.data import partition as partition_lib
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry
from tff_pers.models import functional
from tff_pers.numerics import low_rank

INPUTS, OUTPUTS = 20, 16
START = 0.1  # Standard deviation of the initial weights.
_EXAMPLES = 100  # Of a client, to train on, and as many to test on.


@dataclasses.dataclass(frozen=True)
class LowRankRegressionOptions(hp.Options):
  """Size of the task."""

  rank: int = hp.field(
      4, 'Rank of the map from x to y.', minimum=1, maximum=min(INPUTS, OUTPUTS)
  )


DECLARATION = registry.Declaration(
    classification=False, model='linear_regression', num_clients=8,
    groups=False,
)


@registry.register(
    'low_rank_regression', LowRankRegressionOptions, declares=DECLARATION,
    summary='generated: one linear map 20 -> 16 of rank 4',
)
def build(
    request: registry.TaskRequest, options: LowRankRegressionOptions
) -> task_lib.Task:
  """Builds the task: 8 clients; the common test set is all test sets together.

  The model is linear without a bias; other models come from the zoo.
  """
  num_clients = request.num_clients or DECLARATION.num_clients
  target = linear_map(options.rank, request.seed)
  rng = partition_lib.generator(request.seed, _FEATURES)
  x = rng.standard_normal((num_clients, 2 * _EXAMPLES, INPUTS))
  x = x.astype(np.float32)
  y = (x @ target).astype(np.float32)
  task = assembly.generated(
      'low_rank_regression', request, DECLARATION, x, y, _EXAMPLES,
      model=None if request.model else linear_model(),
      optimum=None if request.model else (
          np.repeat(target[None], num_clients, axis=0),
      ),
      client_weighting='uniform', rounds=300, eval_every=30,
  )
  return dataclasses.replace(task, global_test=client_data.pool(task.test))


# Uses of the seed (0 and 1 belong to partition and split).
_FEATURES = 2
_MAP = 3


def linear_map(rank: int, seed: int) -> np.ndarray:
  """Returns A = R_1 R_2 / sqrt(rank), Gaussian factors, float32[20, 16]."""
  rng = partition_lib.generator(seed, _MAP)
  product = rng.standard_normal((INPUTS, rank)) @ rng.standard_normal(
      (rank, OUTPUTS)
  )
  return (product / np.sqrt(rank)).astype(np.float32)


@functools.lru_cache(maxsize=2)  # Shared by the tasks of all seeds.
def linear_model(dtype: tf.DType = tf.float32) -> functional.FunctionalModel:
  """Returns the model y = x W without bias, with the loss ||y - x W||^2 / 2."""

  def init(seed):
    normal = tf.random.stateless_normal([INPUTS, OUTPUTS], seed, dtype=dtype)
    return (tf.constant(START, dtype) * normal,)

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    return low_rank.matmul(tf.cast(x, dtype), weights[0])

  def example_loss(y, predictions):
    return tf.reduce_sum(tf.square(tf.cast(y, dtype) - predictions), 1) / 2

  return functional.FunctionalModel(
      init, predict, example_loss,
      x_spec=tf.TensorSpec([None, INPUTS], tf.float32),
      y_spec=tf.TensorSpec([None, OUTPUTS], tf.float32),
      name='linear_regression',
      layers=(
          functional.LayerWeight(
              'dense_0/kernel', 'dense_0', 'dense', (INPUTS, OUTPUTS)
          ),
      ),
      takes_factors=True,
  )
