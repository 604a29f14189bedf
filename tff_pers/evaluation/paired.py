"""Differences of methods over clients: means, intervals, a paired test.

The unit is the client: its value is the mean over seeds, and intervals are over
clients (Student's t with N - 1 degrees of freedom). Clients of a federation
learn from each other, so that they are not wholly independent.
"""

import math
from typing import Mapping, NamedTuple, Optional, Sequence
import warnings

import numpy as np
import numpy.typing as npt
from scipy import stats

from tff_pers.evaluation import results
from tff_pers.evaluation import summary

CONFIDENCE = 0.95

# What a method reaches, by client.
Values = Mapping[str, float]


class Mean(NamedTuple):
  """A mean over clients and its 95 % interval.

  Attributes:
    mean: NaN of no clients.
    low: None of fewer than two clients.
    high: Likewise.
    error: Its standard error, None likewise.
    clients: How many there are.
  """

  mean: float
  low: Optional[float]
  high: Optional[float]
  error: Optional[float]
  clients: int


class Difference(NamedTuple):
  """How much better one method is than another, at the same clients.

  Attributes:
    gain: Mean of the differences; > 0: the first is better, whether the metric
      is an accuracy or a loss.
    p_value: Of a paired t test (scipy.stats.ttest_rel), None of fewer than two
      clients.
    share_better: Share of clients at which the first is better.
    share_worse: Share of clients at which it is worse.
  """

  gain: Mean
  p_value: Optional[float]
  share_better: float
  share_worse: float

  @property
  def is_noise(self) -> bool:
    """Whether the 95 % interval has no sign; so it is if there is none."""
    low, high = self.gain.low, self.gain.high
    return low is None or high is None or low <= 0 <= high


def of_clients(
    runs: Sequence[results.Run], metric: str, *, validation: bool = False
) -> Values:
  """Returns the mean over seeds of what each client reaches.

  Clients that never train, and those without examples, are left out.

  Args:
    runs: Of one method, by different seeds.
    metric: `accuracy` or `loss`.
    validation: Whether on validation data, else on test data.
  """
  found: dict[str, list[float]] = {}
  for run in runs:
    columns = run.validation if validation else run.final_clients
    assert columns is not None
    seen: np.ndarray = np.ones(len(columns['client']), np.bool_)
    if not validation:
      seen = columns['seen'] == 1
    for client, value in zip(columns['client'][seen], columns[metric][seen]):
      found.setdefault(str(client), []).append(value)
  # A client may have no example in the part that one of the seeds draws.
  means = {
      client: np.mean([v for v in values if not math.isnan(v)] or [math.nan])
      for client, values in found.items()
  }
  return {c: float(mean) for c, mean in means.items() if not math.isnan(mean)}


def mean(values: npt.ArrayLike) -> Mean:
  """Returns the mean over clients with its interval."""
  values = np.asarray(values, np.float64)
  count = values.size
  if not count:
    return Mean(math.nan, None, None, None, 0)
  middle = float(values.mean())
  if count < 2:
    return Mean(middle, None, None, None, count)
  error = float(values.std(ddof=1) / math.sqrt(count))
  half = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))
  return Mean(middle, middle - half, middle + half, error, count)


def difference(first: Values, second: Values, metric: str) -> Difference:
  """Compares two methods at the clients that both have a value of."""
  clients = [client for client in first if client in second]
  one = np.array([first[client] for client in clients])
  two = np.array([second[client] for client in clients])
  gains = one - two if summary.is_higher_better(metric) else two - one
  p_value = None
  if len(clients) > 1:
    # Without any difference, the test divides 0 by 0.
    p_value = 1.0
    if np.any(gains):
      with np.errstate(divide='ignore'), warnings.catch_warnings():
        # Where all differences are equal, or nearly so.
        warnings.simplefilter('ignore', RuntimeWarning)
        p_value = float(stats.ttest_rel(one, two).pvalue)
  return Difference(
      mean(gains), p_value,
      *(float(np.mean(which)) if clients else math.nan
        for which in (gains > 0, gains < 0)),
  )
