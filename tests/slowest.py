"""Where the time of the tests goes: CPU seconds of each, by phase.

    make test ARGS=--slowest

CPU seconds, because others may be at work on the machine; those of processes
that a test starts and waits for count, too. The last line has the peak memory
of each of pytest's workers. What the calls of all tests took, without set-up,
is written to `build/test_seconds.json`, which `levels` is made of.
"""

import collections
import json
import os
import resource

import pytest

from tests import levels

_SHOWN = 60
_CPU = 'cpu_seconds'
_PEAK = 'peak_megabytes'


def add_option(parser) -> None:
  parser.addoption(
      '--slowest', action='store_true',
      help='list the tests that take most CPU seconds, with their phases',
  )


def _cpu_seconds() -> float:
  times = os.times()
  return sum(times[:4])


class Meter:
  """Notes in every worker what a phase of a test takes."""

  @pytest.hookimpl(hookwrapper=True)
  def pytest_runtest_setup(self, item):
    yield from self._measured(item, 'setup')

  @pytest.hookimpl(hookwrapper=True)
  def pytest_runtest_call(self, item):
    yield from self._measured(item, 'call')

  @pytest.hookimpl(hookwrapper=True)
  def pytest_runtest_teardown(self, item):
    yield from self._measured(item, 'teardown')
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    item.user_properties.append((_PEAK, [os.getpid(), peak]))

  def _measured(self, item, phase):
    start = _cpu_seconds()
    yield
    item.user_properties.append((_CPU, [phase, _cpu_seconds() - start]))


class Table:
  """Prints what the workers noted."""

  def __init__(self):
    self._tests, self._peaks = {}, {}

  def pytest_runtest_logreport(self, report):
    if report.when != 'teardown':
      return
    # The last report of a test has the properties of all of its phases.
    self._tests[report.nodeid] = {
        phase: seconds
        for name, (phase, seconds) in report.user_properties if name == _CPU
    }
    for name, value in report.user_properties:
      if name == _PEAK:
        self._peaks[value[0]] = value[1]

  def pytest_terminal_summary(self, terminalreporter):
    total = {name: sum(own.values()) for name, own in self._tests.items()}
    write = terminalreporter.write_line
    write(
        f'{sum(total.values()):.0f} CPU s in {len(total)} tests; the slowest'
        ' (CPU s in all, set-up, call):'
    )
    for name in _largest(total)[:_SHOWN]:
      own = self._tests[name]
      write(
          f'{total[name]:7.1f} {own.get("setup", 0):7.1f}'
          f' {own.get("call", 0):7.1f}  {name}'
      )
    folders = collections.Counter()
    for name, seconds in total.items():
      folders['/'.join(name.partition('::')[0].split('/')[:2])] += seconds
    phases = collections.Counter()
    for own in self._tests.values():
      phases.update(own)
    write('of each phase: ' + ', '.join(
        f'{name} {seconds:.0f} s' for name, seconds in phases.items()
    ))
    write('of each folder: ' + ', '.join(
        f'{name} {folders[name]:.0f} s' for name in _largest(folders)
    ))
    levels.MEASURED.parent.mkdir(exist_ok=True)
    levels.MEASURED.write_text(json.dumps({
        name: round(own.get('call', 0), 2) for name, own in self._tests.items()
    }), encoding='utf-8')
    peaks = ', '.join(f'{peak} MB' for peak in self._peaks.values())
    write(f'peak memory of each process: {peaks}')


def _largest(values):
  """Returns the keys, that of the largest value first."""
  return sorted(values, key=values.get, reverse=True)


def register(config) -> None:
  """Measures and prints if --slowest was given."""
  if config.getoption('--slowest'):
    config.pluginmanager.register(Meter())
    if not hasattr(config, 'workerinput'):  # Not in a worker of xdist.
      config.pluginmanager.register(Table())
