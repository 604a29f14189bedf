"""Which tests are slow, and which take a while: measured, not guessed.

    make test-all ARGS=--slowest              # Measures, on a quiet machine.
    .venv/bin/python -m tests.levels          # Writes levels.txt from that.

`levels.txt` has a line for every test that takes more than a moment: its level,
CPU seconds without set-up, and name, without brackets if all of its cases are
of one level. Tests that were not measured keep their lines. `make test-quick`
leaves out both levels, `make test` those that are `slow`, `make test-all` none.
A test is slow if it takes `_SLOW` CPU seconds, unless

* it is the cheapest test of a planted fault (`tests/mutants/lists`) and takes at
  most `_MOST`: no fault that the tests know gets past `make test` for seconds;
* `levels_kept.txt` names it, or it is the cheapest of its file.

A test that no line names is quick, until it is measured; of the contracts of
methods, whose time is that of building each method, `make test-quick` runs those
of `_QUICK_METHODS`.
"""

import json
import pathlib
import re
from typing import Optional

import pytest

LIST = pathlib.Path(__file__).with_name('levels.txt')
KEPT = LIST.with_name('levels_kept.txt')
MEASURED = pathlib.Path('build/test_seconds.json')
LEVELS = ('medium', 'slow')
_MEDIUM, _SLOW, _MOST = 0.3, 0.4, 6.0
_CONTRACTS = 'tests/contracts/methods_test.py'
_QUICK_METHODS = ('fedavg', 'fedhm', 'ffgg', 'floral', 'local_update')


def mark(items: list) -> None:
  """Marks the tests that are not quick."""
  levels = read()
  for item in items:
    level = of(item.nodeid, levels)
    if level is not None:
      item.add_marker(getattr(pytest.mark, level))


def of(name: str, levels: dict) -> Optional[str]:
  """Returns the level of a test; None: it is quick."""
  test, _, case = name.partition('[')
  level = levels.get(name, levels.get(test))
  method = re.match(r'\w+', case)
  if level or not method or not test.startswith(_CONTRACTS):
    return level
  return None if method[0] in _QUICK_METHODS else 'medium'


def read() -> dict:
  """Returns the levels by the names of tests, or of their cases."""
  found = {}
  for line in LIST.read_text(encoding='utf-8').splitlines():
    level, _, name = line.split(maxsplit=2)
    found[name] = level
  return found


def chosen(seconds: dict, rows: list) -> dict:
  """Returns the levels of tests, by name; quick ones have none.

  Args:
    seconds: CPU seconds by the names of all cases.
    rows: The names of the tests of each planted fault.
  """
  totals = dict(seconds)
  for name, value in seconds.items():
    test = name.partition('[')[0]
    if test != name:
      totals[test] = totals.get(test, 0.0) + value
  stays = kept()
  rows = [[name for name in row if name in totals] for row in rows]
  rows += _by_file(totals)
  # Rows with no cheap test first: the others may be caught by the same tests.
  for row in sorted(
      filter(None, rows), key=lambda row: -min(totals[name] for name in row)
  ):
    best = min(row, key=lambda name: (name not in stays, totals[name]))
    if totals[best] <= _MOST:
      stays.add(best)
  found = {}
  for name, value in seconds.items():
    is_kept = name in stays or name.partition('[')[0] in stays
    if value >= _SLOW and not is_kept:
      found[name] = 'slow'
    elif value >= _MEDIUM:
      found[name] = 'medium'
  return found


def kept() -> set:
  """Returns the tests that stay whatever they take."""
  named = KEPT.read_text(encoding='utf-8').splitlines()
  return {name for name in named if name and not name.startswith('#')}


def _partly(names) -> set:
  """Returns the tests of which only some cases stay."""
  return {name.partition('[')[0] for name in names if '[' in name} - names


def _by_file(names) -> list:
  """Returns the tests of each file, as if they were those of a fault."""
  files = {}
  for name in names:
    files.setdefault(name.partition('::')[0], []).append(name)
  return list(files.values())


def lines(seconds: dict, levels: dict) -> list:
  """Returns the lines of `levels.txt`, sorted by the names of tests."""
  cases = {}
  for name in seconds:
    cases.setdefault(name.partition('[')[0], []).append(name)
  found, stays = [], kept()
  partly = _partly(stays)
  for test, names in cases.items():
    own = {levels.get(name) for name in names}
    if len(own) == 1 and test not in partly:
      total = sum(seconds[name] for name in names)
      found += [(test, own.pop(), total)]
    else:
      # A line for the test itself may say that its other cases are slow.
      for name in names:
        level = levels.get(name, 'medium' if name in stays else None)
        found.append((name, level, seconds[name]))
  return [
      f'{level} {value:.1f} {name}' for name, level, value in sorted(found)
      if level is not None
  ]


def unmeasured(before: list, seconds: dict) -> list:
  """Returns the lines of tests, or of single cases, that were not measured."""
  measured = {name.partition('[')[0] for name in seconds}
  names = kept()
  partly = _partly(names)

  def is_stale(name):
    test, bracket, _ = name.partition('[')
    # What stays in `make test` is not slow, measured or not.
    if name in names or test in names:
      return True
    # Of a test that is slow but for some cases, these alone were measured.
    return name in seconds or not bracket and test in measured - partly

  return [line for line in before if not is_stale(line.split(maxsplit=2)[2])]


def main() -> None:
  from tests.mutants import faults  # pylint: disable=g-import-not-at-top
  seconds = json.loads(MEASURED.read_text(encoding='utf-8'))
  rows = [
      fault.tests for family in faults.load(faults.LISTS).values()
      for fault in family
  ]
  levels = chosen(seconds, rows)
  before = LIST.read_text(encoding='utf-8').splitlines()
  made = lines(seconds, levels) + unmeasured(before, seconds)
  made.sort(key=lambda line: line.split(maxsplit=2)[2])
  LIST.write_text('\n'.join(made) + '\n', encoding='utf-8')
  for level in (None, *LEVELS):
    own = [s for name, s in seconds.items() if levels.get(name) == level]
    print(f'{level or "quick"}: {len(own)} tests, {sum(own):.0f} CPU s')


if __name__ == '__main__':
  main()
