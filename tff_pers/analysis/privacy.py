"""Differential privacy: epsilon of a run, by dp-accounting."""

import dataclasses
import functools

import dp_accounting
from dp_accounting import rdp


@dataclasses.dataclass(frozen=True)
class Guarantee:
  """Client-level (epsilon, delta) differential privacy of released means.

  It concerns replacing one client by another, which changes a sum of clipped
  updates by at most twice the clipping norm. Cohorts are drawn without
  replacement, as programs draw them; if there are cohorts, the participants of
  a round must be secret.

  Attributes:
    noise_multiplier: z, the standard deviation of the noise divided by the
      clipping norm, > 0.
    num_clients: N.
    cohort_size: m, number of clients of a round.
    delta: In (0, 1).
  """

  noise_multiplier: float
  num_clients: int
  cohort_size: int
  delta: float

  @functools.lru_cache(maxsize=None)
  def epsilon(self, rounds: int) -> float:
    """Returns epsilon after `rounds` rounds, by Renyi differential privacy.

    Sampling without replacement: Wang, Balle, Kasiviswanathan. Subsampled Renyi
    Differential Privacy and Analytical Moments Accountant. AISTATS 2019,
    Theorem 27 of the long version.
    """
    if not rounds:
      return 0.0
    accountant = rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        self.num_clients, self.cohort_size,
        dp_accounting.GaussianDpEvent(self.noise_multiplier / 2),
    )
    accountant.compose(event, rounds)
    return float(accountant.get_epsilon(self.delta))
