"""Plants the faults of the lists, and says which ones no test catches.

    make test-mutants FAMILY=perm
    make test-mutants ARGS="--fast --sample=200"  # What does `make test` catch?

First the tests of all rows run in a copy of the tree as it is: a row whose
tests fail there is wrong. Then each fault is planted in a copy of its own, and
the tests of its row run there. The working tree is never changed. A fault is
caught if a test of its row fails. The exit code is 1 if a fault is missed or a
row does not fit the tree (see `faults`). `--verbose` shows what pytest said.
"""

import argparse
import collections
import contextlib
import importlib
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
# The trees of the children must not share compiled files with one another.
sys.dont_write_bytecode = True
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
# Plugins that pytest would load by itself have no part in what is tested.
os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'

from tests.mutants import faults  # pylint: disable=wrong-import-position
from tests.mutants import forks  # pylint: disable=wrong-import-position

_PRELOADED = (
    'hypothesis.strategies,pytest,scipy.stats,sklearn.datasets,tensorflow,'
    'tensorflow_federated'
)
# Neither code nor what tests read; the names of the copies' own caches.
_NOT_COPIED = (
    '.*', '__pycache__', '*.egg-info', 'bazel-*', 'build', 'runs',
)
_LIMIT_SECONDS = 600


def _flags(arguments):
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument('--family', help='only the faults of this family')
  parser.add_argument('--name', help='only the faults of this name')
  parser.add_argument(
      '--sample', type=int, help='only so many faults, drawn by seed 0'
  )
  parser.add_argument(
      '--fast', action='store_true', help='without tests that are marked slow'
  )
  parser.add_argument('--jobs', type=int, default=min(2, os.cpu_count() or 1))
  parser.add_argument(
      '--verbose', action='store_true',
      help='show the output of pytest for missed faults and wrong rows',
  )
  # For the test of this program, which has a tree of its own.
  for name, default in (
      ('--root', ROOT), ('--lists', faults.LISTS), ('--preload', _PRELOADED)
  ):
    parser.add_argument(name, default=str(default), help=argparse.SUPPRESS)
  return parser.parse_args(arguments)


def _selected(flags):
  """Returns the rows of the lists that were asked for, (family, fault)."""
  families = faults.load(pathlib.Path(flags.lists))
  if flags.family is not None and flags.family not in families:
    raise SystemExit(
        f'`--family` must be one of {", ".join(families)}, found'
        f' {flags.family}.'
    )
  rows = [
      (family, fault)
      for family, rows in families.items() if flags.family in (None, family)
      for fault in rows if flags.name in (None, fault.name)
  ]
  if not rows:
    raise SystemExit(f'`--name` must be that of a fault, found {flags.name}.')
  if flags.sample is None:
    return rows
  return random.Random(0).sample(rows, min(flags.sample, len(rows)))


class _Report:
  """The verdict on every row, and what is printed about it."""

  def __init__(self, rows, verbose: bool):
    self._rows, self._verbose = rows, verbose
    self._verdicts = {}  # By row: (verdict, remark, seconds).
    self._width = max(len(f'{family}: {f.name}') for family, f in rows)

  def add(self, row, verdict: str, remark: str, seconds: float = 0.0, log=''):
    """Notes and prints the verdict on a row: caught, missed or error."""
    self._verdicts[row] = (verdict, remark, seconds)
    count = f'[{len(self._verdicts):3}/{len(self._rows)}]'
    name = f'{row[0]}: {row[1].name}'
    print(
        f'{count} {name:<{self._width}}  {verdict:<6} {seconds:5.1f} s '
        f' {remark}', flush=True,
    )
    if self._verbose and verdict != 'caught':
      print(log, flush=True)

  def open_rows(self):
    return [row for row in self._rows if row not in self._verdicts]

  def summarize(self, seconds: float) -> bool:
    """Prints the table; returns whether every fault was caught."""
    counts = collections.defaultdict(collections.Counter)
    for (family, _), (verdict, _, duration) in self._verdicts.items():
      for name in (family, 'all'):
        counts[name].update({verdict: 1, 'faults': 1, 'seconds': duration})
    print(f'\n{"family":<12} faults  caught  missed  errors  seconds')
    for name, c in sorted(counts.items(), key=lambda item: item[0] == 'all'):
      print(
          f'{name:<12} {c["faults"]:6}  {c["caught"]:6}  {c["missed"]:6}  '
          f'{c["error"]:6}  {c["seconds"]:7.0f}'
      )
    print(f'{seconds / 60:.1f} min in all')
    bad = [r for r in self._rows if self._verdicts[r][0] != 'caught']
    for row in bad:
      verdict, remark, _ = self._verdicts[row]
      print(
          f'{verdict.upper()} {row[0]}: {row[1].name} ({row[1].file}):'
          f' {row[1].what if verdict == "missed" else remark}'
      )
    return not bad


def _copy(root: pathlib.Path, tree: pathlib.Path) -> pathlib.Path:
  shutil.copytree(
      root, tree, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED)
  )
  return tree


def _clean_tests(report, root, scratch, flags):
  """Runs the named tests without a fault; returns those that pass.

  One child per file of tests: tests of one file share what they build.
  """
  by_file = collections.defaultdict(set)
  for _, fault in report.open_rows():
    for test in fault.tests:
      by_file[test.partition('::')[0]].add(test)
  tree = _copy(root, scratch / 'clean')

  def tasks():
    for position, (path, tests) in enumerate(sorted(by_file.items())):
      output = scratch / f'clean{position}'
      yield forks.Task(path, tree, output, tuple(sorted(tests)), False)

  passed = set()
  for result in forks.run(tasks(), flags.jobs, _LIMIT_SECONDS):
    wanted = by_file[result.key]
    good = {test for test in wanted if _passes(test, result)}
    passed |= good
    print(
        f'clean: {result.key}: {len(good)} of {len(wanted)} tests pass,'
        f' {result.seconds:.1f} s', flush=True,
    )
    if flags.verbose and good != wanted:
      print(result.log, flush=True)
  return passed


def _passes(test: str, result: forks.Result) -> bool:
  """Whether a test passes with all of its parameters."""
  def is_case(name):
    return name == test or name.startswith(test + '[')
  return any(map(is_case, result.passed)) and not any(
      map(is_case, result.failed)
  )


def _plant_all(report, root, scratch, flags):
  """Plants the faults of all rows that are still open, and runs their tests."""

  def tasks():
    for position, row in enumerate(report.open_rows()):
      fault = row[1]
      tree = _copy(root, scratch / f'fault{position}')
      (tree / fault.file).write_text(
          faults.planted(fault, root), encoding='utf-8'
      )
      output = scratch / f'output{position}'
      yield forks.Task((row, tree), tree, output, fault.tests, True)

  for result in forks.run(tasks(), flags.jobs, _LIMIT_SECONDS):
    row, tree = result.key
    shutil.rmtree(tree)
    report.add(row, *_verdict(result), result.seconds, result.log)


def _verdict(result: forks.Result):
  """Returns (verdict, remark) on a planted fault."""
  if result.failed:
    test, exception = next(iter(result.failed.items()))
    return 'caught', f'{test.partition("::")[2]} ({exception})'
  if result.code == 0:
    return 'missed', ''
  if result.code is None:
    return 'error', 'the tests did not end'
  return 'error', f'no test ran, exit code {result.code} of pytest'


def main(arguments=None) -> int:
  flags = _flags(arguments)
  start = time.monotonic()
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
  root = pathlib.Path(flags.root)
  if flags.fast:
    os.environ['PYTEST_ADDOPTS'] = '-m "not slow"'
  report = _Report(_selected(flags), flags.verbose)
  for row in report.open_rows():
    error = faults.error(row[1], root)
    if error is not None:
      report.add(row, 'error', error)
  for module in flags.preload.split(','):
    importlib.import_module(module)
  with contextlib.ExitStack() as stack:
    scratch = pathlib.Path(
        stack.enter_context(tempfile.TemporaryDirectory(prefix='mutants'))
    )
    passed = _clean_tests(report, root, scratch, flags)
    for row in report.open_rows():
      failing = [test for test in row[1].tests if test not in passed]
      if flags.fast and len(failing) < len(row[1].tests):
        continue
      if failing and flags.fast:
        report.add(row, 'missed', 'none of its tests is fast')
      elif failing:
        report.add(row, 'error', f'{failing[0]} fails without the fault')
    _plant_all(report, root, scratch, flags)
  return 0 if report.summarize(time.monotonic() - start) else 1


if __name__ == '__main__':
  sys.exit(main())
