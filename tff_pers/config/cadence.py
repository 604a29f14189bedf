"""Says when a method's models can be compared with those of earlier rounds."""

from typing import NamedTuple


class Cadence(NamedTuple):
  """The rounds after which a method's models are comparable.

  Attributes:
    first: Number of first rounds whose models are not of the final kind (one
      model for all, or a step size that still decreases).
    cycle: Rounds in which every client, or every model, is trained once.
    at_ends: Whether models are comparable only at the ends of cycles, counted
      from `first`: in between, some have been trained more often than others.
  """

  first: int = 0
  cycle: int = 1
  at_ends: bool = False

  def compares(self, round_num: int) -> bool:
    """Whether the models after round `round_num` (from 1) are comparable."""
    since = round_num - self.first
    return since > 0 and not (self.at_ends and since % self.cycle)

  def after(self, rounds: int) -> 'Cadence':
    """Returns this cadence with at least this many first rounds."""
    return self._replace(first=max(self.first, rounds))
