"""What all methods with private weights do for a client that never trains."""

from typing import Optional

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.models import partition


def build_deploy(
    parts: partition.Partition, hyperparameters, num_clients: Optional[int]
):
  """Returns `(message, w_i, D) -> W`: what a client deploys.

  Clients that may take part deploy (theta, w_i). A new client first trains w_i
  alone, `adapt_epochs` passes over its training data with theta frozen, on the
  batches of the main line and without the schedule, which is made for the
  rounds: a client may come when the step size has fallen to almost nothing.

  Args:
    parts: The model and its split; `message['weights']` is the global part.
    hyperparameters: A `hyperparameters.LocalTraining` with `adapt_epochs`.
    num_clients: N; new are clients of a larger index. None: no client is new.
  """

  def deploy(message, own, data):
    theta = message['weights']
    if num_clients is not None and any(parts.is_private):
      own, _ = local_sgd.train(
          parts.private_model(theta), own, data,
          learning_rate=hyperparameters.learning_rate,
          seed=client_work.key(message, data),
          local=local_step.build(hyperparameters),
          batch_size=hyperparameters.batch_size,
          # 0 passes leave the stored w_i of a client that trains as it is.
          num_epochs=tf.where(
              data['index'] < num_clients, 0, hyperparameters.adapt_epochs
          ),
      )
    return parts.merge(theta, own)

  return deploy
