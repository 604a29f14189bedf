"""Progress of a run, which a checkpoint holds besides the states."""

import collections
import math
from typing import Any, Mapping, NamedTuple, Sequence


class Position(NamedTuple):
  """The progress of a run.

  Attributes:
    round: Number of rounds done.
    seconds: Wall-clock seconds of these rounds, without evaluation.
    clients: Client participations so far.
    bytes_down: Bytes sent to clients so far.
    bytes_up: Bytes sent by clients so far.
    dropped: Pairs (index of a client, number of rounds in which it was dropped
      because its loss or update was not finite), sorted by index.
    finished: Whether all results have been written.
    virtual_time: The virtual clock in seconds, 0 without one.
    lost_in_a_row: In a run by events, the number of messages dropped since the
      last one that was not.
  """

  round: int = 0
  seconds: float = 0.0
  clients: int = 0
  bytes_down: float = 0.0
  bytes_up: float = 0.0
  dropped: Sequence[tuple[int, int]] = ()
  finished: bool = False
  virtual_time: float = 0.0
  lost_in_a_row: int = 0

  @property
  def num_dropped(self) -> int:
    """How often a client of a round has been dropped so far."""
    return sum(rounds for _, rounds in self.dropped)

  def with_dropped(self, clients: Sequence[int]) -> 'Position':
    """Returns the position after `clients` were dropped once more."""
    counts = collections.Counter(dict(self.dropped))
    counts.update(clients)
    return self._replace(dropped=sorted(counts.items()))


def read(saved: Mapping[str, Any]) -> Position:
  """Returns the position that `_asdict` saved as JSON.

  Raises:
    ValueError: If it is not a valid position.
  """
  position = Position(**{
      name: saved.get(name, value)
      for name, value in Position()._asdict().items()
  })
  counts = [position.round, position.clients, position.lost_in_a_row]
  sums = [
      position.seconds, position.bytes_down, position.bytes_up,
      position.virtual_time,
  ]
  pairs = position.dropped
  if not (
      set(saved) <= set(Position._fields)
      and all(_is_number(n, int) for n in counts)
      and all(_is_number(n, (int, float)) for n in sums)
      and isinstance(position.finished, bool)
      and isinstance(pairs, (list, tuple))
      and all(len(pair) == 2 and all(_is_number(n, int) for n in pair)
              for pair in pairs)
  ):
    raise ValueError(f'the position is {dict(saved)}')
  return position


def _is_number(value, kinds) -> bool:
  """Whether `value` is a finite number >= 0 of one of the types."""
  return (
      isinstance(value, kinds) and not isinstance(value, bool)
      and math.isfinite(value) and value >= 0
  )
