"""Cells are what JSON can say."""

import math

import numpy as np
import pytest

from tff_pers.evaluation.report import cells


@pytest.mark.parametrize('value, shown', [
    (None, None), ('fedavg', 'fedavg'), (3, 3), (2.0, 2),
    (np.float32(0.1), 0.1), (1 / 3, 0.3333333), (math.nan, 'nan'),
    (math.inf, 'inf'), (-math.inf, '-inf'), (123456789.0, 123456800),
])
def test_cell(value, shown):
  found = cells.cell(value)
  assert found == shown and isinstance(found, type(shown))


def test_series_have_few_digits_and_gaps():
  assert cells.series([2 / 3, math.nan, math.inf, 40.0]) == [
      0.66667, None, None, 40
  ]


def test_columns_without_any_value_are_left_out():
  columns = [cells.Column('a', 'A'), cells.Column('b', 'B', 'text')]
  table = cells.table(columns, [dict(a=None, b='x'), dict(b=None)])
  assert [column['title'] for column in table['columns']] == ['B']
  assert table['rows'] == [['x'], [None]]


def test_columns_of_a_file_are_numbers_if_all_cells_are():
  table = cells.text_table([
      dict(algo='perm', value='0.10', note='1'),
      dict(algo='fedavg', value='', note='x'),
  ])
  assert [column['style'] for column in table['columns']] == [
      'text', 'short', 'text'
  ]
  assert table['rows'] == [['perm', 0.1, '1'], ['fedavg', None, 'x']]
