"""The search space of a method: what a tuner may change, and in which range.

Every hyperparameter that declares a range (`hp.field(search=...)`) is a
dimension, unless the caller fixes it or it has no effect. Any sample of the
space is a valid set of the method's hyperparameters.
"""

import dataclasses
import math
from typing import Any, Callable, Iterable, Mapping, Optional, Union

from tff_pers.config import conditions
from tff_pers.config import hyperparameters as hp

# Significant digits of sampled numbers; more would make no difference.
_DIGITS = 3
# Share of a range, on its scale, that counts as near its end.
_NEAR = 0.1


@dataclasses.dataclass(frozen=True)
class Interval:
  """Numbers from `low` to `high`, both included.

  Attributes:
    low: The smallest.
    high: The largest.
    log: Whether they are spaced evenly on a logarithmic scale.
    is_int: Whether they are integers.
  """

  low: float
  high: float
  log: bool
  is_int: bool

  def __contains__(self, value) -> bool:
    # A text, e.g. `auto`, is in no interval.
    return not isinstance(value, str) and self.low <= value <= self.high

  def ends_near(self, value: Any) -> bool:
    """Returns whether a number of the interval is near one of its ends."""
    low, high, own = self.low, self.high, value
    if self.log:
      low, high, own = math.log(low), math.log(high), math.log(own)
    margin = _NEAR * (high - low)
    return margin > 0 and not low + margin < own < high - margin

  def rounded(self, value: Any) -> Any:
    """Returns the number as it is used: an integer, or few digits."""
    return int(value) if self.is_int else _round(value)


@dataclasses.dataclass(frozen=True)
class Choice:
  """One of `values`."""

  values: tuple[Any, ...]

  def __contains__(self, value) -> bool:
    return value in self.values

  def rounded(self, value: Any) -> Any:
    """Returns the value itself."""
    return value


Dimension = Union[Interval, Choice]
# Returns a value of a dimension, given its name.
Draw = Callable[[str, Dimension], Any]


@dataclasses.dataclass(frozen=True)
class Space:
  """The space around the defaults of a method.

  Attributes:
    kind: The dataclass of the hyperparameters.
    base: The defaults on the task, by flag name.
    dimensions: By flag name, first those that do not depend on others.
    acting_base: The base values of the dimensions that act given the base. One
      that stands for that of another hyperparameter, such as 0 for the learning
      rate, is given as the value that it stands for.
  """

  kind: type[Any]
  base: Mapping[str, Any]
  dimensions: Mapping[str, Dimension]
  acting_base: Mapping[str, Any]

  @property
  def defaults(self) -> dict[str, Any]:
    """The acting base without values outside their dimension."""
    return {
        name: value for name, value in self.acting_base.items()
        if value in self.dimensions[name]
    }

  def near_ends(self, values: Mapping[str, Any]) -> list[str]:
    """Returns which hyperparameters are near an end of their range.

    Values are by flag name; the defaults may be outside of their ranges.
    """
    return [
        name for name, value in values.items()
        for dimension in [self.dimensions[name]]
        if isinstance(dimension, Interval) and value in dimension
        and dimension.ends_near(value)
    ]

  def sample(self, draw: Draw) -> dict[str, Any]:
    """Returns the drawn hyperparameters that act, by flag name.

    `draw` is called with one dimension after another. Whether a hyperparameter
    acts may depend on those drawn before; if not, it is not drawn.
    """
    specs = hp.specs(self.kind)
    drawn: dict[str, Any] = {}
    for name, dimension in self.dimensions.items():
      if hp.acts(specs[name], {**self.base, **drawn}):
        drawn[name] = dimension.rounded(draw(name, dimension))
    return drawn


def of(hyperparameters: Any, fixed: Iterable[str] = ()) -> Space:
  """Returns the search space around the hyperparameters of a method on a task.

  Those that the user has set, by flag name, are fixed: they are not searched,
  and neither are those that decide whether these act.
  """
  specs = hp.specs(hyperparameters)
  kept = set(fixed)
  for name in fixed:
    kept.update(conditions.names(specs[name].metadata['when']))
  base = hp.as_dict(hyperparameters)
  dimensions = {
      name: _dimension(spec, base) for name, spec in specs.items()
      if name not in kept
  }
  found = {name: x for name, x in dimensions.items() if x is not None}
  depends = {
      name: found.keys() & set(conditions.names(specs[name].metadata['when']))
      for name in found
  }
  # If no other dimension can make it act, it must act already.
  names = [n for n in found if depends[n] or hp.acts(specs[n], base)]
  names.sort(key=lambda name: bool(depends[name]))
  return Space(
      type(hyperparameters), base, {name: found[name] for name in names},
      {
          name: _meaning(specs[name], base) for name in names
          if hp.acts(specs[name], base)
      },
  )


def as_options(drawn: Mapping[str, Any]) -> dict[str, str]:
  """Returns drawn hyperparameters as texts for brackets and flags."""
  return {name: conditions.as_text(value) for name, value in drawn.items()}


def _dimension(
    spec: dataclasses.Field, base: Mapping[str, Any]
) -> Optional[Dimension]:
  """Returns where a hyperparameter is searched, or None if it is not."""
  declared = spec.metadata['search']
  if declared is None:
    return None
  if isinstance(declared, hp.Among):
    return Choice(declared.values)
  is_int = isinstance(spec.default, int)
  if isinstance(declared, hp.Between):
    return Interval(declared.low, declared.high, declared.log, is_int)
  middle = _meaning(spec, base)
  if not middle:
    return None
  low, high = middle / declared.factor, middle * declared.factor
  bounds = spec.metadata
  away = lambda end: end + (middle - end) / declared.factor  # Excluded ends.
  if bounds['minimum'] is not None:
    low = max(low, bounds['minimum'])
  if bounds['above'] is not None:
    low = max(low, away(bounds['above']))
  if bounds['maximum'] is not None:
    high = min(high, bounds['maximum'])
  if bounds['below'] is not None:
    high = min(high, away(bounds['below']))
  if is_int:
    return Interval(max(1, math.ceil(low)), math.floor(high), True, True)
  return Interval(_round(low), _round(high), True, False)


def _meaning(spec: dataclasses.Field, base: Mapping[str, Any]):
  """Returns the base value, or that of the hyperparameter it refers to."""
  value = base[hp.flag_name(spec.name)]
  declared = spec.metadata['search']
  if isinstance(declared, hp.Around) and declared.of and value in (
      0, 'auto'
  ):
    return base[declared.of]
  return value


def _round(value: float) -> float:
  return float(f'{value:.{_DIGITS}g}')
