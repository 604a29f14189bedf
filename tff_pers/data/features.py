"""From the columns of a table to what a model takes, fitted to training data.

What is made of a column, in its place:

    numbers   a number: minus its mean and divided by its standard deviation
              with `standardize`, else as it is. A missing one takes the mean.
    texts     a number for each text (category) of the training data, 1 where
              it is that text, else 0: all of them are 0 for any other text and
              for a missing one.

If a column has missing values in the training data, one more number follows: 1
where the value is missing, else 0. Only numbers are scaled; zeros and ones
stay. A column that is the same everywhere in the training data becomes 0.

Everything is fitted to the training rows of the clients that train: neither
their validation and test rows nor clients that are held out change it. It is
one statistic of all those clients. In a federation each of them would send its
count, its sum, the sum of its squared deviations and its set of categories to a
secure sum (a secure union); here the rows are visited directly.
"""

import dataclasses
import json
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tff_pers.data import errors

# Rows that are float64 at a time: a table of float32 may fill the memory.
_BLOCK = 8192


@dataclasses.dataclass(frozen=True)
class Column:
  """A column of a table.

  Attributes:
    name: Its name.
    categories: The texts that the table has there. The table holds the position
      of the text; None: it holds numbers. Both are NaN where they are missing.
    offset: What was subtracted from all numbers before they became float32, in
      which large ones as times in seconds would lose their differences.
    of_date: Whether it is a part of a date.
  """

  name: str
  categories: Optional[tuple[str, ...]] = None
  offset: float = 0.0
  of_date: bool = False


def unnamed(x: np.ndarray) -> tuple[Column, ...]:
  """Returns columns of numbers, `x0`, `x1`, ..., for an array [n, ...]."""
  return tuple(Column(f'x{place}') for place in range(int(x[0].size)))


@dataclasses.dataclass(frozen=True)
class Recipe:
  """What to make of the columns of a table, before it is fitted.

  Attributes:
    columns: The columns, in order.
    standardize: Whether numbers are scaled.
    classes: Names of the labels 0..C-1, or None.
    reading: The options by which the table was read, by name.
  """

  columns: tuple[Column, ...]
  standardize: bool
  classes: Optional[tuple[str, ...]] = None
  reading: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Feature:
  """What is made of a column, see the module.

  Attributes:
    name: Name of the column.
    mean: Mean of the training data; 0 for texts.
    scale: Their standard deviation (divided by n); 0: the column becomes 0.
      1 for texts.
    indicator: Whether a number follows that says where the value is missing.
    categories: The texts of the training data, sorted; None: numbers.
  """

  name: str
  mean: float
  scale: float
  indicator: bool
  categories: Optional[tuple[str, ...]] = None

  @property
  def outputs(self) -> list[str]:
    """Names of the numbers that are made of the column."""
    own = [self.name]
    if self.categories is not None:
      own = [f'{self.name} is {text}' for text in self.categories]
    return own + ([f'{self.name} is missing'] if self.indicator else [])


@dataclasses.dataclass(frozen=True)
class Features:
  """A fitted recipe.

  Attributes:
    features: One for each column, in order.
    standardize: Whether numbers are scaled.
    classes: Names of the labels 0..C-1, or None.
    reading: The options by which the table was read; later ones are read so.
    y_mean: Mean of the targets of the training data; None: y are labels.
    y_scale: Their standard deviation, 1 where they are all the same.
    x_scale: What a regression divides its inputs by, see `fitting`.
  """

  features: tuple[Feature, ...]
  standardize: bool
  classes: Optional[tuple[str, ...]] = None
  reading: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  y_mean: Optional[float] = None
  y_scale: float = 1.0
  x_scale: float = 1.0

  @property
  def outputs(self) -> list[str]:
    """Names of the numbers that the model takes, in order."""
    return [name for feature in self.features for name in feature.outputs]

  @property
  def is_named(self) -> bool:
    """Whether the columns are those of a table, by name."""
    return 'missing' in self.reading

  @property
  def texts(self) -> list[str]:
    """Names of the columns of texts."""
    return [f.name for f in self.features if f.categories is not None]

  def apply(self, x: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """Returns what the model takes, float32[n, len(outputs)].

    Images and the like, [n, ...], keep their shape.

    Args:
      x: The values of a table, float[n, columns].
      columns: Its columns, in any order: they are found by name, and others are
        left out.

    Raises:
      errors.DataError: If the table lacks a column, or has texts in place of
        numbers, or numbers in place of texts.
    """
    shape, x = x.shape, x.reshape(len(x), -1)
    places = _places([feature.name for feature in self.features], columns)
    codes = [
        _codes(feature, columns[place])
        for feature, place in zip(self.features, places)
    ]
    offsets = np.array([columns[place].offset for place in places])
    made = np.empty([len(x), len(self.outputs)], np.float32)
    for first in range(0, len(x), _BLOCK):
      rows = slice(first, first + _BLOCK)
      self._apply_block(
          x[rows, places].astype(np.float64) + offsets, codes, made[rows]
      )
    return made.reshape(shape) if len(shape) > 2 else made

  def _apply_block(self, x, codes, made) -> None:
    """Writes what becomes of some rows, float64[some, F], to `made`."""
    missing = np.isnan(x)
    filled = np.where(missing, [f.mean for f in self.features], x)
    if self.standardize:
      scales = np.array([f.scale for f in self.features])
      filled -= [f.mean for f in self.features]
      filled /= np.where(scales == 0, np.inf, scales)
    at = 0
    for number, feature in enumerate(self.features):
      width = len(feature.outputs) - feature.indicator
      if feature.categories is None:
        made[:, at] = filled[:, number]
      else:
        code = np.where(missing[:, number], -1, x[:, number]).astype(int)
        code = codes[number][code]
        made[:, at:at + width] = code[:, None] == np.arange(width)
      at += width
      if feature.indicator:
        made[:, at] = missing[:, number]
        at += 1

  def to_json(self) -> str:
    """Returns the text that `from_json` reads, a feature in a line."""
    lines = ',\n'.join(
        '    ' + json.dumps(dataclasses.asdict(feature), ensure_ascii=False)
        for feature in self.features
    )
    classes = json.dumps(self.classes, ensure_ascii=False)
    return (
        '{\n'
        f'  "standardize": {json.dumps(self.standardize)},\n'
        f'  "classes": {classes},\n'
        f'  "y_mean": {json.dumps(self.y_mean)},\n'
        f'  "y_scale": {json.dumps(self.y_scale)},\n'
        f'  "x_scale": {json.dumps(self.x_scale)},\n'
        f'  "reading": {json.dumps(dict(self.reading), ensure_ascii=False)},\n'
        f'  "features": [\n{lines}\n  ]\n'
        '}\n'
    )

  @classmethod
  def from_json(cls, text: str) -> 'Features':
    """Returns what `to_json` wrote, to the last bit."""
    read = json.loads(text)
    features = tuple(
        Feature(**{**feature, 'categories': _tuple(feature['categories'])})
        for feature in read['features']
    )
    return cls(
        features, read['standardize'], _tuple(read['classes']),
        dict(read.get('reading', {})), read.get('y_mean'),
        read.get('y_scale', 1.0), read.get('x_scale', 1.0),
    )


def fit(
    parts: Sequence[np.ndarray], recipe: Recipe,
    targets: Optional[Sequence[np.ndarray]] = None,
) -> Features:
  """Returns the recipe fitted to training rows.

  Args:
    parts: Values of the columns, float[n_c, ...] of each client c that trains.
    recipe: What to make of them.
    targets: y of the same rows, float[n_c]; None: they are labels.
  """
  moments = _Moments(parts)
  fitted = []
  for number, column in enumerate(recipe.columns):
    indicator = bool(moments.missing[number])
    if column.categories is None:
      fitted.append(Feature(
          column.name, float(moments.mean[number]) + column.offset,
          float(moments.scale[number]), indicator,
      ))
      continue
    used = set()
    for part in parts:
      used.update(np.unique(part[:, number]).tolist())
    texts = [
        text for code, text in enumerate(column.categories) if code in used
    ]
    fitted.append(
        Feature(column.name, 0.0, 1.0, indicator, tuple(sorted(texts)))
    )
  y_mean, y_scale = None, 1.0
  if targets is not None:
    of_y = _Moments([y[:, None] for y in targets])
    y_mean, y_scale = float(of_y.mean[0]), float(of_y.scale[0]) or 1.0
  return Features(
      tuple(fitted), recipe.standardize, recipe.classes, recipe.reading,
      y_mean, y_scale,
  )


class _Moments:
  """What `fit` needs to know of columns [F], in float64.

  Attributes:
    missing: int[F], how many values are missing.
    mean: Of the others; 0 where there are none.
    scale: Standard deviation; exactly 0 where all values are equal, which
      rounding would hide.
  """

  def __init__(self, parts):
    width = int(np.prod(parts[0].shape[1:]))
    total, count = np.zeros(width), np.zeros(width, np.int64)
    self.missing = np.zeros(width, np.int64)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for x in _blocks(parts):
      missing = np.isnan(x)
      self.missing += missing.sum(axis=0)
      count += (~missing).sum(axis=0)
      total += np.where(missing, 0, x).sum(axis=0)
      low = np.fmin(low, np.fmin.reduce(x, axis=0))
      high = np.fmax(high, np.fmax.reduce(x, axis=0))
    count = np.maximum(count, 1)
    self.mean = total / count
    # In a second pass, because E[x^2] - E[x]^2 cancels where the mean is large.
    squares = np.zeros(width)
    for x in _blocks(parts):
      deviations = np.where(np.isnan(x), 0, x - self.mean)
      squares += np.square(deviations).sum(axis=0)
    self.scale = np.where(low < high, np.sqrt(squares / count), 0)


def _blocks(parts):
  """Yields the rows of all parts, float64[some, F]."""
  for part in parts:
    for first in range(0, len(part), _BLOCK):
      rows = part[first:first + _BLOCK]
      yield rows.reshape(len(rows), -1).astype(np.float64)


def _places(names: Sequence[str], columns: Sequence[Column]) -> list[int]:
  """Returns the positions of the columns of these names."""
  known = {column.name: place for place, column in enumerate(columns)}
  for name in names:
    if name not in known:
      near = errors.nearest(name, list(known))
      raise errors.DataError(
          'A table must have the columns of the training data, found no'
          f' {name!r} among {", ".join(list(known)[:8])}.'
          + (f' Tip: name {near!r} so.' if near else '')
      )
  return [known[name] for name in names]


def _codes(feature: Feature, column: Column) -> Optional[np.ndarray]:
  """Returns the position in `feature.categories` by position in the column's.

  int[K + 1], whose last entry is for a missing value, which has position -1.
  """
  kinds = [
      'numbers' if categories is None else 'texts'
      for categories in (feature.categories, column.categories)
  ]
  if kinds[0] != kinds[1]:
    raise errors.DataError(
        f'Column {column.name!r} must hold {kinds[0]} as in the training data,'
        f' found {kinds[1]}.'
    )
  if feature.categories is None or column.categories is None:
    return None
  known = {text: code for code, text in enumerate(feature.categories)}
  return np.array([*(known.get(text, -1) for text in column.categories), -1])


def _tuple(items: Optional[Sequence[Any]]):
  return None if items is None else tuple(items)
