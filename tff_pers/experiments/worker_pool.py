"""Work that several processes share, each on cores of its own."""

from concurrent import futures
from concurrent.futures import process
import multiprocessing
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
from tff_pers.experiments import side_by_side
from tff_pers.runtime import native
from tff_pers.runtime import worker_process

# With more, the memory of TensorFlow counts, too.
_MOST = 2


def number(asked: int, num_tasks: int) -> int:
  """Returns how many tasks run at a time.

  Args:
    asked: `--jobs`; 0: as many as there are cores, at most 2.
    num_tasks: How many there are.
  """
  return min(asked or min(side_by_side.num_cores(), _MOST), max(num_tasks, 1))


class WorkerPool:
  """Processes that do tasks; with one worker it is this process alone."""

  def __init__(self, workers: int):
    """Starts no process yet.

    Args:
      workers: How many tasks run at a time. The cores are dealt to the workers.
    """
    self._pool = None
    if workers > 1:
      context = multiprocessing.get_context('fork' if _can_fork() else 'spawn')
      shares = context.Queue()
      cores = sorted(os.sched_getaffinity(0))
      for worker in range(workers):
        shares.put(cores[worker % len(cores)::workers])
      self._pool = futures.ProcessPoolExecutor(
          workers, context, _start, (shares, os.getpid(), quiet.is_begun())
      )

  def map(
      self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
  ) -> list[Any]:
    """Returns `function(*task)` of every task, begun in this order.

    Raises:
      flags.Failure: If a process ended. What else a task raises passes through;
        no further ones are begun.
    """
    if self._pool is None:
      return [function(*task) for task in tasks]
    running = [self._pool.submit(function, *task) for task in tasks]
    try:
      return [future.result() for future in running]
    except process.BrokenProcessPool as error:
      raise flags.Failure(
          'A process that trained was ended from outside, maybe because there'
          ' was no memory left. Tip: --jobs=1; the same command goes on.'
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
      # Else we would wait for what they are doing.
      for child in multiprocessing.active_children():
        child.terminate()
    self._pool.shutdown()


def _start(shares, parent: int, is_quiet: bool) -> None:
  """Prepares a process: it has cores of its own and ends with its parent."""
  if is_quiet:
    quiet.begin()
  os.sched_setaffinity(0, shares.get())
  worker_process.end_with_parent(signal.SIGKILL)
  if os.getppid() != parent:  # It ended before the line above.
    os.kill(os.getpid(), signal.SIGKILL)
  native.drop_default_context()
  # Ctrl-C reaches all; the parent ends us.
  signal.signal(signal.SIGINT, signal.SIG_IGN)


def _can_fork() -> bool:
  """Returns whether children can begin as copies of this process.

  A copy has imported everything, which is most of what a small run costs. It
  lacks all threads but ours, and cannot use this process's GPU.
  """
  eager = eager_context.context_safe()
  return (
      # pylint: disable-next=protected-access
      (eager is None or not eager._initialized)
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
