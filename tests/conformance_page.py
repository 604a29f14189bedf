"""Measures what docs/conformance.md says of every method.

    python -m tests.conformance_page

runs the tests that the page names and writes how many numbers they compare, and
the largest difference, into the last columns of its table. All else on the page
is written by hand.
"""

import collections
import contextlib
import math
import pathlib
import re
import sys
from unittest import mock

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / 'docs' / 'conformance.md'
# Methods, two sentences, the test; then what is measured.
ROW = re.compile(
    r'^\| (`[^|]+`) \| ([^|]+) \| ([^|]+) \| `(tests/[^`]+)` \|'
    r' *(\d*) \| *([\de-]*) \|$', re.MULTILINE,
)
_COMPARISONS = ('assert_allclose', 'assert_array_equal')


class Recorder:
  """Notes, as a plug-in of pytest, what tests compare.

  Attributes:
    numbers: How many, by test without its cases.
    largest: The largest difference; relative to what is above 1.
    failed: Tests that failed.
  """

  def __init__(self):
    self.numbers: dict[str, int] = collections.Counter()
    self.largest: dict[str, float] = collections.defaultdict(float)
    self.failed: list[str] = []

  @contextlib.contextmanager
  def recording(self, nodeid: str):
    """Notes what is compared inside, as that of a test."""
    with mock.patch.multiple(np.testing, **{
        name: self._noting(nodeid, getattr(np.testing, name))
        for name in _COMPARISONS
    }):
      yield

  @pytest.hookimpl(hookwrapper=True)
  def pytest_runtest_call(self, item):
    """Surrounds the call of a test."""
    with self.recording(item.nodeid):
      yield

  def pytest_runtest_logreport(self, report):
    """Notes tests that failed."""
    if report.failed:
      self.failed.append(report.nodeid)

  def _noting(self, nodeid, compare):
    name = nodeid.partition('[')[0]

    def comparing(actual, expected, *args, **kwargs):
      compare(actual, expected, *args, **kwargs)
      pair = [np.asarray(side, np.float64) for side in (actual, expected)]
      actual, expected = np.broadcast_arrays(*pair)
      self.numbers[name] += expected.size
      apart = np.abs(actual - expected) / np.maximum(np.abs(expected), 1)
      self.largest[name] = max(self.largest[name], np.max(apart, initial=0.0))

    return comparing


def measured(text: str, recorder: Recorder) -> str:
  """Returns the page with what was measured in its last columns."""

  def filled(row):
    test = row[4]
    return (
        f'| {row[1]} | {row[2]} | {row[3]} | `{test}` |'
        f' {recorder.numbers[test]} | {decade(recorder.largest[test])} |'
    )

  return ROW.sub(filled, text)


def decade(value: float) -> str:
  """Returns the power of ten above a difference, `0` of none."""
  return f'1e{math.ceil(math.log10(value))}' if value else '0'


def main() -> int:
  text, recorder = PAGE.read_text(encoding='utf-8'), Recorder()
  tests = [row[4] for row in ROW.finditer(text)]
  pytest.main([
      '-q', '-n', '0', '-p', 'no:cacheprovider', *sorted(set(tests)),
  ], plugins=[recorder])
  unmeasured = [test for test in tests if not recorder.numbers[test]]
  if recorder.failed or unmeasured:
    print(f'Not written: {[*recorder.failed, *unmeasured]}', file=sys.stderr)
    return 1
  PAGE.write_text(measured(text, recorder), encoding='utf-8')
  return 0


if __name__ == '__main__':
  sys.exit(main())
