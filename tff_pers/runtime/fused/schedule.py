"""Execution strategies for the clients of a stage."""

import dataclasses
from typing import Any, Callable, NamedTuple, Sequence

STRATEGIES = ('loop', 'vectorized', 'xla')


@dataclasses.dataclass(frozen=True)
class Schedule:
  """How a stage runs; it affects numbers by rounding at most.

  Attributes:
    strategy: `loop` (a loop in the graph whose iterations overlap),
      `vectorized` (the operations of all clients as one) or `xla` (the loop
      with every client compiled by XLA).
    clients_at_once: Maximum number of clients that run together; 0: as many as
      there are processors (`loop`, `xla`) or clients (`vectorized`).
  """

  strategy: str = 'loop'
  clients_at_once: int = 0


class Trace(NamedTuple):
  """A computation as one traced function.

  Attributes:
    schedules: The schedules of its stages.
    function: Takes the number of clients and the tensors of the argument.
    result: The meaning of the tensors it returns, see `results.skeleton`.
  """

  schedules: Sequence[Schedule]
  function: Callable[..., Any]
  result: Any


def loops(num_stages: int) -> list[Schedule]:
  """Returns the schedules that are always possible, one per stage."""
  return [Schedule('loop')] * num_stages


def text(schedules: Sequence[Schedule]) -> str:
  """Returns the schedules as text for messages."""
  return ', '.join(
      schedule.strategy + (
          f' ({schedule.clients_at_once} at once)'
          if schedule.clients_at_once else ''
      )
      for schedule in schedules
  )
