"""FedAlt: shared and private weights, trained in alternating phases.

Federated Learning with Partial Model Personalization
    Pillutla, Malik, Mohamed, Rabbat, Sanjabi, Xiao. ICML 2022. Algorithm 3.
"""

import dataclasses
from typing import Any, Callable, Mapping, Optional

import tensorflow as tf

from baselines import fedsim
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import split_training
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import partition


@dataclasses.dataclass(frozen=True)
class PhasesHyperparameters(fedsim.SharedHyperparameters):
  """Hyperparameters of methods with a phase for each part."""

  stateless = False  # Not a field, because only some methods offer the choice.
  private_epochs: int = hp.field(
      0,
      'Passes over the local data in the phase of the private weights; 0:'
      ' private_steps or, if that is 0 too, as long as the phase of the shared'
      ' ones.',
      minimum=0, search=hp.Around(4),
  )
  private_steps: int = hp.field(
      0, 'Maximum steps in the phase of the private weights; 0: no limit.',
      minimum=0,
  )

  def private_budget(self, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `fold_batches` for the private weights."""
    steps, epochs = self.private_steps, self.private_epochs
    if not steps and not epochs:
      return self.budget()
    if steps and epochs:
      per_epoch = client_data.batches_per_epoch(
          data['num_examples'], self.batch_size
      )
      steps, epochs = tf.minimum(steps, epochs * per_epoch), 0
    size = self.batch_size
    # A tensor has no truth value in a graph.
    if epochs:
      return dict(batch_size=size, num_epochs=epochs)
    return dict(batch_size=size, num_steps=steps)

  def longest_line(self) -> int:
    shared, private = super().longest_line(), self.private_steps
    if not private and not self.private_epochs:
      private = shared
    # 0 means that the data decide, which cannot be compared to a number.
    return shared and private and max(shared, private)


@dataclasses.dataclass(frozen=True)
class FedAltHyperparameters(PhasesHyperparameters):
  """Hyperparameters of FedAlt."""

  final_epochs: int = hp.inherited(
      fedsim.FedSimHyperparameters, 'final_epochs', when='stateless=false'
  )
  stateless: bool = hp.field(
      False,
      'Whether private weights are relearned from their initial value each time'
      ' and then discarded.',
  )


@builders.checked
@builders.takes_statistics('averaged')
def build_fedalt(
    parts: partition.Partition,
    hyperparameters: PhasesHyperparameters = FedAltHyperparameters(),
    *,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
    project: Optional[Callable[[Any], Any]] = None,
) -> process.PersonalizedProcess:
  """Builds FedAlt.

    client i: a <- theta, w <- w_i
              K_w times: w <- w - eta_w grad_w f_i(a, w; b)
              K times  : a <- a - eta   grad_a f_i(a, w; b)
              w_i <- w
    server  : theta <- theta - eta_g * sum_i q_i (theta - a_i) / sum_i q_i

  The second phase keeps w at its new value. Both phases visit the main sequence
  of batches, and momentum restarts in each. Server state: `weights` theta.
  Client state: w_i, initially that part of w^0. Deploys (theta, w_i). Without
  private weights it is FedAvg, without shared ones local training.

  Stateless clients start from w^0 in every round and keep nothing. In
  evaluation they are treated as clients that never trained.

  Args:
    parts: The model and its split.
    hyperparameters: See `FedAltHyperparameters`; `split` is `parts` already.
    num_clients: See `fedsim.build_fedsim`.
    client_weighting: q_i, see `fedavg.build_fedavg`.
    project: See `fedavg.build_averaging`.
  """
  local = local_step.build(hyperparameters)
  stateless = hyperparameters.stateless

  def update(message, kept, data):
    theta, seed = message['weights'], client_work.key(message, data)
    rates = split_training.scheduled_rates(hyperparameters, message)
    own = split_training.initial_private(parts, message) if stateless else kept
    own, private_loss = split_training.train_private(
        parts, theta, own, data, learning_rate=rates.own, seed=seed,
        local=local, **hyperparameters.private_budget(data),
    )
    shared, loss = split_training.train_global(
        parts, theta, own, data, learning_rate=rates.theta, seed=seed,
        local=local, **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=kept if stateless else own,
        # Only theta: w_i never leaves its client.
        update=local_sgd.difference(theta, shared),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=private_loss if loss is None else loss,
    )

  return fedsim.average_shared(
      parts, client_work.ClientWork(update), hyperparameters, num_clients,
      stateless=stateless, project=project,
  )


@methods.register(
    'fedalt', FedAltHyperparameters, needs=fedsim.NEEDS,
    summary='shared and private weights, alternating phases (Pillutla 2022)',
)
def _build(task, hyperparameters):
  return build_fedalt(
      hyperparameters.partition(task.model), hyperparameters,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
