"""Hyperparameters of visits, which all that shuffles models has."""

import dataclasses
from typing import Union

from tff_pers.algorithms.perm import visit_schedule
from tff_pers.config import cadence as cadence_lib
from tff_pers.config import hyperparameters as hp


@dataclasses.dataclass(frozen=True)
class ShufflingHyperparameters(hp.LocalTraining):
  """Hyperparameters of the visits."""

  step_scale: str = hp.field(
      'clients',
      'Scale s_i of the step eta * s_i * alpha_i(c): clients (as many as model'
      ' i meets in an epoch, so that eta is that of FedAvg) or one.',
      choices=('clients', 'one'),
  )
  step_cap: Union[float, str] = hp.field(
      'auto',
      'About the largest s_i * alpha_i(c), in units of eta. Where it would be'
      ' exceeded a model visits c several times in an epoch with matchings, and'
      ' s_i <= cap / max_c alpha_i(c) with permutations; auto: 1 and 4; 0: no'
      ' cap.',
      minimum=0.0, auto=True, when='step_scale=clients',
  )
  schedule: str = hp.field(
      'matching',
      'Who hosts whom: matching (in an epoch a model meets the clients with'
      ' alpha_i(c) > 0, those of large weight several times; always used with'
      ' partial participation) or'
      ' permutation (it meets all N, where alpha_i(c) = 0 in vain:'
      ' Algorithm 1).',
      choices=('matching', 'permutation'),
  )

  def cadence(
      self, num_clients: int, cohort_size: int
  ) -> cadence_lib.Cadence:
    """Returns when models of different rounds compare: an epoch has N rounds.

    With permutations models are alike at its end only.

    Args:
      num_clients: N, those that train.
      cohort_size: How many of them take part in a round.
    """
    is_matched = visit_schedule.uses_matching(self, num_clients == cohort_size)
    return super().cadence(num_clients, cohort_size)._replace(
        cycle=num_clients, at_ends=not is_matched
    )

  def cap(self, *, matched: bool) -> float:
    """Returns `step_cap` of matchings or of permutations, 0: none.

    Args:
      matched: Whether rounds are matchings.
    """
    if not isinstance(self.step_cap, str):
      return self.step_cap
    return 1.0 if matched else 4.0
