"""Runs computations on TFF's own C++ worker, a child that ends with us.

The worker ends with the interpreter, and the kernel ends it if this process is
killed (see `worker_process`). Only this process can connect to it. Files that a
computation reads need absolute names. Secure sums run as plain sums.
"""

import atexit
import ctypes
import signal
import sys
import threading
from typing import Optional

from absl import logging
# Not exported by TFF: how its own contexts convert arguments and results.
from tensorflow_federated.python.core.environments.tensorflow_frontend import tensorflow_computation

from tff_pers.runtime import context
from tff_pers.runtime import errors
from tff_pers.runtime import worker_process
from tff_pers import tff

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4

_worker: Optional[worker_process.WorkerProcess] = None
_stub: Optional[tff.framework.RemoteExecutorGrpcStub] = None
_context: Optional[tff.framework.SyncExecutionContext] = None
# If the worker crashes (see `worker_process`), it is restarted and the call is
# repeated, up to a limit.
_restarts = worker_process.Restarts()
_lock = threading.Lock()  # One thread at a time starts a worker.


def use() -> context.Installed:
  """Starts the worker (once) and installs it as TFF's default context.

  SIGTERM then ends the interpreter with exit code 143, if this is the main
  thread and the program has no handler of its own. If the worker dies, it is
  restarted and TFF repeats the call, which changes no result: computations
  depend only on their arguments.

  Returns:
    The installed runtime, a context manager; the worker outlives the block.

  Raises:
    RuntimeError: If TFF's worker is missing or does not start; in a later call,
      if it keeps dying.
  """
  installed = context.Installed(get_context())
  if (
      threading.current_thread() is threading.main_thread()
      and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
  ):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
  return installed


def get_context() -> tff.framework.SyncExecutionContext:
  """Returns the context of the worker, which is started if necessary.

  Any thread may call this, and use the context. TFF's default is unchanged.

  Raises:
    RuntimeError: See `use`.
  """
  global _context
  with _lock:
    if _context is None:
      _keep_freed_memory()
      atexit.register(stop)
      _context = _create_context()
    if worker_pid() is None:
      _launch()
    return _context


def _create_context() -> tff.framework.SyncExecutionContext:
  """Returns the context that runs computations on the worker."""

  def create_executor(cardinalities):
    with _lock:
      if worker_pid() is None:
        _relaunch()
    cardinalities.setdefault(tff.CLIENTS, 0)
    # Free values at once: by default twenty are collected, which are rounds.
    executor = tff.framework.RemoteExecutor(_stub, dispose_batch_size=1)
    executor.set_cardinalities(cardinalities)
    return executor

  def compile_computation(computation):
    computation = tff.backends.test.replace_secure_intrinsics_with_bodies(
        computation
    )
    return tff.backends.native.desugar_and_transform_to_native(computation)

  return errors.ExecutionContext(
      executor_fn=tff.framework.ResourceManagingExecutorFactory(
          executor_stack_fn=create_executor
      ),
      compiler_fn=compile_computation,
      transform_args=tensorflow_computation.transform_args,
      transform_result=tensorflow_computation.transform_result,
  )


def drop_default_context() -> None:
  """Removes TFF's default context, for programs that may never compute.

  At exit, that context's finalizer would print an AttributeError. A computation
  that is called before `use` then raises RuntimeError. After `use`, this does
  nothing.
  """
  stack = tff.framework.get_context_stack()
  default = type(stack._stack[0]).__module__  # pylint: disable=protected-access
  # A runtime of this package has its own context, or has started the worker.
  if worker_pid() is None and default.startswith('tensorflow_federated'):
    tff.framework.set_default_context(_NoContext())


class _NoContext(tff.framework.SyncContext):
  """Raises an error that says what to call first."""

  def invoke(self, comp, arg):
    raise RuntimeError(
        '`tff_pers.runtime.native.use()` must be called before a computation.'
    )


def worker_pid() -> Optional[int]:
  """Returns the process id of the running worker, or None."""
  return None if _worker is None else _worker.pid


def stop() -> None:
  """Ends the worker, if it runs."""
  global _worker
  if _worker is not None:
    _worker.stop()
  _worker = None


def _launch() -> None:
  """Starts the worker and connects to it."""
  global _worker, _stub
  worker = worker_process.WorkerProcess()
  worker.wait_until_ready()
  _stub = tff.framework.RemoteExecutorGrpcStub(
      worker_process.connect(worker.address)
  )
  _worker = worker


def _relaunch() -> None:
  """Starts a worker that replaces one that died."""
  code = None if _worker is None else _worker.exit_code
  _restarts.add(code)
  logging.warning(
      'TFF\'s worker died (exit code %s); it is started again and the call'
      ' repeated.', code,
  )
  stop()
  _launch()


def _keep_freed_memory() -> None:
  """Makes the allocator reuse large blocks instead of returning them.

  Every round moves the server state between the processes through buffers of
  its size. Fresh pages for them take more CPU time than the copies (measured: a
  state of 40 MB takes 0.6 s of CPU time per round instead of 1.0 s).
  """
  libc = ctypes.CDLL(None)
  if hasattr(libc, 'mallopt'):
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
