"""Runs tests of a tree in processes forked off one that has the imports.

Importing TensorFlow and TFF takes several seconds, more than most of the tests
that a planted fault is tried on. So one process imports them and forks a child
for every set of tests; a child imports our code from its own tree. No operation
of TensorFlow may run before a fork: TensorFlow starts its threads with the
first, and threads do not survive a fork. Importing alone starts none of them.
"""

import json
import os
import pathlib
import signal
import sys
import time
from typing import Dict, Iterable, Iterator, NamedTuple, Sequence, Tuple

_POLL_SECONDS = 0.05


class Task(NamedTuple):
  """Tests to be run in a tree.

  Attributes:
    key: Whatever tells tasks apart.
    tree: Folder of the tree.
    output: Path, without a suffix, of the files that the child writes.
    tests: What pytest is told to run.
    stop_at_failure: Whether the first failure ends it.
  """

  key: object
  tree: pathlib.Path
  output: pathlib.Path
  tests: Tuple[str, ...]
  stop_at_failure: bool


class Result(NamedTuple):
  """The outcome of a task.

  Attributes:
    key: That of the task.
    code: Exit code of pytest; None if it was cut off.
    passed: Tests that passed.
    failed: Tests that failed, with the type of their exception.
    seconds: Duration.
    log: Output of pytest.
  """

  key: object
  code: object
  passed: Sequence[str]
  failed: Dict[str, str]
  seconds: float
  log: str


class _Recorder:
  """A plugin of pytest that notes which tests passed and which failed."""

  def __init__(self):
    self.passed, self.failed = [], {}

  def pytest_runtest_makereport(self, item, call):
    if call.excinfo is not None and call.excinfo.typename != 'Skipped':
      self.failed[item.nodeid] = call.excinfo.typename
    elif call.when == 'call' and call.excinfo is None:
      self.passed.append(item.nodeid)


def run(
    tasks: Iterable[Task], num_jobs: int, limit_seconds: float
) -> Iterator[Result]:
  """Yields the results of the tasks as they end, `num_jobs` at a time.

  `tasks` is consumed lazily: a generator may make the tree of a task when its
  turn comes. A child and all processes that it leaves are killed when it ends,
  and when its time is over.
  """
  tasks = iter(tasks)
  running = {}  # By process id: (task, when it was started).
  try:
    while True:
      while len(running) < num_jobs:
        task = next(tasks, None)
        if task is None:
          break
        running[_start(task)] = (task, time.monotonic())
      if not running:
        return
      time.sleep(_POLL_SECONDS)
      for pid, (task, start) in list(running.items()):
        seconds = time.monotonic() - start
        is_over = os.waitpid(pid, os.WNOHANG)[0] == pid
        if is_over or seconds > limit_seconds:
          _kill(pid)
          if not is_over:
            os.waitpid(pid, 0)
          del running[pid]
          yield _result(task, seconds)
  finally:
    for pid in running:
      _kill(pid)
      os.waitpid(pid, 0)


def _start(task: Task) -> int:
  """Returns the process id of a child that runs the task."""
  sys.stdout.flush()
  sys.stderr.flush()
  pid = os.fork()
  if pid:
    return pid
  try:
    os.setsid()  # A group of its own, so that nothing outlives it.
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, signal.SIG_DFL)
    _work(task)
  finally:
    os._exit(0)  # pylint: disable=protected-access


def _work(task: Task) -> None:
  """What a child does: runs pytest, writes a report."""
  with open(task.output.with_suffix('.log'), 'wb') as log:
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
  os.chdir(task.tree)
  _import_from(task.tree)
  import pytest  # pylint: disable=g-import-not-at-top
  recorder = _Recorder()
  options = ['-q', '--tb=short', '-p', 'no:cacheprovider', '-m', '']
  if task.stop_at_failure:
    options.append('-x')
  code = int(pytest.main([*options, *task.tests], plugins=[recorder]))
  sys.stdout.flush()
  report = dict(code=code, passed=recorder.passed, failed=recorder.failed)
  task.output.with_suffix('.json').write_text(json.dumps(report))


def _import_from(tree: pathlib.Path) -> None:
  """Makes imports find the packages of `tree`, and no others of these names."""
  ours = {path.parent.name for path in tree.glob('*/__init__.py')}
  for name in list(sys.modules):
    if name.partition('.')[0] in ours:
      del sys.modules[name]
  sys.path.insert(0, str(tree))
  sys.path_importer_cache.clear()
  sys.meta_path[:] = [  # Finders of an editable installation.
      finder for finder in sys.meta_path
      if '__editable__' not in getattr(finder, '__module__', '')
  ]


def _result(task: Task, seconds: float) -> Result:
  log, report = map(task.output.with_suffix, ('.log', '.json'))
  found = dict(code=None, passed=[], failed={})
  if report.is_file():
    found = json.loads(report.read_text())
  text = log.read_text(errors='replace') if log.is_file() else ''
  return Result(task.key, seconds=seconds, log=text, **found)


def _kill(pid: int) -> None:
  """Kills the group of a child."""
  try:
    os.killpg(pid, signal.SIGKILL)
  except ProcessLookupError:
    pass  # All of it has ended.
