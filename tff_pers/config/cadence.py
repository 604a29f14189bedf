"""When the models of a method can be compared with those of earlier rounds."""

from typing import NamedTuple


class Cadence(NamedTuple):
  """The rhythm of a method.

  Attributes:
    first: The models of the first so many rounds are not those that the method
      ends with (one model for all, or a step size that still falls).
    cycle: Rounds in which every client, or every model, has its turn.
    at_ends: Whether models are alike only at ends of cycles, counted from
      `first`: in between some of them were trained more than others.
  """

  first: int = 0
  cycle: int = 1
  at_ends: bool = False

  def compares(self, round_num: int) -> bool:
    """Whether the models after round `round_num` (from 1) are compared."""
    since = round_num - self.first
    return since > 0 and not (self.at_ends and since % self.cycle)

  def after(self, rounds: int) -> 'Cadence':
    """Returns the cadence of a method with so many more rounds to wait."""
    return self._replace(first=max(self.first, rounds))
