"""Extends grids whose best value is at an end."""

import dataclasses
import math
from typing import Callable, Iterator, Mapping, NamedTuple, Optional

from tff_pers.config import conditions
from tff_pers.config import hyperparameters as hp
from tff_pers.evaluation import grids as grids_lib
from tff_pers.evaluation import summary
from tff_pers.evaluation import tuning

# Digits of new values.
_DIGITS = 3


def more_trials(
    grids: Mapping[str, grids_lib.Grid], choices: Mapping[str, tuning.Choice],
    specs: Mapping[str, Mapping[str, dataclasses.Field]],
    can_run: Callable[[str, str], bool],
) -> dict[str, str]:
  """Returns one more value to try for every variant, none if no grid grows.

  A grid grows if its best value is at an end: by the value beyond it, in the
  ratio of the two outermost ones. Among several hyperparameters, one grows at
  whose end the best value is, with all others as in the best; if there are
  several, the one that has gained the fewest values, then the first. If all
  values diverged, the grid grows below its smallest. A hyperparameter with a
  single value, or with a value that is not a number, does not grow.

  Because more trials are an advantage, all other variants get one more, too:
  between the best value and the better of its neighbours (among several
  hyperparameters, the one that has gained the fewest values), or the other
  neighbour, or beyond an end at which the best value is not. If one of them has
  nothing left to try, no grid grows.

  The result depends only on what was tried, so a resumed program continues the
  same way.

  Args:
    grids: Initial grids by variant.
    choices: Choices by variant, from all values that were tried.
    specs: The hyperparameters of each variant's method by name; others do not
      grow.
    can_run: Whether a variant accepts a value that is in range, which may
      depend on others.
  """
  def first(variant, candidates):
    values = candidates(grids[variant], choices[variant], specs[variant])
    return next((v for v in values if v and can_run(variant, v)), None)

  more = {variant: first(variant, _beyond_best) for variant in choices}
  if not any(more.values()):
    return {}
  more = {v: value or first(v, _elsewhere) for v, value in more.items()}
  return more if all(more.values()) else {}


def beyond(
    spec: dataclasses.Field, end: float, inner: float
) -> Optional[str]:
  """Returns the value beyond the end of a grid, in the grid's own ratio.

  That is the ratio of the end and the value next to it, `inner`. None at 0,
  which a ratio neither leaves nor reaches, and at the bounds of the
  hyperparameter.
  """
  if end * inner <= 0:
    return None
  text = _as_text(spec, end * (end / inner))
  new = float(text)
  if new * end <= 0 or (new - end) * (end - inner) <= 0:
    return None  # An integer that was rounded.
  return text if _is_allowed(spec, text) else None


def between(
    spec: dataclasses.Field, one: float, other: float
) -> Optional[str]:
  """Returns the geometric mean of two values; beside or across 0, the mean.

  None if there is nothing in between, as for the integers 1 and 2.
  """
  middle = (one + other) / 2
  if one * other > 0:
    middle = math.copysign(math.sqrt(one * other), one)
  text = _as_text(spec, middle)
  is_new = min(one, other) < float(text) < max(one, other)
  return text if is_new and _is_allowed(spec, text) else None


class _Axis(NamedTuple):
  """A hyperparameter along which a grid may grow.

  Attributes:
    column: Its position in the grid.
    spec: Its field.
    tried: The numbers that were tried, ascending.
    gained: How many of them were not in the initial grid.
  """

  column: int
  spec: dataclasses.Field
  tried: list[float]
  gained: int

  def ends(self) -> list[list[float]]:
    """Returns the two outermost numbers of either end, outermost first."""
    return [self.tried[:2], self.tried[:-3:-1]]

  def of(self, value: str) -> float:
    """Returns the number in a value of the grid."""
    return float(value.split(';')[self.column])

  def put(self, number: Optional[str], value: str) -> Optional[str]:
    """Returns the grid's value with this number, or None without one."""
    if number is None:
      return None
    parts = value.split(';')
    parts[self.column] = number
    return ';'.join(parts)


def _axes(grid, choice: tuning.Choice, specs) -> list[_Axis]:
  """Returns the axes that may grow, those that gained the least first."""
  numbers = grids_lib.numbers
  table = zip(grid.names, numbers(grid.values), numbers(choice.scores))
  axes = [
      _Axis(column, specs[name], tried, len(tried) - len(initial))
      for column, (name, initial, tried) in enumerate(table)
      if name in specs and initial and tried and len(tried) > 1
  ]
  return sorted(axes, key=lambda axis: axis.gained)


def _best(choice: tuning.Choice) -> str:
  """Returns the chosen value, the smallest if all diverged."""
  return choice.value or min(
      choice.scores,
      key=lambda v: [grids_lib.number(part) or 0.0 for part in v.split(';')],
  )


def _beyond_best(grid, choice, specs) -> Iterator[Optional[str]]:
  """Yields values beyond the ends at which the best value is."""
  best = _best(choice)
  for axis in _axes(grid, choice, specs):
    for end, inner in axis.ends():
      # If all values diverged, larger ones will too.
      if end == axis.of(best) and (choice.value or end < inner):
        yield axis.put(beyond(axis.spec, end, inner), best)


def _elsewhere(grid, choice, specs) -> Iterator[Optional[str]]:
  """Yields other values to try, the most useful first."""
  best, axes = _best(choice), _axes(grid, choice, specs)
  for axis in axes:
    for neighbour in _neighbours(axis, choice, best):
      middle = between(axis.spec, axis.of(best), neighbour)
      yield axis.put(middle, best)
  for axis in axes:
    for end, inner in axis.ends():
      yield axis.put(beyond(axis.spec, end, inner), best)


def _neighbours(axis: _Axis, choice: tuning.Choice, best: str) -> list[float]:
  """Returns the numbers next to the best one, the better one first."""
  sign = 1 if summary.is_higher_better(choice.metric) else -1
  worth = {
      axis.of(value): sign * score for value, score in choice.scores.items()
      if math.isfinite(score) and axis.put('_', value) == axis.put('_', best)
  }
  place = axis.tried.index(axis.of(best))
  neighbours = [*axis.tried[max(place - 1, 0):place],
                *axis.tried[place + 1:place + 2]]
  return sorted(neighbours, key=lambda n: -worth.get(n, -math.inf))


def _as_text(spec: dataclasses.Field, value: float) -> str:
  if isinstance(spec.default, int):
    return str(round(value))
  return conditions.as_text(float(f'{value:.{_DIGITS}g}'))


def _is_allowed(spec: dataclasses.Field, text: str) -> bool:
  try:
    return hp.is_allowed(spec, hp.parse(spec, text))
  except ValueError:
    return False  # A number may not be valid here, such as 0 for false.
