"""Cells are numbers, texts, or nothing."""

import numpy as np
import pyarrow as pa
import pytest

from tff_pers.data import cells


@pytest.mark.parametrize('text, value', [
    ('1', 1.0), ('+1', 1.0), ('.5', 0.5), ('5.', 5.0), ('1e3', 1e3),
    ('-inf', -np.inf), ('true', 1.0), ('False', 0.0), ('', np.nan),
    ('NaN', np.nan), ('N/A', np.nan), ('?', np.nan), ('null', np.nan),
    ('none', None), ('1,5', None), ('0x10', None), ('1 2', None),
    ('20_29', None), ('1_1', None),
])
def test_a_text_is_a_number_or_missing_or_neither(text, value):
  found = cells.number(text)
  np.testing.assert_equal(found, value)
  values, row = cells.numbers(pa.array(['3', f' {text} ']))
  if value is None:
    assert row == 1
  else:
    assert row is None
    np.testing.assert_array_equal(values, [3.0, value])


@pytest.mark.parametrize('text, usual', [
    ('1.0', '1'), ('-20,0', '-20'), ('0.0', '0'), ('10', '10'), ('01.0', '01.0'),
    # These may be thousands.
    ('1,000', '1,000'), ('12.000', '12.000'),
])
def test_codes_are_spelled_without_the_zero_of_a_column_with_gaps(text, usual):
  assert cells.code(text) == usual


def test_numbers_are_read_to_the_last_bit():
  generator = np.random.default_rng(0)
  values = generator.standard_normal(999) * 10.0 ** generator.integers(
      -300, 300, 999
  )
  found, _ = cells.numbers(pa.array(list(map(repr, values.tolist()))))
  np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize('values, expected', [
    ([1.0, -20.0], True), ([0.5, 1.0], False), ([], True),
    ([np.nan, 1.0], False), ([np.inf], False), ([2.0**53], False),
])
def test_numbers_may_be_whole(values, expected):
  assert cells.are_whole(np.array(values)) is expected


@pytest.mark.parametrize('column, expected', [
    ([' 01 '], '01'), (['1.0'], '1.0'), (['TRUE'], 'TRUE'), ([True], 'True'),
    ([2.0], '2.0'), ([7], '7'),
])
def test_a_cell_is_spelled_as_in_the_file(column, expected):
  assert cells.spelling(pa.array(column), 0) == expected


def test_texts_are_codes_without_spaces_around():
  found = cells.texts(pa.array(['b', ' a', 'b ', None]))
  assert found.distinct == ['b', 'a', '']
  assert found.codes.tolist() == [0, 1, 0, 2] and found.codes.dtype == np.int32
  assert cells.texts(pa.array([7, 7])).distinct == ['7']
  assert cells.texts(pa.array([True, False])).distinct == ['1', '0']


@pytest.mark.parametrize('kind, expected', [
    (pa.string(), True), (pa.large_string(), True), (pa.bool_(), True),
    (pa.uint8(), True), (pa.float16(), True), (pa.decimal128(5, 2), True),
    (pa.null(), True), (pa.dictionary(pa.int8(), pa.string()), True),
    (pa.date32(), False), (pa.timestamp('s'), False),
    (pa.list_(pa.int8()), False), (pa.binary(), False),
])
def test_numbers_and_texts_are_usable(kind, expected):
  assert cells.is_usable(kind) is expected
