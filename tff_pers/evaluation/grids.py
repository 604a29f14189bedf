"""Grids of hyperparameters, one for each variant of a comparison."""

import itertools
from typing import Collection, Iterable, Mapping, NamedTuple, Optional, Sequence

from tff_pers.data import brackets


class Grid(NamedTuple):
  """Values of one hyperparameter, or all combinations of those of several.

  Attributes:
    names: Names of the hyperparameters.
    values: Values as texts; a combination is one text, in the order of the
      names and separated by semicolons.
  """

  names: tuple[str, ...]
  values: Sequence[str]

  def options(self, value: str) -> dict[str, str]:
    """Returns the value of each hyperparameter by name."""
    return dict(zip(self.names, value.split(';')))


def parse_grids(text: str, variants: Sequence[str]) -> dict[str, Grid]:
  """Returns the grid of each variant, `name:value,value,...`.

  Several hyperparameters, separated by semicolons, are tried in all
  combinations. A hyperparameter that only one method has is named with the
  method:

    parse_grids('learning_rate:0.03,0.1,0.3', variants)
    parse_grids('learning_rate:0.03,0.1;server_learning_rate:0.5,1', variants)
    parse_grids('learning_rate:0.1,0.3;perm.warmup_rounds:5,10;'
                'perfedavg.steps:1,20', ['perm', 'perfedavg'])

  Raises:
    ValueError: If `text` is malformed, a name or a value is repeated, a method
      is not among the variants', or variants have grids of different size.
  """
  table = _factors(text)
  methods = {variant: brackets.parse(variant)[0] for variant in variants}
  for name in table:
    owner = name.rpartition('.')[0]
    if owner and owner not in methods.values():
      raise ValueError(
          f'`grid` must be for the methods in `algos`, found {name}.'
      )
    if owner and name.rpartition('.')[2] in table:
      raise ValueError(
          '`grid` must name a hyperparameter either for all methods or for each'
          f' separately, found both for {name}.'
      )
  grids = {}
  for variant, method in methods.items():
    own = {
        name.rpartition('.')[2]: values for name, values in table.items()
        if name.rpartition('.')[0] in ('', method)
    }
    grids[variant] = Grid(
        tuple(own), [';'.join(v) for v in itertools.product(*own.values())]
    )
  sizes = {variant: len(grid.values) for variant, grid in grids.items()}
  if len(set(sizes.values())) > 1:
    found = ', '.join(f'{name} {size}' for name, size in sizes.items())
    raise ValueError(
        '`grid` must have as many values for each variant, because more trials'
        f' are an advantage, found {found}.'
    )
  return grids


def restricted(text: str, methods: Collection[str]) -> str:
  """Returns the text of a grid without what other methods alone have."""
  return ';'.join(
      part for part in text.split(';')
      if part.partition(':')[0].strip().rpartition('.')[0] in ('', *methods)
  )


def _factors(text: str) -> dict[str, list[str]]:
  """Returns the values by name, with names as typed."""
  table = {}
  for part in text.split(';'):
    name, _, rest = part.partition(':')
    values = [value.strip() for value in rest.split(',')]
    # 0.1 and 0.10 are the same value, so one run would be redundant.
    distinct = {value if number(value) is None else number(value)
                for value in values}
    well_formed = name.strip() and all(values)
    if not well_formed or len(distinct) < len(values) or name.strip() in table:
      raise ValueError(
          '`grid` must be a hyperparameter and distinct values, such as'
          ' learning_rate:0.03,0.1,0.3, or several of those with semicolons in'
          f' between, found {text!r}.'
      )
    table[name.strip()] = values
  return table


def with_options(variant: str, options: Mapping[str, str]) -> str:
  """Returns the variant with more options, see `with_option`."""
  for name, own in options.items():
    variant = with_option(variant, name, own)
  return variant


def with_option(variant: str, name: str, value: str) -> str:
  """Returns the variant with one more option in its brackets.

    with_option('fedper[split=norm]', 'learning_rate', '0.1')
    # 'fedper[split=norm,learning_rate=0.1]'

  Raises:
    ValueError: If it already has that option.
  """
  if name in brackets.parse(variant)[1]:
    raise ValueError(
        f'`algos` must leave {name} to `grid`, found {variant!r}.'
    )
  head = variant[:-1] + ',' if variant.endswith(']') else variant + '['
  return f'{head}{name}={value}]'


def common(grids: Mapping[str, Grid]) -> list[str]:
  """Returns the hyperparameters for which all variants have values."""
  first, *others = [grid.names for grid in grids.values()]
  return [name for name in first if all(name in names for names in others)]


def numbers(values: Iterable[str]) -> list[Optional[list[float]]]:
  """Returns the numbers tried for each hyperparameter of a grid.

  They are distinct and ascending; None for one whose values are not all
  numbers.
  """
  found = []
  for texts in zip(*(value.split(';') for value in values)):
    distinct = {x for x in map(number, texts) if x is not None}
    found.append(None if None in map(number, texts) else sorted(distinct))
  return found


def number(text: str) -> Optional[float]:
  """Returns the number in a text, or None."""
  try:
    return float(text)
  except ValueError:
    return None
