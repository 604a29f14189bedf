"""Epsilon against the exact privacy of the Gaussian mechanism, and by hand."""

import math

import dp_accounting
from dp_accounting import rdp
import pytest
from scipy import optimize
from scipy import stats

from tff_pers.analysis import privacy


def _exact(noise, delta):
  """Returns epsilon of one Gaussian mechanism (Balle, Wang. ICML 2018, eq. 6)."""
  def excess(epsilon):
    first, second = 1 / (2 * noise), epsilon * noise
    return (
        stats.norm.cdf(first - second)
        - math.exp(epsilon) * stats.norm.cdf(-first - second) - delta
    )
  return optimize.brentq(excess, 0, 500)


@pytest.mark.parametrize('noise, rounds, delta', [
    (1.0, 1, 1e-2), (4.0, 60, 1e-3), (20.0, 500, 1e-5),
])
def test_with_all_clients_it_is_little_above_the_exact_one(
    noise, rounds, delta
):
  """R rounds are one with noise z / sqrt(R); Renyi's bound is above it.

  Replacing a client changes the sum by up to twice the norm.
  """
  found = privacy.Guarantee(2 * noise, 100, 100, delta).epsilon(rounds)
  exact = _exact(noise / math.sqrt(rounds), delta)
  assert exact < found < 1.2 * exact


def test_with_cohorts_it_is_for_a_client_that_is_replaced():
  found = privacy.Guarantee(2.0, 1000, 50, 1e-4)
  accountant = rdp.RdpAccountant(
      neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
  )
  for _ in range(3):
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(
        1000, 50, dp_accounting.GaussianDpEvent(1.0)
    ))
  assert found.epsilon(3) == pytest.approx(accountant.get_epsilon(1e-4))
  # Nobody knows who trains: less than the exact one of a round with everybody.
  assert found.epsilon(1) < 0.5 * _exact(1.0, 1e-4)


def test_nothing_is_spent_before_the_first_round():
  assert privacy.Guarantee(1.0, 10, 10, 0.1).epsilon(0) == 0
