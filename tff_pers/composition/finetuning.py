"""Evaluates a global model after s local steps on each client.

Meta-learning judges a global model by its performance after a few local steps,
not by its own.

On the Convergence and Accuracy Trade-Offs in Federated Learning and
Meta-Learning
    Charles, Konecny. AISTATS 2021 (section 7 of the spec sheet).
"""

import collections
from typing import Sequence

from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import deployment
from tff_pers.core import process as process_lib
from tff_pers import tff


def build_evaluate_finetuned(
    process: process_lib.PersonalizedProcess,
    tier: deployment.Tier,
    steps: Sequence[int],
    *,
    learning_rate: float,
    batch_size: int,
    local: local_step.LocalStep = local_step.PLAIN,
) -> tff.Computation:
  """Returns the computation that evaluates a global model after local steps.

    client i: v <- w;  s times: v <- v - eta g_i(v; b)  on its training data
              the metrics of v on its test data, for each s

  Every s starts at w and sees the same batches, those of the coming round. The
  learning rate is constant: schedules are for rounds. No state changes.

  Args:
    process: The method.
    tier: Its global model.
    steps: The numbers s, each >= 0; at 0 it is w itself.
    learning_rate: eta.
    batch_size: Examples per minibatch.
    local: The step, e.g. with the momentum and the clipping of training.

  Returns:
    (S@SERVER, {<adapt=D, test=D>}@CLIENTS -> {<s=metrics, ...>}@CLIENTS), named
    by the numbers s; the metrics are those of `process.evaluate`.
  """
  both_type = process_lib.adapt_and_test(process.data_type)

  @tff.tensorflow.computation(process.server_state_type)
  def send(state):
    return collections.OrderedDict(
        seed=state['seed'], round=state['round'], weights=tier.weights(state)
    )

  @tff.tensorflow.computation(send.type_signature.result, both_type)
  def measure(message, data):
    adapt, metrics = data['adapt'], collections.OrderedDict()
    for number in steps:
      tuned, _ = local_sgd.train(
          tier.model, message['weights'], adapt,
          learning_rate=learning_rate,
          seed=client_work.key(message, adapt), local=local,
          batch_size=batch_size, num_steps=number,
      )
      metrics[str(number)] = deployment.deployed_metrics(
          tier.model, tuned, data['test']
      )
    return metrics

  @tff.federated_computation(
      tff.FederatedType(process.server_state_type, tff.SERVER),
      tff.FederatedType(both_type, tff.CLIENTS),
  )
  def evaluate_finetuned(state, data):
    message = tff.federated_broadcast(tff.federated_map(send, state))
    return tff.federated_map(measure, (message, data))

  return evaluate_finetuned
