"""Reptile: a model close to the models that clients train from it.

On First-Order Meta-Learning Algorithms
    Nichol, Achiam, Schulman. 2018. https://arxiv.org/abs/1803.02999
"""

import dataclasses
from typing import Any, Callable

import tensorflow as tf

from tff_pers.algorithms.local_update import local_update as family
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class ReptileHyperparameters(hp.AveragedTraining):
  """Hyperparameters of Reptile."""

  outer_step: float = hp.field(
      1.0, 'Step eps of the server towards the mean of the models of clients.',
      above=0.0,
  )
  outer_final: float = hp.field(
      1.0,
      'Share of the outer step that remains after outer_rounds of linear decay;'
      ' 1: no decay.',
      minimum=0.0, maximum=1.0,
  )
  outer_rounds: int = hp.field(
      0, 'Rounds over which the outer step decays.', minimum=0,
      when='outer_final!=1',
  )
  steps: int = hp.field(
      0,
      'Adaptation steps s at evaluation, in minibatches; 0: as in training.',
      minimum=0, search=hp.Around(4, of='local_steps'),
  )

  def __post_init__(self):
    super().__post_init__()
    if self.outer_final != 1 and not self.outer_rounds:
      raise ValueError(
          '`outer_rounds` must be > 0 unless outer_final is 1, found 0 with'
          f' outer_final={self.outer_final:g}.'
      )

  def longest_line(self) -> int:
    in_training = super().longest_line()
    # 0 means that the data decide, which cannot be compared to a number of
    # steps.
    return in_training and max(in_training, self.steps)

  def adaptation_budget(self) -> dict[str, Any]:
    """Returns the length of adaptation before clients deploy."""
    budget = self.budget()
    if self.steps:
      budget.update(num_steps=self.steps, num_epochs=None)
    return budget


@builders.checked
def build_reptile(
    model: functional.FunctionalModel,
    hyperparameters: ReptileHyperparameters = ReptileHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds Reptile.

    client i: u <- w;  K times: u <- u - gamma g_i(u; b)
    server  : w <- w - eps(t) * sum_i p_i (w - u_i)
    deploy  : v <- w;  s times: v <- v - gamma g_i(v; b)  on training data

  It is Theta_1:K of the local update methods with eta = eps gamma; with eps = 1
  it trains as FedAvg does. eps(t) decays linearly from eps in round 0 to eps *
  outer_final in round outer_rounds, as in the paper's code (there to 0). The
  adaptation ignores the schedule of gamma.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `ReptileHyperparameters`.
    client_weighting: p_i, see `client_work.client_weight`.
  """
  return family.compose_averaging(
      model, hyperparameters, outer=build_outer_step(hyperparameters),
      client_weighting=client_weighting,
      deploy=local_sgd.build_adaptation(
          model, learning_rate=hyperparameters.learning_rate,
          local=local_step.build(hyperparameters),
          **hyperparameters.adaptation_budget(),
      ),
  )


def build_outer_step(
    hyperparameters: ReptileHyperparameters
) -> Callable[[Any], tf.Tensor]:
  """Returns `S -> eps(t)`, a float64 scalar.

  Args:
    hyperparameters: See `build_reptile`.
  """

  def outer_step(state):
    eps = tf.convert_to_tensor(hyperparameters.outer_step, tf.float64)
    if hyperparameters.outer_final == 1:
      return eps
    done = tf.cast(state['round'], tf.float64) / hyperparameters.outer_rounds
    fall = (1 - hyperparameters.outer_final) * tf.minimum(done, 1.0)
    return eps * (1 - fall)

  return outer_step


@methods.register(
    'reptile', ReptileHyperparameters, revision=2,
    summary='FedAvg for a model that adapts fast (Nichol 2018)',
)
def _build(task, hyperparameters):
  return build_reptile(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
