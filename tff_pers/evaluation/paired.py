"""Differences of methods over clients: means, intervals, a paired test.

The unit is the client: its value is the mean over seeds, and intervals are over
clients (Student's t with N - 1 degrees of freedom). Clients of a federation
learn from each other, so they are not entirely independent.

The choice of test rows is random, too. If the rows were split K times and this
noise is to be included, the error of a mean over clients is that of a sum of
two independent ones,

    error^2 = s_c^2 / N + s_b^2 / K,

where s_c^2 is the variance over clients of the means over splits, and s_b^2 the
variance over splits of the means over clients (divided by N - 1 and by K - 1).
For a difference of two methods, both are variances of the difference on the
same clients in the same splits. The degrees of freedom stay N - 1, so that an
interval never becomes narrower.
"""

import math
from typing import Mapping, NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from tff_pers.evaluation import results
from tff_pers.evaluation import summary

CONFIDENCE = 0.95


class Values(dict[str, float]):
  """Values of a method by client, mean over seeds.

  Attributes:
    splits: Such values for each split of the rows separately; empty: the noise
      of splitting is not included.
  """

  def __init__(
      self, values: Mapping[str, float],
      splits: Sequence[Mapping[str, float]] = (),
  ):
    super().__init__(values)
    self.splits = splits


class Mean(NamedTuple):
  """A mean over clients and its 95 % interval.

  Attributes:
    mean: The mean; NaN without clients.
    low: Lower end; None for fewer than two clients.
    high: Upper end; None for fewer than two clients.
    error: Standard error; None for fewer than two clients.
    clients: Number of clients.
  """

  mean: float
  low: Optional[float]
  high: Optional[float]
  error: Optional[float]
  clients: int


class Difference(NamedTuple):
  """By how much one method is better than another on the same clients.

  Attributes:
    gain: Mean of the differences; > 0: the first is better, for accuracies and
      losses alike.
    p_value: p value of a paired t test; None for fewer than two clients.
    share_better: Share of clients for which the first is better.
    share_worse: Share of clients for which the first is worse.
  """

  gain: Mean
  p_value: Optional[float]
  share_better: float
  share_worse: float

  @property
  def is_noise(self) -> bool:
    """Whether the 95 % interval contains 0, or there is none."""
    low, high = self.gain.low, self.gain.high
    return low is None or high is None or low <= 0 <= high


def of_clients(
    runs: Sequence[results.Run], metric: str, *, validation: bool = False,
    by_split: bool = False,
) -> Values:
  """Returns each client's mean over seeds on test or validation data.

  Clients that never train, and those without examples, are left out. With
  `by_split`, each run has another split, whose noise is included.
  """
  splits = []
  if by_split and len(runs) > 1:
    splits = [of_clients([run], metric, validation=validation) for run in runs]
  found: dict[str, list[float]] = {}
  for run in runs:
    columns = run.validation if validation else run.final_clients
    assert columns is not None
    seen: np.ndarray = np.ones(len(columns['client']), np.bool_)
    if not validation:
      seen = columns['seen'] == 1
    for client, value in zip(columns['client'][seen], columns[metric][seen]):
      found.setdefault(str(client), []).append(value)
  # A client may have no test example in the split of some seed.
  means = {
      client: np.mean([v for v in values if not math.isnan(v)] or [math.nan])
      for client, values in found.items()
  }
  return Values(
      {c: float(mean) for c, mean in means.items() if not math.isnan(mean)},
      splits,
  )


def mean_of(values: Values) -> Mean:
  """Returns the mean over clients of a method's values, see `mean`."""
  return mean(
      list(values.values()), [list(split.values()) for split in values.splits]
  )


def mean(
    values: npt.ArrayLike, splits: Sequence[Sequence[float]] = ()
) -> Mean:
  """Returns the mean over clients of values, [N], with its interval.

  With values of the clients in each split, their noise is included.
  """
  values = np.asarray(values, np.float64)
  count = values.size
  if not count:
    return Mean(math.nan, None, None, None, 0)
  middle = float(values.mean())
  if count < 2:
    return Mean(middle, None, None, None, count)
  error = math.hypot(
      float(values.std(ddof=1) / math.sqrt(count)), _split_error(splits)
  )
  half = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))
  return Mean(middle, middle - half, middle + half, error, count)


def _split_error(splits: Sequence[Sequence[float]]) -> float:
  """Returns the error of a mean due to splits; 0 for fewer than two."""
  means = [float(np.mean(values)) for values in splits if len(values)]
  if len(means) < 2:
    return 0.0
  return float(np.std(means, ddof=1) / math.sqrt(len(means)))


def difference(first: Values, second: Values, metric: str) -> Difference:
  """Compares two methods on the clients for which both have values."""
  gains = _gains(first, second, metric)
  gain = mean(gains, [
      _gains(one, two, metric).tolist()
      for one, two in zip(first.splits, second.splits)
  ])
  p_value = None
  if gain.error is not None:
    # Without any difference, the test would divide 0 by 0.
    p_value = 0.0 if gain.mean else 1.0
    if gain.error:
      p_value = 2 * float(
          stats.t.sf(abs(gain.mean) / gain.error, gain.clients - 1)
      )
  return Difference(
      gain, p_value,
      *(float(np.mean(which)) if gain.clients else math.nan
        for which in (gains > 0, gains < 0)),
  )


def _gains(
    first: Mapping[str, float], second: Mapping[str, float], metric: str
) -> np.ndarray:
  """Returns by how much the first is better on common clients, [N]."""
  clients = [client for client in first if client in second]
  one = np.array([first[client] for client in clients])
  two = np.array([second[client] for client in clients])
  return one - two if summary.is_higher_better(metric) else two - one
