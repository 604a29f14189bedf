"""Distributes tasks over processes, each with its own cores."""

from concurrent import futures
from concurrent.futures import process
import multiprocessing
from multiprocessing import util
import os
import signal
import sys
import threading
from typing import Any, Callable, Sequence

import tensorflow as tf

# Whether TensorFlow has started its threads is not public.
from tensorflow.python.eager import context as eager_context

from tff_pers.experiments import flags
from tff_pers.experiments import quiet
from tff_pers.runtime import native
from tff_pers.runtime import worker_process

# More processes would need too much memory for TensorFlow.
_MOST = 2


# Older ones fork from a pool that has started its threads (Python issue 90622).
_FORKS_AT_ONCE = sys.version_info >= (
    (3, 10, 5) if sys.version_info >= (3, 10) else (3, 9, 13)
)


def number(asked: int, num_tasks: int) -> int:
  """Returns the number of parallel tasks; `--jobs=0` is min(cores, 2)."""
  num_jobs = asked or min(len(os.sched_getaffinity(0)), _MOST)
  return min(num_jobs, max(num_tasks, 1))


class WorkerPool:
  """Runs tasks in processes; with one worker, in this process."""

  def __init__(self, workers: int):
    """Forks the workers; those that are not forked start with their tasks.

    Each of them runs one task at a time and gets its own cores.
    """
    self._pool = None
    if workers > 1:
      method = 'fork' if _can_fork() else 'spawn'
      context = multiprocessing.get_context(method)
      shares = context.SimpleQueue()  # Unlike `Queue`, it starts no thread.
      cores = sorted(os.sched_getaffinity(0))
      for worker in range(workers):
        shares.put(cores[worker % len(cores)::workers])
      self._pool = futures.ProcessPoolExecutor(
          workers, context, _start, (shares, os.getpid(), quiet.is_begun())
      )
      if method == 'fork':  # All of them here, before anybody starts a thread.
        self._pool.submit(os.getpid).result()

  def map(
      self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
  ) -> list[Any]:
    """Returns `function(*task)` for every task, begun in this order.

    Raises:
      flags.Failure: If a process was killed. Other errors of a task are raised
        as they are, and no further tasks are begun.
    """
    if self._pool is None:
      return [function(*task) for task in tasks]
    running = [self._pool.submit(function, *task) for task in tasks]
    try:
      return [future.result() for future in running]
    except process.BrokenProcessPool as error:
      raise flags.Failure(
          'A training process was killed from outside, perhaps because memory'
          ' ran out. Tip: --jobs=1; rerun the same command to resume.'
      ) from error
    except BaseException:
      for future in running:
        future.cancel()
      raise

  def __enter__(self):
    return self

  def __exit__(self, kind, error, trace):
    if self._pool is None:
      return
    if kind is not None:
      # Otherwise we would wait for the running tasks.
      for child in multiprocessing.active_children():
        child.terminate()
    self._pool.shutdown()


def _start(shares, parent: int, is_quiet: bool) -> None:
  """Gives a process its own cores, and ends it with its parent."""
  signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Not that of the program.
  if is_quiet:
    quiet.begin()
  os.sched_setaffinity(0, shares.get())
  worker_process.end_with_parent(signal.SIGKILL)
  if os.getppid() != parent:  # The parent ended before the line above.
    os.kill(os.getpid(), signal.SIGKILL)
  native.drop_default_context()
  # Forked processes end without `atexit`.
  util.Finalize(None, native.stop, exitpriority=0)
  # Ctrl-C reaches all processes; the parent ends this one.
  signal.signal(signal.SIGINT, signal.SIG_IGN)


def _can_fork() -> bool:
  """Returns whether children can begin as copies of this process.

  A copy has imported everything, which is most of what a small run costs. It
  lacks all threads but ours, and cannot use this process's GPU.
  """
  eager = eager_context.context_safe()
  return (
      _FORKS_AT_ONCE
      # pylint: disable-next=protected-access
      and (eager is None or not eager._initialized)
      and all(map(_is_idle, threading.enumerate()))
      and not tf.config.list_physical_devices('GPU')
  )


def _is_idle(thread: threading.Thread) -> bool:
  """Whether a thread is this one, or that of TFF's own context.

  TFF starts it when it is imported; nothing uses it without that context.
  """
  # pylint: disable-next=protected-access
  frame = sys._current_frames().get(thread.ident or 0)
  while frame and not frame.f_code.co_filename.endswith('async_utils.py'):
    frame = frame.f_back
  return thread is threading.current_thread() or frame is not None
