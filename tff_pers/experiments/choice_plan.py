"""Plans the time of `choose`: seconds per search, number of final seeds."""

import heapq
import math
from typing import NamedTuple, Sequence

# Chosen values may train longer than defaults, and the last worker decides.
_SLACK = 1.2
# Largest share of the time left after the first runs for the final runs.
_FINAL_SHARE = 0.5


class Plan(NamedTuple):
  """What each method gets, equal for all.

  Attributes:
    seconds: Time of a method's search, after its run with defaults.
    num_seeds: Number of seeds of the final runs.
  """

  seconds: float
  num_seeds: int


def plan(
    first: Sequence[float], left: float, workers: int, most_seeds: int
) -> Plan:
  """Returns the plan for the remaining time.

  Args:
    first: Seconds that each method's run with defaults took; may be empty.
    left: Remaining seconds for all methods.
    workers: Number of parallel runs.
    most_seeds: Requested number of seeds. Each seed after the first is one more
      run of every method; they are reduced if the search would suffer.
  """
  one_more = _SLACK * makespan(first, workers)
  num_seeds = most_seeds
  while num_seeds > 1 and (num_seeds - 1) * one_more > _FINAL_SHARE * left:
    num_seeds -= 1
  if not first:
    return Plan(0.0, 1)
  search = max(left - (num_seeds - 1) * one_more, 0.0)
  return Plan(search / math.ceil(len(first) / workers), num_seeds)


def makespan(seconds: Sequence[float], workers: int) -> float:
  """Returns the time that parallel tasks take, the longest started first."""
  ends = [0.0] * workers
  for length in sorted(seconds, reverse=True):
    heapq.heapreplace(ends, ends[0] + length)
  return max(ends)
