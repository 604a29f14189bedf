"""Columns grow batch by batch."""

import numpy as np
import pyarrow as pa
import pytest

from tff_pers.data import cells
from tff_pers.data import column_builders


@pytest.mark.parametrize('num_rows', [None, 100])
def test_rows_stay_in_place_while_an_array_grows(num_rows):
  grown = column_builders.GrowableArray(np.float32, num_rows, 2)
  expected = np.arange(200, dtype=np.float32).reshape(100, 2)
  for first, end in ((0, 1), (1, 1), (1, 60), (60, 99), (99, 100)):
    grown.extend(end - first)[:] = expected[first:end]
    assert grown.size == end
  np.testing.assert_array_equal(grown.array, expected)
  assert grown.array.dtype == np.float32


def test_an_array_whose_size_is_known_never_moves():
  grown = column_builders.GrowableArray(np.int32, 4)
  first = grown.extend(1)
  first[:] = 7
  grown.extend(3)[:] = 8
  assert grown.array.tolist() == [7, 8, 8, 8]
  assert np.shares_memory(first, grown.array)


def test_codes_are_the_same_in_all_batches():
  codes = column_builders.Codes(None)
  for batch in (['b', 'a', 'b'], ['c', 'a']):
    codes.add(cells.texts(pa.array(batch)))
  assert codes.distinct == ['b', 'a', 'c']
  assert codes.codes.tolist() == [0, 1, 0, 2, 1]
  assert (codes.find('a'), codes.find('c'), codes.find('d')) == (1, 3, None)


def test_the_first_cells_decide_what_y_is():
  kinds = [
      type(column_builders.labels_or_targets(pa.array(batch), None))
      for batch in (['1'], ['a', 'b'], ['a', '1'], ['', 'a'], [''], [1.0])
  ]
  assert kinds == [
      column_builders.Targets, column_builders.Names, column_builders.Targets, column_builders.Names,
      column_builders.Targets, column_builders.Targets,
  ]


def test_targets_are_labels_if_all_are_whole():
  for batches, dtype, spelling in (
      ((['1', '0'], ['2', '1.0']), np.int64, ('0', '1', '2')),
      ((['1', '0'], ['2.0', 'true']), np.int64, ('0', '1', '2.0')),
      ((['1', '0'], ['.5', '1']), np.float64, ('0', '.5', '1')),
  ):
    column = column_builders.Targets(None)
    assert [column.add(pa.array(batch)) for batch in batches] == [None, None]
    y, found = column.result()
    assert y.dtype == dtype and y[:2].tolist() == [1, 0] and found == spelling
  assert column.add(pa.array(['1', 'x', ''])) == 1
  assert column.add(pa.array(['1', '', '2'])) is None
  assert column.is_missing.tolist() == [False] * 4 + [False, False, True, False, True, False]


@pytest.mark.parametrize('batches', [
    (range(21),), (range(11), range(11, 21)),
])
def test_many_numbers_are_not_spelled(batches):
  column = column_builders.Targets(None)
  for batch in batches:
    column.add(pa.array([str(n) for n in batch]))
  assert column.result()[1] is None and column.result()[0].tolist()[-1] == 20


def test_names_become_positions_in_their_sorted_list():
  column = column_builders.Names(None)
  assert column.add(pa.array(['b', 'a'])) is None
  assert column.add(pa.array(['c', 'a'])) is None
  y, classes = column.result()
  assert y.tolist() == [1, 0, 2, 0] and classes == ('a', 'b', 'c')
  assert column.add(pa.array(['c', '5'])) == 1
