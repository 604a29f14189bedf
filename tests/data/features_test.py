"""Features are fitted to the rows that they get, and applied to any table."""

import hypothesis
from hypothesis import strategies
from hypothesis.extra import numpy as hnp
import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data.features import Column

_NAN = np.nan


def _recipe(*columns, standardize=True, classes=None):
  columns = tuple(
      Column(c) if isinstance(c, str) else Column(*c) for c in columns
  )
  return features.Recipe(columns, standardize, classes)


def test_numbers_have_mean_0_and_variance_1_over_all_parts():
  generator = np.random.default_rng(0)
  parts = [
      (generator.standard_normal([n, 3]) * [1, 50, 1e-3] + [0, 2000, 5])
      .astype(np.float32) for n in (5, 300, 20001)
  ]
  recipe = _recipe('a', 'b', 'c')
  fitted = features.fit(parts, recipe)
  everything = np.concatenate(parts).astype(np.float64)
  np.testing.assert_allclose(
      [f.mean for f in fitted.features], everything.mean(0), rtol=1e-12
  )
  np.testing.assert_allclose(
      [f.scale for f in fitted.features], everything.std(0), rtol=1e-12
  )
  made = fitted.apply(parts[2], recipe.columns)
  assert made.dtype == np.float32
  by_hand = (parts[2] - everything.mean(0)) / everything.std(0)
  np.testing.assert_allclose(made, by_hand, rtol=1e-6, atol=1e-6)
  assert fitted.outputs == ['a', 'b', 'c']


# Few bits, so that sums are exact and a scale of 0 means equal values.
_TABLES = hnp.arrays(
    np.float32, strategies.tuples(strategies.integers(1, 9), strategies.just(2)),
    elements=strategies.one_of(
        strategies.integers(-8, 8).map(float), strategies.just(_NAN)
    ),
)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=100)
@hypothesis.given(parts=strategies.lists(_TABLES, min_size=1, max_size=4))
def test_any_table_is_as_numpy_says(parts):
  """Means, deviations and indicators of what is there, column by column."""
  recipe = _recipe('a', 'b')
  fitted = features.fit(parts, recipe)
  made = fitted.apply(np.concatenate(parts), recipe.columns)
  expected = []
  for column in np.concatenate(parts).T.astype(np.float64):
    there = column[~np.isnan(column)]
    spread = there.std() if there.size else 0
    mean = there.mean() if there.size else 0
    expected.append(
        (np.where(np.isnan(column), mean, column) - mean) / (spread or np.inf)
    )
    if there.size < column.size:
      expected.append(np.isnan(column))
  np.testing.assert_allclose(made, np.stack(expected, 1), atol=1e-6)


def test_a_column_that_is_constant_becomes_0_everywhere():
  """0.1 is no float32, and its mean over many rows is not exact."""
  recipe = _recipe('a')
  fitted = features.fit([np.full([9999, 1], 0.1, np.float32)], recipe)
  assert fitted.features[0].scale == 0.0
  new = np.array([[0.1], [240.0], [_NAN]], np.float32)
  np.testing.assert_array_equal(fitted.apply(new, recipe.columns), [[0]] * 3)


def test_without_standardize_numbers_stay_and_missing_take_the_mean():
  recipe = _recipe('a', 'b', standardize=False)
  x = np.array([[1, 5], [4, _NAN], [_NAN, _NAN], [7, 6]], np.float32)
  fitted = features.fit([x[:1], x[1:]], recipe)
  np.testing.assert_array_equal(
      fitted.apply(x, recipe.columns),
      [[1, 0, 5, 0], [4, 0, 5.5, 1], [4, 1, 5.5, 1], [7, 0, 6, 0]],
  )
  assert fitted.outputs == ['a', 'a is missing', 'b', 'b is missing']


def test_texts_are_one_hot_over_those_of_the_training_rows():
  recipe = _recipe('a', ('color', ('red', 'blue', 'green')))
  train = np.array([[1, 0], [3, 1], [1, 0], [3, _NAN]], np.float32)
  fitted = features.fit([train[:2], train[2:]], recipe)
  assert fitted.outputs == [
      'a', 'color is blue', 'color is red', 'color is missing'
  ]
  assert fitted.texts == ['color']
  # Green was never trained on.
  new = np.array([[1, 0], [3, 1], [3, 2], [1, _NAN]], np.float32)
  np.testing.assert_array_equal(
      fitted.apply(new, recipe.columns),
      [[-1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [-1, 0, 0, 1]],
  )


def test_another_table_may_have_its_own_order_and_texts():
  recipe = _recipe('a', ('color', ('red', 'blue')))
  fitted = features.fit([np.array([[1, 0], [3, 1]], np.float32)], recipe)
  columns = (
      Column('color', ('pink', 'blue', 'red')), Column('id'), Column('a'),
  )
  x = np.array([[0, 7, 3], [1, 7, 1], [2, 7, 1]], np.float32)
  np.testing.assert_array_equal(
      fitted.apply(x, columns), [[1, 0, 0], [-1, 1, 0], [-1, 0, 1]]
  )


def test_images_keep_their_shape():
  x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
  recipe = _recipe(*(f'x{place}' for place in range(12)))
  fitted = features.fit([x], recipe)
  made = fitted.apply(x, recipe.columns)
  np.testing.assert_array_equal(made, np.stack([-np.ones([3, 4]),
                                                np.ones([3, 4])]))


def test_json_keeps_every_bit():
  recipe = _recipe(
      'é "x"', ('color', ('red', 'blue')), 'none', classes=('no', 'ja')
  )
  x = np.array([[0.1, 0, 1], [0.7, _NAN, 1]], np.float32)
  fitted = features.fit([x], recipe)
  text = fitted.to_json()
  assert features.Features.from_json(text) == fitted
  assert 'é' in text and '"classes": ["no", "ja"]' in text


@pytest.mark.parametrize('columns, message', [
    ([Column('b')], "found no 'a' among b"),
    ([Column('A')], "found no 'a' among A. Tip: rename 'A'.$"),
    ([*map(Column, 'bcdefghij')], 'among b, c, d, e, f, g, h, i and 1 other.$'),
    (
        [Column('a', ('x',)), Column('color', ('red',))],
        "Column 'a' must hold numbers as in the training data, found texts",
    ),
    (
        [Column('a'), Column('color')],
        "Column 'color' must hold texts as in the training data, found numbers",
    ),
])
def test_raises_on_tables_of_another_form(columns, message):
  recipe = _recipe('a', ('color', ('red', 'blue')))
  fitted = features.fit([np.array([[1, 0], [3, 1]], np.float32)], recipe)
  with pytest.raises(errors.DataError, match=message):
    fitted.apply(np.zeros([1, len(columns)], np.float32), columns)


def test_no_feature_is_to_be_renamed():
  columns = _recipe('x25', 'x5').columns
  fitted = features.fit([np.zeros([2, 2])], _recipe('x25', 'x5'))
  with pytest.raises(errors.DataError, match="found no 'x5' among x25.$"):
    fitted.apply(np.zeros([1, 1], np.float32), columns[:1])
