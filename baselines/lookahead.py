"""Lookahead: slow weights that follow fast ones part of the way.

Lookahead Optimizer: k Steps Forward, 1 Step Back
    Zhang, Lucas, Hinton, Ba. NeurIPS 2019.
"""

import dataclasses

from tff_pers.algorithms.local_update import local_update as family
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class LookaheadHyperparameters(hp.AveragedTraining):
  """Hyperparameters of Lookahead."""

  slow_step: float = hp.field(
      0.5, 'Step a of the slow weights; 1 moves all the way.', above=0.0,
      search=hp.Between(0.2, 1.0),
  )


@builders.checked
def build_lookahead(
    model: functional.FunctionalModel,
    hyperparameters: LookaheadHyperparameters = LookaheadHyperparameters(),
) -> process.PersonalizedProcess:
  """Builds Lookahead.

    client i: u <- w;  K times: u <- u - gamma g_i(u; b)
    server  : w <- w - a * mean_i (w - u_i)

  It is Theta_1:K of the local update methods with eta = a gamma. The method of
  that name has a single client; with more, w follows the mean of the fast
  weights. Clients weigh alike.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `LookaheadHyperparameters`.
  """
  return family.compose_averaging(
      model, hyperparameters, outer=hyperparameters.slow_step
  )


@methods.register(
    'lookahead', LookaheadHyperparameters, weighs_clients=False,
    summary='slow weights that follow the fast ones of clients (Zhang 2019)',
)
def _build(task, hyperparameters):
  return build_lookahead(task.model, hyperparameters)
