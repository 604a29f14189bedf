"""Recommends a method: by validation data, the simplest among equals.

Of the methods that are at most one standard error behind the best one on
validation data, the simplest is recommended (the one-standard-error rule of
Breiman et al., Classification and Regression Trees, 1984, section 3.4.3; here
the error is that of the paired difference over clients). The order of the
methods defines which is simpler. Test data are not used.
"""

import math
from typing import Mapping, NamedTuple, Optional

from tff_pers.evaluation import paired
from tff_pers.evaluation import summary


class Decision(NamedTuple):
  """The recommended method, and how certain that is.

  Attributes:
    algo: The recommended method.
    best: The best one on validation data.
    behind: By how much the best method is ahead of the recommended one; None if
      they are the same.
    runner_up: The best method other than the recommended one, or None.
    ahead: By how much the recommended method is ahead of the runner-up, which
      may be negative; None without runner-up.
  """

  algo: str
  best: str
  behind: Optional[paired.Difference]
  runner_up: Optional[str]
  ahead: Optional[paired.Difference]


def decide(
    validation: Mapping[str, paired.Values], metric: str
) -> Decision:
  """Returns the decision.

  `validation` has the values of every method that did not diverge on validation
  data by client, simple methods first.

  Raises:
    ValueError: If there is no method.
  """
  if not validation:
    raise ValueError('`validation` must have at least one method, found none.')
  order = ranked(validation, metric)
  best = order[0]
  algo = next(
      name for name in validation
      if name == best or _is_close(validation[best], validation[name], metric)
  )
  runner_up = next((name for name in order if name != algo), None)
  lead = lambda one, other: paired.difference(
      validation[one], validation[other], metric
  )
  return Decision(
      algo, best, lead(best, algo) if algo != best else None, runner_up,
      lead(algo, runner_up) if runner_up else None,
  )


def ranked(values: Mapping[str, paired.Values], metric: str) -> list[str]:
  """Returns the methods, best mean over clients first.

  Those without a mean come last.
  """
  sign = -1 if summary.is_higher_better(metric) else 1
  means = {name: paired.mean_of(own).mean for name, own in values.items()}
  return sorted(
      means, key=lambda name: (math.isnan(means[name]), sign * means[name])
  )


def _is_close(
    best: paired.Values, other: paired.Values, metric: str
) -> bool:
  """Whether a method is at most a standard error behind the best."""
  gain = paired.difference(best, other, metric).gain
  return gain.error is not None and gain.mean <= gain.error
