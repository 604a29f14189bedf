"""TFF's own C++ worker as the runtime, started and ended properly.

Stock TFF leaves its `worker_binary` running when the interpreter exits (its
finalizer runs when `subprocess` is gone), and the orphan holds the standard
output open. Here the worker is our child: it ends with the interpreter, and
the kernel ends it when we are killed. Secure sums run as plain sums.
"""

import atexit
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Optional

from absl import logging
import grpc
import portpicker
import tensorflow_federated as tff
# Not exported by TFF: how its own contexts convert arguments and results.
from tensorflow_federated.python.core.environments.tensorflow_frontend import tensorflow_computation

_MAX_MESSAGE_BYTES = 2_000_000_000
_CHANNEL_OPTIONS = [
    ('grpc.max_message_length', _MAX_MESSAGE_BYTES),
    ('grpc.max_receive_message_length', _MAX_MESSAGE_BYTES),
    ('grpc.max_send_message_length', _MAX_MESSAGE_BYTES),
]
_START_DEADLINE_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4

# The worker may crash (see `_start`): it is started again, the call repeated,
# but not for ever.
_MAX_RESTARTS_PER_HOUR = 5

_worker: Optional[subprocess.Popen] = None
_stub: Optional[tff.framework.RemoteExecutorGrpcStub] = None
_restarts: list[float] = []


def use() -> None:
  """Starts the worker (once) and installs it as TFF's default context.

  Call it from the main thread: the worker dies with the thread that started
  it. SIGTERM then ends the interpreter with exit code 143. If the worker itself
  dies, it is started again and TFF repeats the call, which changes no result:
  computations are functions of their arguments.

  Raises:
    RuntimeError: If TFF's worker is missing or does not come up; from a later
      call, if it dies again and again.
  """
  if worker_pid() is not None:
    return
  _keep_freed_memory()
  _launch()
  atexit.register(stop)
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

  def create_executor(cardinalities):
    if worker_pid() is None:
      _relaunch()
    cardinalities.setdefault(tff.CLIENTS, 0)
    # Values are freed at once: the default waits for twenty, which are rounds.
    executor = tff.framework.RemoteExecutor(_stub, dispose_batch_size=1)
    executor.set_cardinalities(cardinalities)
    return executor

  def compile_computation(computation):
    computation = tff.backends.test.replace_secure_intrinsics_with_bodies(
        computation
    )
    return tff.backends.native.desugar_and_transform_to_native(computation)

  tff.framework.set_default_context(
      tff.framework.SyncExecutionContext(
          executor_fn=tff.framework.ResourceManagingExecutorFactory(
              executor_stack_fn=create_executor
          ),
          compiler_fn=compile_computation,
          transform_args=tensorflow_computation.transform_args,
          transform_result=tensorflow_computation.transform_result,
      )
  )


def drop_default_context() -> None:
  """Removes TFF's own default context, for programs that may never compute.

  At exit its finalizer would print an AttributeError. A computation that is
  called before `use` then raises RuntimeError. After `use` nothing changes.
  """
  if worker_pid() is None:
    tff.framework.set_default_context(_NoContext())


class _NoContext(tff.framework.SyncContext):
  """Says what to call first."""

  def invoke(self, comp, arg):
    raise RuntimeError(
        '`tff_pers.runtime.native.use()` must be called before a computation.'
    )


def worker_pid() -> Optional[int]:
  """Returns the process id of the running worker, or None."""
  return _worker.pid if _worker is not None and _worker.poll() is None else None


def stop() -> None:
  """Ends the worker, if it runs."""
  global _worker
  if _worker is not None and _worker.poll() is None:
    _worker.kill()
    _worker.wait()
  _worker = None


def _launch() -> None:
  """Starts the worker and connects to it."""
  global _worker, _stub
  port = portpicker.pick_unused_port()
  _worker = _start(port)
  _stub = tff.framework.RemoteExecutorGrpcStub(
      grpc.insecure_channel(f'localhost:{port}', _CHANNEL_OPTIONS)
  )
  _wait(_stub)


def _relaunch() -> None:
  """Starts a worker in the place of one that died."""
  code = None if _worker is None else _worker.poll()
  now = time.monotonic()
  _restarts[:] = [t for t in _restarts if now - t < 3600] + [now]
  if len(_restarts) > _MAX_RESTARTS_PER_HOUR:
    raise RuntimeError(
        f'TFF\'s worker died {len(_restarts)} times within an hour, last with'
        f' exit code {code}. Tip: -9 means that memory ran out; use fewer'
        ' clients per round or a smaller model.'
    )
  logging.warning(
      'TFF\'s worker died (exit code %s); it is started again and the call'
      ' repeated.', code,
  )
  _launch()


def _start(port: int) -> subprocess.Popen:
  """Starts the worker on a port of this machine."""
  binary = pathlib.Path(tff.__file__).parent / 'data' / 'worker_binary'
  if not binary.is_file():
    raise RuntimeError(
        f'The native runtime needs TFF\'s worker at {binary}, found no such'
        ' file. Tip: install tensorflow-federated 0.87.0 from its wheel.'
    )
  libc = ctypes.CDLL(None)
  return subprocess.Popen(
      [
          str(binary),
          f'--port={port}',
          # More only adds threads, and all their tensors at the same time.
          f'--max_concurrent_computation_calls={os.cpu_count()}',
      ],
      stdin=subprocess.DEVNULL,
      stdout=subprocess.DEVNULL,
      env={
          **os.environ,
          # Its warnings about cancelled data pipelines say nothing to users.
          'TF_CPP_MIN_LOG_LEVEL': '3',
          # Its gRPC server detaches threads that may have ended, which crashes
          # (in glibc's pthread_detach) once their stacks are unmapped; seen
          # twice an hour on a busy machine. A large cache keeps stacks mapped.
          'GLIBC_TUNABLES': f'glibc.pthread.stack_cache_size={2**32}',
          # See `_keep_freed_memory`.
          'MALLOC_MMAP_MAX_': '0',
          'MALLOC_TRIM_THRESHOLD_': str(2**40),
      },
      preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
  )


def _keep_freed_memory() -> None:
  """Lets the allocator reuse large blocks instead of returning them.

  Every round moves the server state between the processes through buffers of
  its size; fresh pages for them cost more CPU than the copies (measured: a
  state of 40 MB takes 0.6 s of CPU per round instead of 1.0 s).
  """
  libc = ctypes.CDLL(None)
  if hasattr(libc, 'mallopt'):
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _wait(stub) -> None:
  """Waits until the worker answers."""
  deadline = time.monotonic() + _START_DEADLINE_SECONDS
  while not stub.is_ready:
    if _worker.poll() is not None or time.monotonic() > deadline:
      stop()
      raise RuntimeError('TFF\'s worker did not come up within 60 s.')
    time.sleep(0.05)
