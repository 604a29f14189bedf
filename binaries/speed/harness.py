"""What benchmarks of speed share: clocks, turns, child processes, tables."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from tff_pers.experiments import flags as flags_lib
from tff_pers.runtime import native


# Of programs that measure one runtime.
RUNTIME_FLAG = flags_lib.own_flag(
    'runtime', 'fused', 'Runtime that runs the rounds.',
    choices=('fused', 'native'),
)


class Cost(NamedTuple):
  """Seconds: wall time, and CPU time of all threads and `processes`."""

  wall: float
  cpu: float


def measure_flag(what: str, **limits: Any) -> tuple[str, flags_lib.Flag]:
  """Returns --measure of programs that measure in processes of their own.

  `what` is what one process measures, such as 'one size'; for the limits of its
  values, see `flags.own_flag`.
  """
  return flags_lib.own_flag(
      'measure', '', f'Measures {what} in this process and prints JSON; empty:'
      ' a table of all, each measured in its own process.', **limits,
  )


def in_own_process(module: str, *words: str, **flags: Any) -> Any:
  """Returns what a program prints as JSON, run by a fresh interpreter."""
  output = subprocess.run(
      [sys.executable, '-m', module, *words, *flags_lib.as_words(flags)],
      check=True, stdout=subprocess.PIPE, text=True,
  ).stdout
  return json.loads(output.splitlines()[-1])


def processes() -> dict[str, int]:
  """Returns the ids of this process and, if it runs, of TFF's worker."""
  found = dict(python=os.getpid(), worker=native.worker_pid())
  return {name: pid for name, pid in found.items() if pid is not None}


def cpu_seconds(pid: int) -> float:
  """Returns the CPU seconds of a process since its start."""
  # Linux's CPU clock of a process, computed as in `clock_getcpuclockid`: its
  # resolution is 1 ns, psutil's 10 ms.
  return time.clock_gettime(~pid << 3 | 2)


def memory(pid: int, field: str = 'VmHWM') -> int:
  """Returns bytes of a process: its peak (`VmHWM`) or now (`VmRSS`).

  Raises:
    ProcessLookupError: If the process has ended.
  """
  status = pathlib.Path(f'/proc/{pid}/status').read_text(encoding='utf-8')
  lines = [t for t in status.splitlines() if t.startswith(field + ':')]
  if not lines:
    raise ProcessLookupError(f'Process {pid} has ended.')  # A zombie.
  return int(lines[0].split()[1]) * 1024


def timed(call: Callable[[], Any]) -> Cost:
  """Returns the cost of a call."""
  def now():
    return time.perf_counter(), sum(map(cpu_seconds, processes().values()))
  before = now()
  call()
  return Cost(*(b - a for a, b in zip(before, now())))


def in_turn(
    calls: Mapping[Any, Callable[[], Any]], repetitions: int
) -> dict[Any, list[Cost]]:
  """Returns the costs of each call in every turn.

  A turn makes all calls, so that a change in the machine's load affects all of
  them and cancels in the ratios of a turn. What calls trace must be traced
  before.
  """
  turns = [
      {name: timed(call) for name, call in calls.items()}
      for _ in range(repetitions)
  ]
  return {name: [turn[name] for turn in turns] for name in calls}


def median(costs: Sequence[Cost]) -> Cost:
  """Returns the medians of costs."""
  return Cost(*map(statistics.median, zip(*costs)))


def median_ratio(costs: Sequence[Cost], others: Sequence[Cost]) -> Cost:
  """Returns the medians of the ratios within a turn."""
  return median([
      Cost(own.wall / max(other.wall, 1e-9), own.cpu / max(other.cpu, 1e-9))
      for own, other in zip(costs, others)
  ])


def print_header(*columns: str) -> None:
  """Prints the first lines of a Markdown table."""
  print_row(*columns)
  print('|---' * len(columns) + '|', flush=True)


def print_row(*cells: Any) -> None:
  """Prints a row of a Markdown table."""
  print(f'| {" | ".join(map(str, cells))} |', flush=True)
