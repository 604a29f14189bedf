"""How `choose` spends its time: seconds of a search, seeds of final runs."""

import heapq
import math
from typing import NamedTuple, Sequence

# Chosen values may train longer than defaults, and workers wait for the last.
_SLACK = 1.2
# The final runs get at most this share of what is left after the first runs.
_FINAL_SHARE = 0.5


class Plan(NamedTuple):
  """What the methods get, all the same.

  Attributes:
    seconds: Of the search of a method, after the run of its defaults.
    num_seeds: Of the final runs.
  """

  seconds: float
  num_seeds: int


def plan(
    first: Sequence[float], left: float, workers: int, most_seeds: int
) -> Plan:
  """Returns the plan for the time that is left.

  Args:
    first: Seconds that each method's defaults took; none: no method is left.
    left: Seconds that are left for all.
    workers: How many runs are trained at a time.
    most_seeds: How many seeds were asked for. Each but the first is a run more
      of every method; there are fewer of them if the search would suffer.
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
  """Returns how long tasks take side by side, the longest begun first."""
  ends = [0.0] * workers
  for length in sorted(seconds, reverse=True):
    heapq.heapreplace(ends, ends[0] + length)
  return max(ends)
