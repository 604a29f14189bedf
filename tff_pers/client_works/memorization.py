"""A client's store of examples, and its weight in predictions.

Personalized Federated Learning through Local Memorization (kNN-Per)
    Marfoq, Neglia, Kameni, Vidal. ICML 2022.
"""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.client_works import example_losses
from tff_pers.core import structures
from tff_pers.data import client_data
from tff_pers.models import neighbours as neighbours_lib

_GRID = tuple(tenth / 10 for tenth in range(11))  # Values of lambda.
_ROWS = 256  # Rows whose features are computed at once.


def build_store(
    neighbours: neighbours_lib.Neighbours, weights: Any, data: Mapping[str, Any]
) -> Mapping[str, tf.Tensor]:
  """Returns the store of a client's first examples, as many as it can hold.

  Args:
    neighbours: Makes the store.
    weights: w.
    data: Dense client data, in random order.
  """
  first = tf.nest.map_structure(
      lambda rows: rows[:neighbours.capacity], data['examples']
  )
  size = tf.minimum(data['num_examples'], neighbours.capacity)

  def step(table, batch):
    features = neighbours.layer.predict(weights, batch.x, batch.seed)[1]
    return tf.tensor_scatter_nd_update(table, batch.rows[:, None], features)

  features = example_losses.fold_rows(
      collections.OrderedDict(data, num_examples=size, examples=first), step,
      tf.zeros(
          [structures.num_rows(first), neighbours.layer.num_features],
          neighbours.layer.model.dtype,
      ),
      seed=tf.zeros([2], tf.int64), batch_size=_ROWS, num_epochs=1,
      shuffle=False,
  )
  return neighbours.store(features, first['y'], size)


def best_mixing(
    neighbours: neighbours_lib.Neighbours, weights: Any,
    store: Mapping[str, tf.Tensor], data: Mapping[str, Any],
) -> tf.Tensor:
  """Returns lambda_i of the smallest mean loss; of ties, the smallest lambda.

  Args:
    neighbours: The neighbour predictor to mix with the model.
    weights: w.
    store: A store of examples that are not in `data`.
    data: Dense client data; without examples lambda_i is 0.
  """
  model = neighbours.layer.model
  grid = tf.constant(_GRID, model.dtype)

  def step(losses, batch):
    predictions, features = neighbours.layer.predict(
        weights, batch.x, batch.seed
    )
    said = neighbours.predict(store, features, predictions.shape[-1])
    y = model.targets_of(batch.x, batch.y)
    found = tf.stack([
        model.example_loss(y, neighbours.mixed(mixing, predictions, said))
        for mixing in tf.unstack(grid)
    ])
    counted = tf.where(batch.mask, found, tf.zeros_like(found))
    return losses + tf.cast(tf.reduce_sum(counted, axis=1), losses.dtype)

  losses = client_data.fold_batches(
      data, step, tf.zeros_like(grid), seed=tf.zeros([2], tf.int64),
      batch_size=_ROWS, num_epochs=1, shuffle=False,
  )
  return grid[tf.argmin(losses)]
