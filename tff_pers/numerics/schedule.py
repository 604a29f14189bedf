"""Shuffling schedules of models over hosts; see also `matching`."""

import tensorflow as tf

from tff_pers.core import random


def permutation(
    seed: tf.Tensor, epoch: tf.Tensor, num_clients: int, use: int = 0
) -> tf.Tensor:
  """Returns sigma_epoch, a uniform permutation of 0..N-1 keyed by the epoch.

  Args:
    seed: Integer scalar, the run's seed.
    epoch: Integer scalar >= 0.
    num_clients: N.
    use: Separates this draw from others of the same seed.

  Returns:
    int32[N].
  """
  return tf.random.experimental.stateless_shuffle(
      tf.range(num_clients), random.key(seed, use, epoch)
  )


def hosts(
    seed: tf.Tensor, visit_round: tf.Tensor, num_clients: int, use: int = 0
) -> tf.Tensor:
  """Returns the client that hosts each model: sigma_r[(i + j) mod N] (Alg. 1).

  Round t of the shuffling is round j = t mod N of epoch r = t div N. For fixed
  t this is a bijection; over an epoch every model meets every client once.

  Args:
    seed: The run's seed.
    visit_round: t >= 0, counted from the first round with visits.
    num_clients: N.
    use: See `permutation`.

  Returns:
    int32[N], indexed by the model's owner.
  """
  epoch, j = visit_round // num_clients, visit_round % num_clients
  sigma = permutation(seed, epoch, num_clients, use)
  return tf.gather(sigma, (tf.range(num_clients) + j) % num_clients)


def owners(hosts_of_models: tf.Tensor, num_clients: int) -> tf.Tensor:
  """Inverts `hosts`: returns the model at each client, -1: none; or back.

  Args:
    hosts_of_models: int32[N], client hosting model i, -1 if none.
    num_clients: N.

  Returns:
    int32[N], indexed by the client.
  """
  # Models without a host are left out: -1 is not an index to scatter to.
  visited = tf.where(hosts_of_models >= 0)[:, 0]
  return tf.tensor_scatter_nd_update(
      tf.fill([num_clients], -1),
      tf.gather(hosts_of_models, visited)[:, None],
      tf.cast(visited, tf.int32),
  )
