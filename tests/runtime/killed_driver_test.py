"""A driver is killed in a round: its workers stop and are free again.

    python -m pytest -s tests/runtime/killed_driver_test.py
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tests.runtime import held_driver
from tests.runtime import workers

# Of the clients' data; more with TFF_PERS_MEGABYTES=1500.
_MEGABYTES = int(os.environ.get('TFF_PERS_MEGABYTES', '240'))
_WINDOW_SECONDS = 2.0
_PATIENCE_SECONDS = 240.0  # For the data to be sent, on a busy machine.


def _start(folder, addresses):
  return subprocess.Popen(
      [sys.executable, '-m', 'tests.runtime.held_driver', str(folder),
       str(_MEGABYTES), *addresses],
      cwd=workers.ROOT, stdout=subprocess.PIPE, text=True,
  )


def _memory(program) -> int:
  """Bytes of a worker program and of TFF's worker, now."""
  return sum(process.memory_info().rss for process in program.processes())


def _load(program) -> float:
  """Mean number of processors that it keeps busy, in a while from now."""
  def used():
    times = [process.cpu_times() for process in program.processes()]
    return sum(each.user + each.system for each in times)
  before = used()
  time.sleep(_WINDOW_SECONDS)
  return (used() - before) / _WINDOW_SECONDS


class _Peak:
  """The highest memory of programs while it is measured, in a `with` block.

  The system keeps the peak of every process, so few looks are enough.
  """

  def __init__(self, programs):
    self._programs = programs
    self._ended = threading.Event()
    self._thread = threading.Thread(target=self._measure, daemon=True)
    self.bytes = [0] * len(programs)

  def _measure(self):
    while not self._ended.wait(0.5):
      for i, program in enumerate(self._programs):
        # It may be being started afresh.
        with contextlib.suppress(OSError, psutil.Error):
          now = sum(_peak_of(process) for process in program.processes())
          self.bytes[i] = max(self.bytes[i], now)

  def __enter__(self):
    self._thread.start()
    return self

  def __exit__(self, *error):
    self._ended.set()
    self._thread.join()


def _peak_of(process) -> int:
  status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
  found = re.search(r'VmHWM:\s+(\d+) kB', status)
  return int(found[1]) * 1024 if found else 0  # It has just ended.


@pytest.mark.slow
def test_workers_of_a_killed_driver_are_idle_and_free(tmp_path):
  with workers.running(2) as started:
    addresses = workers.addresses(started)
    unused = [_memory(program) for program in started]
    with _Peak(started) as first:
      driver = _start(tmp_path, addresses)
      workers.wait_for(
          lambda: all(
              workers.has_started(tmp_path, i)
              for i in range(held_driver.NUM_CLIENTS)
          ),
          _PATIENCE_SECONDS,
      )
    assert all(_load(program) > 0.05 for program in started)
    held = [_memory(program) for program in started]
    driver.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    driver.communicate()
    while True:
      try:
        is_idle = all(-0.05 < _load(program) < 0.05 for program in started)
        kept = [_memory(program) for program in started]
      except psutil.NoSuchProcess:  # It is being started afresh.
        continue
      seconds = time.monotonic() - killed
      assert seconds < 30
      if is_idle and all(k < 1.1 * u for k, u in zip(kept, unused)):
        break
    workers.let_go(tmp_path)
    with _Peak(started) as second:
      driver = _start(tmp_path, addresses)
      output, _ = driver.communicate(timeout=_PATIENCE_SECONDS)
  assert driver.returncode == 0 and float(output) > 0
  print(f'\nIdle and free after {seconds:.1f} s. MB of each worker:')
  for when, found in [
      ('unused', unused), ('held by the first driver', held),
      ('after it', kept), ('peak of the first', first.bytes),
      ('peak of the second', second.bytes),
  ]:
    print(f'{when}:', *(round(each / 1e6) for each in found))
  for one, two in zip(first.bytes, second.bytes):
    assert _MEGABYTES * 1e6 / held_driver.NUM_CLIENTS < two <= 1.1 * one
