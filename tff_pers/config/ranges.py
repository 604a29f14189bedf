"""Where a hyperparameter is searched: what a field says of itself.

    learning_rate: float = hp.field(0.1, '...', search=ranges.Around(20))
    num_models: int = hp.field(0, '...', search=ranges.Between(2, 5))
    adaptive: bool = hp.field(True, '...', search=ranges.Among((True, False)))

`search_spaces` makes the space of a method of them. Only what matters most is
searched, so that ten trials are enough.
"""

from typing import Any, NamedTuple, Union


class Around(NamedTuple):
  """From the default on the task, divided by a factor, to its multiple.

  Logarithmic, for rates and amounts of work, whose scale the task knows.

  Attributes:
    factor: The factor, > 1.
    of: The hyperparameter that a default of 0 or auto stands for; empty: with a
      default of 0 there is nothing to search.
  """

  factor: float
  of: str = ''


class Between(NamedTuple):
  """From `low` to `high`, both included, whatever the default is."""

  low: float
  high: float
  log: bool = False


class Among(NamedTuple):
  """One of several values."""

  values: tuple[Any, ...]


Range = Union[Around, Between, Among]
