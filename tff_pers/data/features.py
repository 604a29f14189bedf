"""Converts table columns to model inputs, fitted to training data.

Each column becomes:

    numbers   a number: minus its mean and divided by its standard deviation
              with `standardize`, else unchanged. Missing ones become the mean.
    texts     a number for each text (category) of the training data: 1 if the
              value is that text, else 0; all are 0 for an unknown text and for
              a missing one.

If a column has missing values in the training data, one more number follows: 1
if the value is missing, else 0. Only numbers are scaled, not zeros and ones. A
column that is constant in the training data becomes 0.

Everything is fitted to the training rows of the clients that train: validation
and test rows and held-out clients have no influence. The statistics are over
all these clients. In a federation each of them would send its count, its sum,
its sum of squared deviations and its set of categories to a secure sum (a
secure union); here the rows are visited directly.
"""

import dataclasses
import json
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tff_pers.data import cells
from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import rounding

# Rows converted to float64 at a time: a float32 table may fill the memory.
_BLOCK = 8192


@dataclasses.dataclass(frozen=True)
class Column:
  """A column of a table.

  Attributes:
    name: Its name.
    categories: The texts in the table's column, whose values are positions of
      texts; None: the column has numbers. Missing values are NaN in both.
    offset: What was subtracted from all numbers before they became float32,
      which would lose the differences of large ones, e.g. times in seconds.
    of_date: Whether it is part of a date.
  """

  name: str
  categories: Optional[tuple[str, ...]] = None
  offset: float = 0.0
  of_date: bool = False


def unnamed(
    x: np.ndarray, offsets: Optional[np.ndarray] = None
) -> tuple[Column, ...]:
  """Returns columns of numbers `x0`, `x1`, ... for an array [n, ...].

  Their offsets have the shape [...]; None: 0.
  """
  if offsets is None:
    offsets = np.zeros(x.shape[1:])
  return tuple(
      Column(f'x{place}', offset=offset)
      for place, offset in enumerate(offsets.ravel().tolist())
  )


@dataclasses.dataclass(frozen=True)
class Recipe:
  """The conversion of a table's columns, before it is fitted.

  Attributes:
    columns: The columns, in order.
    standardize: Whether numbers are scaled.
    classes: Names of the labels 0..C-1, or None.
    reading: The options with which the table was read, by name.
  """

  columns: tuple[Column, ...]
  standardize: bool
  classes: Optional[tuple[str, ...]] = None
  reading: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Feature:
  """The fitted conversion of a column, see the module.

  Attributes:
    name: Name of the column.
    mean: Mean of the training data; 0 for texts.
    scale: Their standard deviation (divided by n); 0: the column becomes 0.
      1 for texts.
    indicator: Whether a number follows that marks missing values.
    categories: The texts of the training data, sorted; None: numbers.
  """

  name: str
  mean: float
  scale: float
  indicator: bool
  categories: Optional[tuple[str, ...]] = None

  @property
  def is_rounded(self) -> bool:
    """Whether float32 loses differences of numbers as large as the mean."""
    return rounding.is_rounded(self.mean, self.scale)

  @property
  def outputs(self) -> list[str]:
    """Names of the numbers that the column becomes."""
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
    reading: The options with which the table was read, used for later tables.
    y_mean: Mean of the targets of the training data; None: y are labels.
    y_scale: Their standard deviation, or 1 if they are constant.
    x_scale: Divisor of the inputs of a regression, see `fitting`.
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
    """Whether columns are identified by name."""
    return 'missing' in self.reading

  @property
  def texts(self) -> list[str]:
    """Names of the columns of texts."""
    return [f.name for f in self.features if f.categories is not None]

  def apply(self, x: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """Returns the model's inputs, float32[n, len(outputs)].

    Images and other arrays [n, ...] keep their shape. The values of the table
    are float[n, columns]; columns are identified by name, whatever their order,
    and others are ignored.

    Raises:
      errors.DataError: If the table lacks a column, or has texts instead of
        numbers, or numbers instead of texts.
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
    """Writes the conversion of some rows, float64[some, F], to `made`."""
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
    """Returns the text that `from_json` reads, with one feature per line."""
    lines = ',\n'.join(
        '    ' + json.dumps(dataclasses.asdict(feature), ensure_ascii=False)
        for feature in self.features
    )
    names = (
        'standardize', 'classes', 'y_mean', 'y_scale', 'x_scale', 'reading'
    )
    others = ''.join(
        f'  "{name}": {json.dumps(getattr(self, name), ensure_ascii=False)},\n'
        for name in names
    )
    return f'{{\n{others}  "features": [\n{lines}\n  ]\n}}\n'

  @classmethod
  def from_json(cls, text: str) -> 'Features':
    """Returns the features that `to_json` wrote, bit-identical."""
    read = json.loads(text)
    reading = dict(read['reading']) if 'reading' in read else {}
    codes = client_names.parse(reading.get('categorical', ''))
    def categories(feature):
      texts = _tuple(feature['categories'])
      if texts is None or feature['name'] not in codes:
        return texts
      # Files of before have 1.0 where a code is 1 now.
      usual = tuple(map(cells.code, texts))
      return usual if len(set(usual)) == len(texts) else texts
    features = tuple(
        Feature(**{**feature, 'categories': categories(feature)})
        for feature in read['features']
    )
    return cls(
        features, read['standardize'], _tuple(read['classes']), reading,
        read.get('y_mean'), read.get('y_scale', 1.0), read.get('x_scale', 1.0),
    )


def fit(
    parts: Sequence[np.ndarray], recipe: Recipe,
    targets: Optional[Sequence[np.ndarray]] = None,
) -> Features:
  """Returns the recipe fitted to training rows.

  These are float[n_c, ...] for each client c that trains, and their targets y,
  float[n_c], if y are no labels.
  """
  missing, mean, scale = _moments(parts)
  fitted = []
  for number, column in enumerate(recipe.columns):
    indicator = bool(missing[number])
    if column.categories is None:
      fitted.append(Feature(
          column.name, float(mean[number]) + column.offset,
          float(scale[number]), indicator,
      ))
      continue
    used = set().union(*(np.unique(part[:, number]) for part in parts))
    texts = [
        text for code, text in enumerate(column.categories) if code in used
    ]
    fitted.append(
        Feature(column.name, 0.0, 1.0, indicator, tuple(sorted(texts)))
    )
  y_mean, y_scale = None, 1.0
  if targets is not None:
    _, [mean], [scale] = _moments([y[:, None] for y in targets])
    y_mean, y_scale = float(mean), float(scale) or 1.0
  return Features(
      tuple(fitted), recipe.standardize, recipe.classes, recipe.reading,
      y_mean, y_scale,
  )


def _moments(parts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the statistics of columns [F] that `fit` needs, in float64.

  These are the number of missing values, the mean of the others, 0 if there are
  none, and the standard deviation, exactly 0 if all values are equal, which
  rounding would hide.
  """
  width = int(np.prod(parts[0].shape[1:]))
  total, count = np.zeros(width), np.zeros(width, np.int64)
  num_missing = np.zeros(width, np.int64)
  low, high = np.full(width, np.inf), np.full(width, -np.inf)
  for x in _blocks(parts):
    missing = np.isnan(x)
    num_missing += missing.sum(axis=0)
    count += (~missing).sum(axis=0)
    total += np.where(missing, 0, x).sum(axis=0)
    low = np.fmin(low, np.fmin.reduce(x, axis=0))
    high = np.fmax(high, np.fmax.reduce(x, axis=0))
  count = np.maximum(count, 1)
  mean = total / count
  # In a second pass, because E[x^2] - E[x]^2 cancels if the mean is large.
  squares = np.zeros(width)
  for x in _blocks(parts):
    deviations = np.where(np.isnan(x), 0, x - mean)
    squares += np.square(deviations).sum(axis=0)
  return num_missing, mean, np.where(low < high, np.sqrt(squares / count), 0)


def _blocks(parts):
  """Yields the rows of all parts, float64[some, F]."""
  for part in parts:
    for first in range(0, len(part), _BLOCK):
      rows = part[first:first + _BLOCK]
      yield rows.reshape(len(rows), -1).astype(np.float64)


def _places(names: Sequence[str], columns: Sequence[Column]) -> list[int]:
  """Returns the positions of the columns with these names."""
  known = {column.name: place for place, column in enumerate(columns)}
  for name in names:
    if name not in known:
      near = errors.nearest(name, [n for n in known if n not in names])
      raise errors.DataError(
          'A table must have the columns of the training data, found no'
          f' {name!r} among {errors.listed(list(known))}.'
          + (f' Tip: rename {near!r}.' if near else '')
      )
  return [known[name] for name in names]


def _codes(feature: Feature, column: Column) -> Optional[np.ndarray]:
  """Returns the positions in `feature.categories`, by those in the column's.

  int[K + 1], whose last entry is for missing values, which have position -1.
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
