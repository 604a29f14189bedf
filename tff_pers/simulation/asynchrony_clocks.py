"""The virtual clock of a run, and its columns of `metrics.csv`.

Rounds and events use the same clock, so that methods of both kinds can be
compared: a round takes as long as its slowest client.
"""

from typing import Any

import numpy as np

from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_delays
from tff_pers.simulation import cohort as cohort_lib

_ROUNDS = 4  # First number of seed sequences; see `cohort` for the others.


class RoundClock:
  """The virtual clock of a run in rounds.

  Attributes:
    columns: Its columns.
  """

  columns = ('virtual_time',)

  def __init__(
      self, delays: asynchrony_delays.Delays, sampler: cohort_lib.Sampler,
      seed: int,
  ):
    """Initializes the clock.

    Args:
      delays: How long the visits of clients take.
      sampler: The cohorts of the rounds.
      seed: The run's seed.
    """
    self._delays, self._sampler, self._seed = delays, sampler, seed
    self._times = [0.0]  # After 0, 1, ... rounds.
    self._visits: dict[int, int] = {}

  def time_of(self, round_num: int) -> float:
    """Returns the clock after `round_num` rounds, in virtual seconds."""
    while len(self._times) <= round_num:
      self._times.append(self._times[-1] + self._duration(len(self._times) - 1))
    return self._times[round_num]

  def values(self, round_num: int, state: Any) -> dict[str, Any]:
    """Returns the columns of a row."""
    del state  # Time does not depend on it.
    return dict(virtual_time=self.time_of(round_num))

  def _duration(self, round_num: int) -> float:
    """Returns how long the slowest client of round 0, 1, ... takes."""
    generator = np.random.default_rng([_ROUNDS, self._seed, round_num])
    slowest = 0.0
    for client in self._sampler(self._seed, round_num).tolist():
      visit = self._visits.get(client, 0)
      self._visits[client] = visit + 1
      slowest = max(slowest, self._delays.draw(generator, client, visit))
    return slowest


class EventClock:
  """The virtual clock of a run by events.

  Attributes:
    columns: Its columns.
  """

  columns = (
      'virtual_time', 'version', 'staleness_mean', 'staleness_max', 'in_flight'
  )

  def __init__(self, schedule: asynchrony.Schedule):
    self._schedule, self._staleness = schedule, schedule.staleness

  def time_of(self, update: int) -> float:
    """Returns the clock after `update` server updates, in virtual seconds."""
    return self._schedule.time_of(update * self._schedule.messages_per_update)

  def values(self, update: int, state: Any) -> dict[str, Any]:
    """Returns the columns of a row; staleness is of all messages so far."""
    applied = update * self._schedule.messages_per_update
    staleness = self._staleness[:applied]
    return dict(
        virtual_time=self.time_of(update), version=version_of(state),
        staleness_mean=float(np.mean(staleness)) if applied else 0.0,
        staleness_max=int(np.max(staleness, initial=0)),
        in_flight=self._schedule.num_in_flight(applied),
    )


def version_of(state: Any) -> int:
  """Returns the number of server updates in a server state.

  Methods in which not every message is an update count updates in `version`.
  """
  return int(state['version'] if 'version' in state else state['round'])
