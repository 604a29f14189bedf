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

_worker: Optional[subprocess.Popen] = None


def use() -> None:
  """Starts the worker (once) and installs it as TFF's default context.

  Call it from the main thread: the worker dies with the thread that started
  it. SIGTERM then ends the interpreter with exit code 143.

  Raises:
    RuntimeError: If TFF's worker is missing or does not come up.
  """
  global _worker
  if _worker is not None and _worker.poll() is None:
    return
  port = portpicker.pick_unused_port()
  _keep_freed_memory()
  _worker = _start(port)
  atexit.register(stop)
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
  stub = tff.framework.RemoteExecutorGrpcStub(
      grpc.insecure_channel(f'localhost:{port}', _CHANNEL_OPTIONS)
  )
  _wait(stub)

  def create_executor(cardinalities):
    cardinalities.setdefault(tff.CLIENTS, 0)
    executor = tff.framework.RemoteExecutor(stub)
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
