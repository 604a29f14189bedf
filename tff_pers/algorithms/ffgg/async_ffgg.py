"""Asynchronous FFGG: every gradient is applied as soon as it arrives.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. 2023. Algorithm 3, Theorem 7.
"""

import dataclasses
import math
from typing import Optional, Union

from tff_pers.algorithms.ffgg import ffgg
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.client_works import fine_tuners
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import least_squares
from tff_pers.data import task as task_lib
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters

_Rate = Union[float, str]


@dataclasses.dataclass(frozen=True)
class AsyncFFGGHyperparameters(ffgg_hp.FFGGHyperparameters):
  """Hyperparameters of asynchronous FFGG."""

  # The base has no auto; `step` makes a number of it.
  server_learning_rate: _Rate = hp.field(  # type: ignore[assignment]
      'auto',
      'Step size gamma_theta of the global weights, per message; auto: that of'
      ' the theory where the smoothness L of the clients is known, 1 / (2 L'
      ' sqrt(2 P tau_max)) with P clients at work and the largest delay'
      ' tau_max, else 1 / P.',
      above=0.0, auto=True, search=hp.Between(0.01, 3.0, log=True),
  )

  def __post_init__(self):
    super().__post_init__()
    if self.pretrain_rounds:
      raise ValueError(
          '`pretrain_rounds` must be 0 because a message of the first stage may'
          f' arrive in the second, found {self.pretrain_rounds}.'
      )

  def step(
      self, arrivals: Optional[task_lib.Arrivals], smoothness: Optional[float]
  ) -> float:
    """Returns gamma_theta (Theorem 7).

    Args:
      arrivals: What is known of the messages; None: rounds, which are one
        message without delay.
      smoothness: L, or None: unknown.
    """
    if not isinstance(self.server_learning_rate, str):
      return self.server_learning_rate
    in_flight, max_delay = arrivals or (1, 1)
    if smoothness is None:
      return 1.0 / in_flight
    return 1.0 / (2.0 * smoothness * math.sqrt(2.0 * in_flight * max_delay))


@builders.checked
def build_async_ffgg(
    parts: partition.Partition,
    hyperparameters: AsyncFFGGHyperparameters = AsyncFFGGHyperparameters(),
    *,
    arrivals: Optional[task_lib.Arrivals] = None,
    smoothness: Optional[float] = None,
    tuner: Optional[fine_tuners.FineTuner] = None,
) -> process.PersonalizedProcess:
  """Builds asynchronous FFGG (Algorithm 3).

    client m, sent theta^v: w     <- approximate argmin_w f_m(theta^v, w)
                            Delta <- grad_theta f_m(theta^v, w), w constant
    server, on each message: theta^{r+1} <- theta^r - gamma_theta Delta

  Nothing is averaged, and stale messages count like fresh ones: at a theta*
  that suits all clients every Delta is 0, so that a delay costs time and leaves
  no error. A round of `next` is one of FFGG, with the mean over its cohort and
  staleness 0.

  Args:
    parts: The model and its split.
    hyperparameters: See there; `split` is `parts` already.
    arrivals: See `AsyncFFGGHyperparameters.step`.
    smoothness: L of the operators F_m, or None: unknown.
    tuner: Replaces the fine-tuner of the hyperparameters.

  Returns:
    See `ffgg.build_ffgg`. An event-driven program runs its `parts` one message
    at a time; that is the algorithm of the paper.

  Raises:
    TypeError: If `parts` or `hyperparameters` is of another kind.
    ValueError: See `ffgg.build_ffgg`.
  """
  values = hp.as_dict(hyperparameters)
  values['server_learning_rate'] = hyperparameters.step(arrivals, smoothness)
  return ffgg.build_ffgg(
      parts, ffgg_hp.FFGGHyperparameters(**values), client_weighting='uniform',
      tuner=tuner,
  )


def known_smoothness(
    task: task_lib.Task, parts: partition.Partition
) -> Optional[float]:
  """Returns L = max_m lambda_max(G_m) over honest clients, None if unknown.

  It is known of least squares with a private w (section 5.1).
  """
  is_known = task.model.name == 'least_squares'
  if not is_known or list(parts.is_private) != [False, True]:
    return None
  (theta_dim,), _ = (weight.shape for weight in task.model.layers or ())
  return least_squares.smoothness(
      [task.train[client]['examples'] for client in task.honest], theta_dim
  )


@methods.register(
    'async_ffgg', AsyncFFGGHyperparameters, driver='events',
    weighs_clients=False,
    needs=split_hyperparameters.NEEDS,
    summary='FFGG whose gradients are applied one by one as they arrive',
)
def _build(task, hyperparameters):
  parts = hyperparameters.partition(task.model)
  return build_async_ffgg(
      parts, hyperparameters, arrivals=task.arrivals,
      smoothness=known_smoothness(task, parts),
  )
