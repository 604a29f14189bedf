"""How far a run is: what a checkpoint holds beside the states."""

import collections
from typing import NamedTuple, Sequence


class Position(NamedTuple):
  """How far a run is.

  Attributes:
    round: Rounds done.
    seconds: Wall-clock seconds spent in them, evaluation left out.
    clients: Client participations so far.
    bytes_down: Bytes sent to clients so far.
    bytes_up: Bytes sent by clients so far.
    dropped: Pairs (index of a client, number of rounds in which it was dropped
      because its loss or update was not finite), sorted by index.
    finished: Whether all results are written.
  """

  round: int = 0
  seconds: float = 0.0
  clients: int = 0
  bytes_down: float = 0.0
  bytes_up: float = 0.0
  dropped: Sequence[tuple[int, int]] = ()
  finished: bool = False

  @property
  def num_dropped(self) -> int:
    """How often so far a client of a round was dropped."""
    return sum(rounds for _, rounds in self.dropped)

  def with_dropped(self, clients: Sequence[int]) -> 'Position':
    """Returns the position after `clients` were dropped once more."""
    counts = collections.Counter(dict(self.dropped))
    counts.update(clients)
    return self._replace(dropped=sorted(counts.items()))
