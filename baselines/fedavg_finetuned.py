"""FedAvg with fine-tuning ("localized FedAvg"): adapt the global model locally.

Training is FedAvg's; only the deployed model differs. With the defaults it is
the client's local model in the coming round, before aggregation.

Distributed Personalized Empirical Risk Minimization (localized FedAvg).
    Deng, Kamani, Mahdavinia, Mahdavi. NeurIPS 2023.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping

import tensorflow as tf

from baselines import fedavg
from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.composition import deployment
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.core import structures
from tff_pers.models import functional
from tff_pers.models import partition


@dataclasses.dataclass(frozen=True)
class FedAvgFinetunedHyperparameters(fedavg.AveragingHyperparameters):
  """Hyperparameters of FedAvg with fine-tuning."""

  select: str = hp.field(
      'fixed',
      'Length of fine-tuning: fixed (steps), or validation: the number of'
      ' epochs, common to all clients that are evaluated together, with the'
      ' best mean accuracy (loss for regression) on every fifth training'
      ' example after fine-tuning on the others.',
      choices=('fixed', 'validation'),
  )
  steps: int = hp.field(
      0,
      'Fine-tuning steps s at evaluation, in minibatches; 0: as in training.',
      minimum=0, when='select=fixed',
      search=hp.Around(4, of='local_steps'),
  )
  max_epochs: int = hp.field(
      20, 'Largest number of epochs tried.', minimum=1, when='select=validation'
  )
  lr: float = hp.field(
      0.0, 'Step size eta_p of fine-tuning, per step; 0: learning_rate.',
      minimum=0.0, search=hp.Around(20, of='learning_rate'),
  )
  layers: str = hp.field(
      'all',
      'What is fine-tuned: all weights, or the last layer.',
      choices=('all', 'last'),
  )

  @property
  def fine_tuning_rate(self) -> float:
    """eta_p."""
    return self.lr or self.learning_rate

  def longest_line(self) -> int:
    in_training = super().longest_line()
    # 0 means that the data decide, which cannot be compared to a number of
    # steps.
    return in_training and max(in_training, self.steps)


@builders.checked
@builders.takes_statistics('averaged')
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
  all layers, v is u_i of that round. Momentum, weight decay and clipping are as
  in training. The schedule is not applied: after it has decayed the rate to
  almost nothing, every v would stay at w. Nothing personal is kept: the server
  state is `weights` w, clients are stateless.

  With `select=validation`, clients fine-tune in whole epochs, each of which
  restarts momentum, and share their number: each client evaluates v after 0, 1,
  ..., `max_epochs` epochs, trained without every fifth of its training
  examples, on those examples; the number with the best mean over clients is
  chosen, and v is retrained on all training examples. Clients with fewer than
  five examples do not count. Test data are not used. Clients that are evaluated
  in one call of `evaluate` choose together: in programs 128, `train` apart from
  new clients, `binaries.evaluate` with all those of its file.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedAvgFinetunedHyperparameters`.
    client_weighting: See `fedavg.build_fedavg`.

  Raises:
    ValueError: If the last layer is to be fine-tuned and is the whole model, or
      the model does not say which it is.
  """
  if hyperparameters.layers == 'last' and all(
      fine_tuned_part(model, 'last').is_private
  ):
    raise ValueError(
        '`layers` must be all because the model is one layer, found last.'
    )
  return fedavg.build_averaging(
      model,
      local_sgd.build_local_sgd(model, hyperparameters, client_weighting),
      server_learning_rate=hyperparameters.server_learning_rate,
      model_aggregator=choice.chosen(hyperparameters),
      deploy=(
          build_choosing(model, hyperparameters)
          if hyperparameters.select == 'validation'
          else build_fine_tuning(model, hyperparameters)
      ),
  )


def build_fine_tuning(
    model: functional.FunctionalModel,
    hyperparameters: FedAvgFinetunedHyperparameters,
) -> Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Any]:
  """Returns `(message, C, D) -> v`, a TensorFlow function.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_fedavg_finetuned`.
  """
  budget = hyperparameters.budget()
  if hyperparameters.steps:
    budget.update(num_steps=hyperparameters.steps, num_epochs=None)
  train = _training(model, hyperparameters)

  def fine_tune(message, client_state, data):
    del client_state  # Clients are stateless.
    # The key of the coming round's main line of batches.
    key = client_work.key(message, data)
    return train(message['weights'], data, key, **budget)

  return fine_tune


def build_choosing(
    model: functional.FunctionalModel,
    hyperparameters: FedAvgFinetunedHyperparameters,
) -> composition.Choosing:
  """Returns the choice of a number of epochs, and fine-tuning for as many.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_fedavg_finetuned`.
  """
  train = _training(model, hyperparameters)
  num_options = hyperparameters.max_epochs + 1

  def epoch(number, message, v, data):
    """Returns v after epoch `number` of fine-tuning, counted from 0."""
    return train(
        v, data, random.fold_in(client_work.key(message, data), number),
        num_epochs=1, batch_size=hyperparameters.batch_size,
    )

  def score(message, client_state, data):
    del client_state  # Clients are stateless.
    kept, held_out = hold_out(data)

    def measured(v, number):
      """Returns the quality of v at position `number`, zeros elsewhere."""
      metrics = deployment.deployed_metrics(model, v, held_out)
      found = tf.cast(
          metrics.get('accuracy', -metrics['loss']), model.dtype
      )
      return found * tf.one_hot(number, num_options, dtype=model.dtype)

    def one_more(number, v, scores):
      v = epoch(number, message, v, kept)
      return number + 1, v, scores + measured(v, number + 1)

    w = message['weights']
    scores = tf.while_loop(
        lambda number, *_: number < hyperparameters.max_epochs, one_more,
        (tf.constant(0), w, measured(w, 0)),
    )[2]
    # NaN (0 / 0) without examples to evaluate on.
    return tf.where(held_out['num_examples'] > 0, scores, 0)

  def deploy(message, client_state, data, chosen):
    del client_state
    _, v = tf.while_loop(
        lambda number, v: number < chosen,
        lambda number, v: (number + 1, epoch(number, message, v, data)),
        (tf.constant(0), message['weights']),
    )
    return composition.Deployed(v, dict(finetuning_epochs=chosen))

  return composition.Choosing(score, deploy)


def _training(model, hyperparameters):
  """Returns `(v, D, key, **budget) -> v`: SGD on the part to fine-tune."""
  parts = fine_tuned_part(model, hyperparameters.layers)

  def train(v, data, seed, **budget):
    body, tuned = parts.split(v)
    tuned, _ = local_sgd.train(
        parts.private_model(body), tuned, data, seed=seed,
        learning_rate=hyperparameters.fine_tuning_rate,
        local=local_step.build(hyperparameters), **budget,
    )
    return parts.merge(body, tuned)

  return train


def hold_out(
    data: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
  """Returns client data without every fifth example, and only those."""
  size = data['num_examples']
  capacity = structures.num_rows(data['examples'])
  kept = tf.range(capacity - capacity // 5)

  def part(num_examples, take):
    return collections.OrderedDict(
        data, num_examples=num_examples,
        examples=tf.nest.map_structure(take, data['examples']),
    )

  return (
      # Rows 0 to 3, 5 to 8, ...
      part(size - size // 5, lambda rows: tf.gather(rows, kept + kept // 4)),
      part(size // 5, lambda rows: rows[4::5]),
  )


def fine_tuned_part(
    model: functional.FunctionalModel, which: str
) -> partition.Partition:
  """Returns the partition whose private part is fine-tuned.

  Args:
    model: The model.
    which: `all`, or `last`: the last layer, see `partition.last_layers`.
  """
  if which == 'last':
    return partition.last_layers(model, 1)
  return partition.by_predicate(model, lambda weight: True)


@methods.register(
    'fedavg_finetuned', FedAvgFinetunedHyperparameters,
    needs=dict(examples=lambda values: values.select == 'validation'),
    summary='FedAvg, fine-tuned by every client before it deploys',
)
def _build(task, hyperparameters):
  return build_fedavg_finetuned(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
