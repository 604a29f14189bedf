"""Hyperparameters of PERM."""

import dataclasses
import math
from typing import Union

from absl import logging

from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.config import cadence as cadence_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.data import task as task_lib

# Candidates of kappa. Groups of many clients need a large one; for few clients
# it would mix all of them, as infinity does.
_KAPPAS = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_FEW_CLIENTS = 30
# `perm[recipe=paper]`: Algorithm 2 as published, which leaves lambda open.
PAPER = dict(
    schedule='permutation', step_scale='one', warmup='gradient',
    solver='projected_gradient', lambda_scale=10.0, own_rounds=0,
    client_weighting='uniform',  # Of the task; recipes may set it, too.
)
_INFINITY = 1e6  # Mixing weights proportional to sizes.


def kappas(num_clients: int) -> tuple[float, ...]:
  """Returns the candidates of `lambda_scale=auto`, ascending."""
  largest = max(_FEW_CLIENTS, num_clients)
  return (*(kappa for kappa in _KAPPAS if kappa <= largest), _INFINITY)


@dataclasses.dataclass(frozen=True)
class PermHyperparameters(
    perm_devices.ArchitectureHyperparameters,
    visit_schedule.ShufflingHyperparameters,
):
  """Hyperparameters of PERM."""

  variant: str = hp.field(
      'single_loop',
      'single_loop (Algorithm 2: w, mixing weights and visits in every round)'
      ' or two_stage (Algorithm 3, then Algorithm 1).',
      choices=('single_loop', 'two_stage'),
  )
  global_learning_rate: float = hp.field(
      0.0,
      'gamma: step size of w per round (single_loop), or of its local SGD'
      ' (two_stage); 0: learning_rate.',
      minimum=0.0,
  )
  warmup_rounds: int = hp.field(
      10,
      'T_w: number of warm-up rounds, which train only w; programs use N / m'
      ' times as many with m of N clients per round, at most a quarter of all.',
      minimum=0, when='variant=single_loop', search=hp.Around(2),
  )
  warmup: str = hp.field(
      'fedavg',
      'Update of w during warm-up: fedavg (local steps of learning_rate, for'
      ' comparisons at a better w) or gradient (one step, Algorithm 2).',
      choices=('fedavg', 'gradient'), when='variant=single_loop',
  )
  stage1_rounds: int = hp.field(
      50, 'R: rounds of FedAvg for w before the visits.', minimum=0,
      when='variant=two_stage', search=hp.Around(2),
  )
  lambda_: Union[float, str] = hp.field(
      'auto',
      'lambda of Eq. (2), in squared gradient norm times examples; auto:'
      ' kappa (lambda_scale) times the mean gradient variance.',
      above=0.0, auto=True,
  )
  lambda_scale: Union[float, str] = hp.field(
      'auto',
      'kappa; limits the self weight of IID clients to about 1 / kappa; auto:'
      ' chosen before the first visit on examples that clients hold out.',
      above=0.0, auto=True, when='lambda=auto',
  )
  solver: str = hp.field(
      'water_filling',
      'Solver of Eq. (2): water_filling (exact) or projected_gradient.',
      choices=('water_filling', 'projected_gradient'),
  )
  solver_steps: int = hp.field(
      10, 'T_alpha: steps per update.', minimum=1,
      when='solver=projected_gradient',
  )
  alpha_update: str = hp.field(
      'round',
      'When w and the mixing weights are updated: every round or epoch of N'
      ' rounds.',
      choices=('round', 'epoch'), when='variant=single_loop',
  )
  freeze_after: int = hp.field(
      0, 'Rounds after which the mixing weights (not w) are fixed; 0: never.',
      minimum=0,
  )
  gradient_batch: int = hp.field(
      0, 'M: examples for the gradient of w; 0: all local examples.', minimum=0
  )
  debias: str = hp.field(
      'none',
      'variance subtracts v_i / n_i + v_j / n_j from the distances.',
      choices=('none', 'variance'), when='models=0 and tiers=none',
  )
  models: int = hp.field(
      0,
      'C: models at the server, one for each cluster of clients with similar'
      ' gradients; 0: one for each client.',
      minimum=0, when='tiers=none',
  )
  sketch: int = hp.field(
      0,
      'Dimension of a random projection of the gradients from which distances'
      ' are computed; 0: the gradients themselves.',
      minimum=0, when='tiers=none',
  )
  init: str = hp.field(
      'global',
      'Initial personalized models: the global model or the initial'
      ' weights.',
      choices=('global', 'initial'),
  )
  one_trip: bool = hp.field(
      False,
      'Whether gradients and visits share one round trip, so that visits use'
      ' the mixing weights of the previous round.',
      when='variant=single_loop and alpha_update=round and warmup_rounds!=0',
  )
  row_nonzeros: int = hp.field(
      0,
      'Number of largest mixing weights kept per client; 0: all, or 100 if'
      ' there are more than 1000 clients.',
      minimum=0, when='models=0 and solver=water_filling',
  )
  own_rounds: int = hp.field(
      1,
      'Rounds of steps that a client takes on its own examples from its model'
      ' before it deploys it; the server keeps the model unchanged. 0: none, as'
      ' in the paper.',
      minimum=0,
  )
  adapt_epochs: int = hp.field(
      hp.NewClients.adapt_epochs,
      'Local epochs that a client that never trains takes from its mixture of'
      ' the models before it is evaluated.',
      minimum=0,
  )

  def __post_init__(self):
    super().__post_init__()
    if self.gradient_batch == 1 and self.lambda_ == 'auto':
      raise ValueError(
          '`gradient_batch` must be 0 or >= 2 with lambda=auto because one'
          ' example has no variance, found 1.'
      )
    if 0 < self.freeze_after <= self.first_mixing_update:
      raise ValueError(
          '`freeze_after` must be 0 or > the first round that solves for mixing'
          f' weights, {self.first_mixing_update}, found {self.freeze_after}.'
      )

  @property
  def gamma(self) -> float:
    """gamma, the step size of the global model w."""
    return self.global_learning_rate or self.learning_rate

  @property
  def warmup_rate(self) -> float:
    """The step size of FedAvg for w before the visits."""
    return self.gamma if self.variant == 'two_stage' else self.learning_rate

  def for_cohorts(self, task: task_lib.Task) -> 'PermHyperparameters':
    """Returns hyperparameters with a warm-up suited to the task's cohorts.

    A model is visited in m of N rounds, but w is trained in all: w is worth
    training until clients took part `warmup_rounds` times each, but for at most
    a quarter of the rounds. Warns if no round is left for visits.

    Args:
      task: The `Task`, for N, m and the number of rounds.
    """
    fitted, n, m = self, 1, 1  # As with N = m: rounds are as given.
    if self.variant == 'single_loop':
      if not task.full_participation:
        n, m = task.num_clients, task.clients_per_round
      wanted = self._warmup_of_cohorts(n, m)
      warmup = min(wanted, math.ceil(task.rounds / 4))
      if warmup != self.warmup_rounds:
        fitted = hp.replace(self, warmup_rounds=warmup)
      # The default is limited silently: nobody asked for it.
      if warmup < wanted and self.warmup_rounds != type(self).warmup_rounds:
        logging.warning(
            'PERM warms up for %d rounds, a quarter of the %d, instead of %d.',
            warmup, task.rounds, wanted,
        )
    if fitted.first_visit >= task.rounds:
      name = 'stage1' if self.variant == 'two_stage' else 'warmup'
      logging.warning(
          'PERM trains one model for all in %d of the %d rounds: no client'
          ' visits another. Tip: more rounds, or %s_rounds of at most %d.',
          task.rounds, task.rounds, name, (task.rounds - 1) * m // n,
      )
    return fitted

  def num_visits(self, task: task_lib.Task) -> float:
    """Returns the number of visits of a model in a run, (R - T_w) m / N.

    Args:
      task: The `Task`, for R, m and N.
    """
    cohort_size = task.clients_per_round or task.num_clients
    # With C < m models, each is visited in every round: at most once a round.
    models = max(self.models or task.num_clients, cohort_size)
    return (task.rounds - self.first_visit) * cohort_size / models

  def _warmup_of_cohorts(self, num_clients: int, cohort_size: int) -> int:
    return math.ceil(self.warmup_rounds * num_clients / cohort_size)

  def cadence(
      self, num_clients: int, cohort_size: int
  ) -> cadence_lib.Cadence:
    # Called before `for_cohorts`, while the number of rounds is open.
    first = self.first_visit
    if self.variant == 'single_loop':
      first = self._warmup_of_cohorts(num_clients, cohort_size)
    return super().cadence(num_clients, cohort_size).after(first)

  @property
  def chooses_kappa(self) -> bool:
    """Whether kappa is chosen from data, see `perm_lambda`."""
    return self.lambda_ == 'auto' and self.lambda_scale == 'auto'

  @property
  def first_visit(self) -> int:
    """The first round with visits."""
    if self.variant == 'two_stage':
      return self.stage1_rounds
    return self.warmup_rounds

  @property
  def first_mixing_update(self) -> int:
    """The first round that solves for mixing weights."""
    return self.first_visit - int(self.one_trip)

  def check(self, num_clients: int, full_participation: bool) -> None:
    """Checks them against the clients; see `perm.build_perm`.

    Args:
      num_clients: N.
      full_participation: Whether every round has all clients.

    Raises:
      ValueError: If they do not fit the clients.
    """
    updates_once = full_participation and self.variant == 'two_stage'
    if updates_once and self.freeze_after:
      raise ValueError(
          '`freeze_after` must be 0 with variant=two_stage and full'
          ' participation because the mixing weights are updated once, found'
          f' {self.freeze_after}.'
      )
    with_matching = self.uses_matching(full_participation)
    by_epoch = self.alpha_update == 'epoch'
    if with_matching and by_epoch and self.variant == 'single_loop':
      raise ValueError(
          '`alpha_update` must be round with matchings (partial participation'
          ' or schedule=matching) because they have no common epoch, found'
          ' epoch. Tip: schedule=permutation, and all clients in every round.'
      )
    for name in ('row_nonzeros', 'models'):
      if getattr(self, name) > num_clients:
        raise ValueError(
            f'`{name}` must be <= {num_clients}, the number of clients, found'
            f' {getattr(self, name)}.'
        )
