"""docs/conformance.md: every method is there, and its numbers are measured."""

import re

import numpy as np
import pytest

import baselines  # noqa: F401  Registers its methods.
from tests import conformance_page
from tff_pers import algorithms  # noqa: F401  As above.
from tff_pers.config import methods

_TEXT = conformance_page.PAGE.read_text(encoding='utf-8')
_ROWS = list(conformance_page.ROW.finditer(_TEXT))


def test_every_method_has_a_row_or_a_reason():
  shown = [name for row in _ROWS for name in re.findall('`([^`]+)`', row[1])]
  reasons = _TEXT.partition('No row of its own: ')[2]
  # Of a sentence only its beginning is a method.
  shown += re.findall(r'(?:^|\. )`(\w+)` is', reasons)
  assert sorted(shown) == methods.names()
  # No row of the table is left out by its form.
  assert len(_ROWS) == sum(
      line.startswith('| `') for line in _TEXT.splitlines()
  )


def test_every_number_is_measured_and_small():
  for row in _ROWS:
    assert int(row[5]) > 0 and float(row[6]) <= 1e-5, row[1]


def test_every_test_is_there():
  for row in _ROWS:
    path, name = row[4].split('::')
    code = (conformance_page.ROOT / path).read_text(encoding='utf-8')
    assert f'def {name}(' in code, row[4]


def test_the_largest_difference_of_all_cases_is_found():
  recorder = conformance_page.Recorder()
  for x in (1.0, 400.0):
    with recorder.recording(f'some_test.py::test_some[{x}]'):
      np.testing.assert_allclose([x, 2], [1.01 * x, 2], rtol=0.1)
      np.testing.assert_array_equal(x, x)
  np.testing.assert_allclose(0, 9, atol=9)  # Of no test.
  [name] = recorder.numbers
  assert name == 'some_test.py::test_some' and recorder.numbers[name] == 6
  # 4 of 404: relative above 1.
  np.testing.assert_allclose(recorder.largest[name], 0.01 / 1.01, rtol=1e-9)
  assert conformance_page.decade(recorder.largest[name]) == '1e-2'
  assert conformance_page.decade(0.0) == '0'


def test_what_fails_is_not_measured():
  recorder = conformance_page.Recorder()
  with recorder.recording('some_test.py::test_some'):
    with pytest.raises(AssertionError):
      np.testing.assert_allclose(1.0, 2.0)
  assert not recorder.numbers


def test_only_the_last_columns_are_written():
  recorder = conformance_page.Recorder()
  for row in _ROWS:
    recorder.numbers[row[4]] = 12
  found = conformance_page.measured(_TEXT, recorder)
  assert found.count('| 12 | 0 |') == len(_ROWS)
  blank = lambda text: conformance_page.ROW.sub(r'\1 \2 \3 \4', text)
  assert blank(found) == blank(_TEXT)
