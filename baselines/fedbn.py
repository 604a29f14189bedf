"""FedBN: batch normalization stays with the client, the rest is averaged.

FedBN: Federated Learning on Non-IID Features via Local Batch Normalization
    Li, Jiang, Zhang, Kamp, Dou. ICLR 2021.
"""

import dataclasses
from typing import Any, Mapping

import tensorflow as tf

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import split_training
from tff_pers.composition import builders
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import layers
from tff_pers.models import moving_statistics
from tff_pers.models import partition


@dataclasses.dataclass(frozen=True)
class FedBNHyperparameters(fedavg.AveragingHyperparameters):
  """Hyperparameters of FedBN, those of FedAvg."""


@builders.checked
@builders.takes_statistics('averaged')
def build_fedbn(
    model: functional.FunctionalModel,
    hyperparameters: FedBNHyperparameters = FedBNHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedBN.

    client i: a <- w, b <- b_i (scales, offsets, moving statistics)
              K times: (a, b) <- (a, b) - eta grad f_i(a, b; batch)
              b_i <- b; the statistics follow the batches
    server  : w <- w - eta_g * sum_i q_i (w - a_i) / sum_i q_i

  Server state: `weights` w, all but the batch normalizations. Client state:
  b_i, initially that part of w^0. Deploys (w, b_i). A client that has not
  trained yet has the initial scales and offsets, and the statistics of one pass
  over its own data, a case that the paper leaves open.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedBNHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.

  Raises:
    ValueError: If the model has no trained batch normalization.
  """
  parts = split(model)
  local = local_step.build(hyperparameters)
  budget = hyperparameters.budget()

  def update(message, own, data):
    rate = local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )
    shared, own, loss = split_training.train_jointly(
        parts, message['weights'], own, data, local=local,
        rates=split_training.Rates(rate, rate),
        seed=client_work.key(message, data), **budget,
    )
    return client_work.ClientOutput(
        client_state=own,
        update=local_sgd.difference(message['weights'], shared),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  def deploy(message, own, data):
    first = split_training.initial_private(parts, message)
    is_first = tf.reduce_all([
        tf.reduce_all(tf.equal(a, b)) for a, b in zip(own, first)
    ])
    return with_own_statistics(
        model, parts.merge(message['weights'], own), data,
        seed=client_work.key(message, data),
        batch_size=hyperparameters.batch_size,
        num_epochs=tf.cast(is_first, tf.int32),
    )

  return fedavg.build_averaging(
      model, client_work.ClientWork(update),
      server_learning_rate=hyperparameters.server_learning_rate,
      model_aggregator=choice.chosen(hyperparameters),
      initial_weights=lambda seed: parts.initial_weights(seed)[0],
      init_client=lambda seed: parts.initial_weights(seed)[1],
      combine=parts.merge, deploy=deploy, statistics=parts.statistics[0],
  )


def split(model: functional.FunctionalModel) -> partition.Partition:
  """Returns the partition whose private weights are batch normalizations.

  Raises:
    ValueError: If none of them is trained, or there are no other weights.
  """
  normalizations = {
      weight.layer for weight in layers.describe(model)
      if weight.kind == moving_statistics.KIND
  }
  parts = partition.by_predicate(model, lambda w: w.layer in normalizations)
  if not normalizations or all(parts.is_private):
    raise ValueError(
        '`model` must have batch normalization that is trained, and other'
        f' weights, found {model.name}. Tip: fedsim[split=norm] keeps other'
        ' normalizations at the client.'
    )
  return parts


def with_own_statistics(
    model: functional.FunctionalModel, weights: Any, data: Mapping[str, Any], *,
    seed: tf.Tensor, batch_size: int, num_epochs: Any,
) -> Any:
  """Returns `weights` with statistics averaged over all batches.

  Args:
    model: The model.
    weights: Its weights.
    data: Dense client data.
    seed: int64[2] key of the batches.
    batch_size: Rows per batch; the last batch is weighted by its rows.
    num_epochs: Passes over the data; 0 leaves the statistics unchanged.
  """

  def step(carry, batch):
    weights, seen = carry
    rows = tf.reduce_sum(tf.cast(batch.mask, seen.dtype))
    share = rows / tf.maximum(seen + rows, 1)
    found = model.batch_statistics(weights, batch)
    return functional.at_statistics(
        model.statistics,
        lambda _, old, new: old + tf.cast(share, old.dtype) * (new - old),
        weights, weights, found,
    ), seen + rows

  return client_data.fold_batches(
      data, step, (weights, tf.constant(0.0)), seed=seed, batch_size=batch_size,
      num_epochs=num_epochs,
  )[0]


@methods.register(
    'fedbn', FedBNHyperparameters, needs=('batch_norm',),
    summary='batch normalization stays with the client (Li 2021)',
)
def _build(task, hyperparameters):
  return build_fedbn(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
