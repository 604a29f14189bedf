"""A child process that runs rounds, and its CPU time and memory."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
from typing import Any, Callable, Sequence

import psutil

from binaries.speed import harness

_ROOT = pathlib.Path(__file__).resolve().parents[2]


class ChildError(RuntimeError):
  """The child ended too early; the message is its last line of output."""


class Child:
  """A process that runs a round on request (see `lines`).

  Attributes:
    device: `cpu` or `gpu`, as the process reports.
    wall: Wall seconds of every round so far.
  """

  def __init__(self, command: Sequence[str]):
    """Starts `command` and waits until it is ready.

    Raises:
      ChildError: If it ends before it is ready.
    """
    self._errors = tempfile.TemporaryFile('w+')
    environment = dict(
        os.environ, TF_CPP_MIN_LOG_LEVEL='3', PYTHONPATH=os.pathsep.join(
            filter(None, [str(_ROOT), os.environ.get('PYTHONPATH')])
        ),
        # Several children share a GPU; by default each takes all of its memory.
        TF_FORCE_GPU_ALLOW_GROWTH='true', XLA_PYTHON_CLIENT_PREALLOCATE='false',
    )
    self._process = subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=self._errors,
    )
    assert self._process.stdin is not None
    assert self._process.stdout is not None
    self._stdin, self._stdout = self._process.stdin, self._process.stdout
    self.device = self._read()['device']
    self.wall: list[float] = []
    self._cpu: list[float] = []  # Used up to the start of every round.

  def play(self) -> float:
    """Runs a round; returns its wall seconds.

    Raises:
      ChildError: If the child ends.
    """
    self._cpu.append(self.cpu_seconds())
    with contextlib.suppress(BrokenPipeError):  # `_read` reports the reason.
      print(file=self._stdin, flush=True)
    self.wall.append(self._read()['seconds'])
    return self.wall[-1]

  def median(self, rounds: int) -> harness.Cost:
    """Returns the median cost of the last `rounds` rounds.

    What a runtime does after a round has returned counts as that round's.
    """
    cpu = [*self._cpu[-rounds:], self.cpu_seconds()]
    return harness.median([
        harness.Cost(wall, after - before)
        for wall, before, after in zip(self.wall[-rounds:], cpu, cpu[1:])
    ])

  def cpu_seconds(self) -> float:
    """Returns CPU seconds of the child and its children since their start.

    Raises:
      ChildError: If the child has ended.
    """
    return self._sum(harness.cpu_seconds)

  def memory(self, field: str) -> int:
    """Returns bytes of all processes: now (`VmRSS`) or peaks (`VmHWM`).

    Raises:
      ChildError: If the child has ended.
    """
    return self._sum(lambda pid: harness.memory(pid, field))

  def __enter__(self):
    return self

  def __exit__(self, *error):
    with contextlib.suppress(BrokenPipeError):  # The child has ended already.
      self._stdin.close()
    self._process.wait()
    self._stdout.close()
    self._errors.close()

  def _sum(self, measure: Callable[[int], Any]) -> Any:
    """Returns the sum over the child and its living children."""
    try:
      process = psutil.Process(self._process.pid)
      total, others = measure(process.pid), process.children(recursive=True)
    except (OSError, psutil.NoSuchProcess) as error:
      raise self._ended() from error
    for other in others:
      with contextlib.suppress(OSError):  # The grandchild has ended.
        total += measure(other.pid)
    return total

  def _read(self) -> Any:
    line = self._stdout.readline()
    if line:
      return json.loads(line)
    raise self._ended()

  def _ended(self) -> ChildError:
    """Returns why the child has ended."""
    code = self._process.wait()
    self._errors.seek(0)
    written = [t for t in self._errors.read().splitlines() if t.strip()]
    return ChildError((written or [f'exit code {code}'])[-1])
