"""Runs programs in parallel, each on its own cores."""

import concurrent.futures
import os
import queue
import signal
import subprocess
import sys
from typing import Mapping, Sequence

from tff_pers.runtime import worker_process


def num_cores() -> int:
  """Returns how many cores this process may use."""
  return len(os.sched_getaffinity(0))


def run(programs: Mapping[str, Sequence[str]], jobs: int) -> dict[str, int]:
  """Runs modules as programs; returns their exit codes.

  All of them finish, even if others fail. Their output is printed line by
  line, prefixed by their names. They end with this process.

  Args:
    programs: By name, a module and its flags.
    jobs: Number of parallel programs, at least 1. Each gets its own cores,
      because small operations of threads that share cores wait for each other.
  """
  cores = sorted(os.sched_getaffinity(0))
  shares: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
  for i in range(jobs):
    shares.put(cores[i % len(cores)::jobs])
  running = set()

  def run_one(name: str) -> int:
    share = shares.get()
    process = _start(programs[name], share)
    running.add(process)
    with process:
      assert process.stdout is not None  # It is a pipe.
      for line in process.stdout:
        print(f'{name}: {line}', end='', flush=True)
    running.remove(process)
    shares.put(share)
    return process.returncode

  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    try:
      return dict(zip(programs, pool.map(run_one, programs)))
    except BaseException:  # Above all Ctrl-C.
      pool.shutdown(wait=False, cancel_futures=True)
      for process in list(running):
        process.terminate()
      raise


def _start(program: Sequence[str], cores: Sequence[int]) -> subprocess.Popen:
  def prepare():
    os.sched_setaffinity(0, cores)
    worker_process.end_with_parent(signal.SIGKILL)

  return subprocess.Popen(
      [sys.executable, '-m', *program], stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE, text=True, preexec_fn=prepare,
      env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
  )
