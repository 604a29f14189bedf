"""Local SGD of clients that have only some of the classes.

    u <- w;  K steps, with logits 0 for classes that the client does not have
    send w - u, without the rows of the output layer of these classes

The update is `<kept, update>`, see `aggregators.PartialMeanFactory`.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization (masked cross-entropy)
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021.
    https://arxiv.org/abs/2111.14655
"""

import collections
from typing import Any, Sequence

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.models import functional
from tff_pers.models import masked


def of_owners(
    head: Sequence[int], owned: tf.Tensor, update: Any, kept: Any = None
) -> collections.OrderedDict[str, Any]:
  """Returns `<kept, update>`, 0 in the rows of classes that a client lacks.

  Args:
    head: Positions of the output layer's leaves; empty: all rows are kept.
    owned: float[C], 1 for the classes that the client has.
    update: What it would send otherwise.
    kept: 1 for the coordinates that it trained, like `update`; None: all.
  """
  if kept is None:
    kept = tf.nest.map_structure(tf.ones_like, update)
  return collections.OrderedDict(
      kept=_without_rows(head, owned, kept),
      update=_without_rows(head, owned, update),
  )


def _without_rows(head, owned, weights):
  leaves = tf.nest.flatten(weights)
  for position in head:
    leaves[position] *= tf.cast(owned, leaves[position].dtype)
  return tf.nest.pack_sequence_as(weights, leaves)


def build_masked_sgd(
    model: functional.FunctionalModel, hyperparameters: Any,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns FedAvg's client work with the masked loss.

  Args:
    model: The model.
    hyperparameters: A `hyperparameters.LocalTraining`.
    client_weighting: See `client_work.client_weight`.

  Raises:
    ValueError: If the model has no logit per class.
  """
  head = masked.head(model)
  # A deployment sends no `kept`, because the rows that arrive say as much.
  num_bytes = float(model.dtype.size * model.num_parameters)

  def update(message, client_state, data):
    initial = message['weights']
    owned = masked.owned(model, head, data)
    final, loss = local_sgd.train(
        masked.masked(model, owned), initial, data,
        local=local_step.build(hyperparameters),
        **local_sgd.options(hyperparameters, message, data),
        **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=client_state,
        update=of_owners(head, owned, local_sgd.difference(initial, final)),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
        bytes_up=tf.constant(num_bytes),
    )

  return client_work.ClientWork(update)
