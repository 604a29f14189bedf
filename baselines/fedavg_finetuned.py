"""FedAvg with fine-tuning ("localized FedAvg"): adapt the global model locally.

Training is FedAvg's; only what a client deploys differs. With the defaults it
is the client's local iterate of the coming round, before the aggregation.

Distributed Personalized Empirical Risk Minimization (localized FedAvg).
    Deng, Kamani, Mahdavinia, Mahdavi. NeurIPS 2023.
"""

import dataclasses

import tensorflow as tf

from baselines import fedavg
from tff_pers import hyperparameters as hp
from tff_pers import methods
from tff_pers import process
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.models import functional
from tff_pers.models import partition


@dataclasses.dataclass(frozen=True)
class FedAvgFinetunedHyperparameters(fedavg.FedAvgHyperparameters):
  """Hyperparameters of FedAvg with fine-tuning."""

  steps: int = hp.field(
      0,
      'Fine-tuning steps s at evaluation, in minibatches; 0: as in training.',
      minimum=0,
  )
  lr: float = hp.field(
      0.0, 'Step size eta_p of fine-tuning, per step; 0: learning_rate.',
      minimum=0.0,
  )
  layers: str = hp.field(
      'all',
      'What is fine-tuned: all weights, or the last layer (the last two weight'
      ' tensors: kernel and bias).',
      choices=('all', 'last'),
  )

  def longest_line(self) -> int:
    in_training = super().longest_line()
    # 0 means that the data decide; no number of steps can be compared with
    # that.
    return in_training and max(in_training, self.steps)


def build_fedavg_finetuned(
    model: functional.FunctionalModel,
    hyperparameters: FedAvgFinetunedHyperparameters = (
        FedAvgFinetunedHyperparameters()
    ),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedAvg whose clients fine-tune before they deploy.

    training: FedAvg
    deploy  : v <- w;  s times: v <- v - eta_p g_i(v; b)  on training data of i

  The batches are those of the coming round, so that with s = K, eta_p = eta and
  all layers, v is u_i of that round. Momentum, weight decay and clipping are
  those of training. The schedule is not: it is made for the rounds, and a rate
  that has fallen to almost nothing would leave every v at w. Nothing personal
  is kept: server state `weights` w, clients stateless.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedAvgFinetunedHyperparameters`.
    client_weighting: See `fedavg.build_fedavg`.

  Raises:
    ValueError: If the last layer is to be fine-tuned and is the whole model.
  """
  num_tensors = len(tf.nest.flatten(model.spec))
  if hyperparameters.layers == 'last' and num_tensors <= 2:
    raise ValueError(
        '`layers` must be all because the model is one layer, found last.'
    )
  return fedavg.build_fedavg(
      model, hyperparameters, client_weighting=client_weighting,
      deploy=build_fine_tuning(model, hyperparameters),
  )


def build_fine_tuning(
    model: functional.FunctionalModel,
    hyperparameters: FedAvgFinetunedHyperparameters,
):
  """Returns `(message, C, D) -> v`, a TensorFlow function."""
  budget = hyperparameters.budget()
  if hyperparameters.steps:
    budget.update(num_steps=hyperparameters.steps, num_epochs=None)
  parts = fine_tuned_part(model, hyperparameters.layers)

  def fine_tune(message, client_state, data):
    del client_state  # Clients are stateless.
    body, head = parts.split(message['weights'])
    final, _ = local_sgd.train(
        parts.private_model(body), head, data,
        # The key of the coming round's main line of batches.
        seed=client_work.key(message, data),
        learning_rate=hyperparameters.lr or hyperparameters.learning_rate,
        local=local_step.build(hyperparameters), **budget,
    )
    return parts.merge(body, final)

  return fine_tune


def fine_tuned_part(
    model: functional.FunctionalModel, which: str
) -> partition.Partition:
  """Returns the partition whose private part is fine-tuned.

  Args:
    model: The model.
    which: `all`, or `last`: the last two weight tensors.
  """
  num_leaves = len(tf.nest.flatten(model.spec))
  num_private = 2 if which == 'last' else num_leaves
  return partition.Partition(
      model,
      tuple(i >= num_leaves - num_private for i in range(num_leaves)),
  )


@methods.register(
    'fedavg_finetuned', FedAvgFinetunedHyperparameters,
    summary='FedAvg, fine-tuned by every client before it deploys',
)
def _build(task, hyperparameters):
  return build_fedavg_finetuned(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
