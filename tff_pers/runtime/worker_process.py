"""Runs TFF's C++ worker as a child process that ends with its parent.

TFF leaves its `worker_binary` running when the interpreter exits (its finalizer
runs when `subprocess` is already gone), and the orphan keeps the standard
output open. Here the kernel ends the worker when its parent is gone, for
whatever reason.
"""

from concurrent import futures
import contextlib
import ctypes
import importlib.util
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import Optional

import grpc

_MAX_MESSAGE_BYTES = 2_000_000_000
_CHANNEL_OPTIONS = [
    ('grpc.max_message_length', _MAX_MESSAGE_BYTES),
    ('grpc.max_receive_message_length', _MAX_MESSAGE_BYTES),
    ('grpc.max_send_message_length', _MAX_MESSAGE_BYTES),
    ('grpc.use_local_subchannel_pool', 1),  # A separate connection.
    ('grpc.enable_http_proxy', 0),  # Workers are in the same network.
]
# An unknown method: an answer that it is unknown shows that the worker runs.
_HEARTBEAT = '/tff_pers.Worker/Heartbeat'
# The worker's gRPC server may fail a check (in ev_epoll1) while it starts.
_MAX_CRASHES = 3
# The addresses that the binary listens on, and their replacement: its port then
# is the name of a socket in its working directory.
_ALL_INTERFACES = b'\0[::]:\0'
_UNIX_SOCKET = b'\0unix:\0'
_SOCKET = 1
# A socket's path is limited to 107 characters, which TMPDIR may exceed.
_ADDRESS = f'unix:/proc/{{}}/cwd/{_SOCKET}'
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def end_with_parent(signal_number: int) -> None:
  """Makes the kernel signal us when the thread that started us ends."""
  _LIBC.prctl(_PR_SET_PDEATHSIG, signal_number)


def connect(
    address: str, credentials: Optional[grpc.ChannelCredentials] = None
) -> grpc.Channel:
  """Returns a channel to the worker at `address`, with TLS or without."""
  if credentials is None:
    return grpc.insecure_channel(address, _CHANNEL_OPTIONS)
  return grpc.secure_channel(address, credentials, _CHANNEL_OPTIONS)


def answers(channel: grpc.Channel, seconds: float) -> bool:
  """Whether the worker at the other end answers within `seconds`.

  A busy worker answers at once; one that is dead, stopped or disconnected does
  not.
  """
  call = channel.unary_unary(_HEARTBEAT)
  try:
    call(b'', timeout=seconds)
  except grpc.RpcError as error:
    return error.code() is grpc.StatusCode.UNIMPLEMENTED
  except ValueError:  # The channel was closed meanwhile.
    return False
  return True


class WorkerProcess:
  """A running `worker_binary` that listens on a socket of its own.

  The socket is in a folder that only this user may enter, because any process
  that reaches the worker can run any code. The folder is also the worker's
  working directory. The worker is killed when its parent process ends.
  """

  def __init__(self) -> None:
    """Starts the worker.

    Raises:
      RuntimeError: If the binary is missing or cannot be run.
    """
    # Its mode is 0700.
    self._folder = tempfile.TemporaryDirectory(prefix='tff_pers_worker_')
    self._launch()

  def _launch(self) -> None:
    started: futures.Future[subprocess.Popen] = futures.Future()
    threading.Thread(
        target=_start_and_wait, args=(self._folder.name, started), daemon=True
    ).start()
    self._process = started.result()

  @property
  def address(self) -> str:
    """The address for `connect`."""
    return _ADDRESS.format(self._process.pid)

  @property
  def pid(self) -> Optional[int]:
    """The process id while the worker runs, else None."""
    return self._process.pid if self._process.poll() is None else None

  @property
  def exit_code(self) -> Optional[int]:
    """The exit code of the worker; None while it runs."""
    return self._process.poll()

  def wait_until_ready(self, seconds: float = 60.0) -> None:
    """Waits until the worker answers; restarts it if it crashes meanwhile.

    Raises:
      RuntimeError: If it ends or does not answer in `seconds`; it is stopped.
    """
    deadline, crashes = time.monotonic() + seconds, 0
    try:
      while not self.answers(seconds=1.0):
        # A signal ends it after a failed check of its gRPC server.
        if (self.exit_code or 0) < 0 and crashes < _MAX_CRASHES:
          crashes += 1
          self._launch()
        elif self.pid is None:
          raise RuntimeError(
              'TFF\'s worker ended before it came up, with exit code'
              f' {self.exit_code}.'
          )
        elif time.monotonic() > deadline:
          raise RuntimeError(
              f'TFF\'s worker did not come up within {seconds:g} s.'
          )
        time.sleep(0.05)
    except BaseException:  # Also Ctrl-C.
      self.stop()
      raise

  def answers(self, seconds: float) -> bool:
    """Whether the worker answers within `seconds`."""
    channel = connect(self.address)  # At once, without backoff.
    found = answers(channel, seconds)
    channel.close()
    return found

  def stop(self) -> None:
    """Ends the worker, if it runs."""
    if self.pid is not None:
      self._process.kill()
    self._process.wait()
    self._folder.cleanup()


class Restarts:
  """Counts the deaths of workers and limits the number of restarts.

  Attributes:
    limit: Maximum number of restarts within an hour.
  """

  def __init__(self, limit: int = 5):
    self.limit = limit
    self._times: list[float] = []

  def add(self, exit_code: Optional[int]) -> None:
    """Counts one death.

    Raises:
      RuntimeError: If there have been too many deaths.
    """
    now = time.monotonic()
    self._times = [t for t in self._times if now - t < 3600] + [now]
    if len(self._times) > self.limit:
      raise RuntimeError(
          f'TFF\'s worker died {len(self._times)} times within an hour, last'
          f' with exit code {exit_code}. Tip: -9 means that memory ran out; use'
          ' fewer clients per round or a smaller model.'
      )


def _binary() -> pathlib.Path:
  """Returns the path of TFF's worker without importing TFF, which is slow."""
  package = importlib.util.find_spec('tensorflow_federated')
  # TFF is required, so the package exists and is a file.
  assert package is not None and package.origin is not None
  return pathlib.Path(package.origin).parent / 'data' / 'worker_binary'


def _private_binary(folder: str) -> pathlib.Path:
  """Returns a copy of TFF's worker in `folder` that listens there.

  The worker has no flag for its address. On all interfaces, anybody who finds
  its port could run any code, bypassing TLS.

  Raises:
    RuntimeError: If the binary is not the one we know.
  """
  path = pathlib.Path(folder) / _binary().name
  shutil.copyfile(_binary(), path)
  with open(path, 'r+b') as file, mmap.mmap(file.fileno(), 0) as content:
    place = content.find(_ALL_INTERFACES)
    if place < 0 or place != content.rfind(_ALL_INTERFACES):
      raise RuntimeError(
          f'TFF\'s worker must name its address once, found otherwise in'
          f' {_binary()}. Tip: install tensorflow-federated 0.87.0 from its'
          ' wheel.'
      )
    content[place:place + len(_UNIX_SOCKET)] = _UNIX_SOCKET
  path.chmod(0o700)
  return path


def _start_and_wait(folder: str, started: futures.Future) -> None:
  """Starts the worker and waits for its end, in a thread of its own.

  The kernel ends the worker together with this thread. The thread that asked
  for the worker may end earlier.
  """
  try:
    process = _start(folder)
  except Exception as error:  # pylint: disable=broad-except
    started.set_exception(error)
    return
  started.set_result(process)
  with contextlib.suppress(ChildProcessError):  # Another thread has waited.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def _start(folder: str) -> subprocess.Popen:
  binary = _binary()
  if not binary.is_file():
    raise RuntimeError(
        f'TFF\'s worker must be at {binary}, found no such file. Tip: install'
        ' tensorflow-federated 0.87.0 from its wheel.'
    )
  try:
    return _run(_private_binary(folder), folder)
  except OSError as error:
    raise RuntimeError(
        f'TFF\'s worker must be copied to {folder} and run there, found that it'
        f' cannot ({error}). Tip: let TMPDIR name a folder with 300 MB of space'
        ' where programs may run.'
    ) from error
  finally:  # A running program no longer needs the name of its file.
    (pathlib.Path(folder) / binary.name).unlink(missing_ok=True)


def _run(binary: pathlib.Path, folder: str) -> subprocess.Popen:
  parent = os.getpid()

  def end_with_us():
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # The parent ended before the line above.
      os.kill(os.getpid(), signal.SIGKILL)

  return subprocess.Popen(
      [
          str(binary),
          f'--port={_SOCKET}',
          # More would only add threads, with all their tensors in memory.
          f'--max_concurrent_computation_calls={os.cpu_count()}',
      ],
      stdin=subprocess.DEVNULL,
      stdout=subprocess.DEVNULL,
      cwd=folder,
      env={
          **os.environ,
          # Its warnings about cancelled data pipelines do not concern users.
          'TF_CPP_MIN_LOG_LEVEL': '3',
          # Its gRPC server detaches threads that may have ended, which crashes
          # (in glibc's pthread_detach) once their stacks are unmapped; seen
          # twice an hour on a busy machine. A large cache keeps stacks mapped.
          'GLIBC_TUNABLES': f'glibc.pthread.stack_cache_size={2**32}',
          # Large blocks are reused: see `native`.
          'MALLOC_MMAP_MAX_': '0',
          'MALLOC_TRIM_THRESHOLD_': str(2**40),
      },
      preexec_fn=end_with_us,
      # Ctrl-C is for the program, which then ends the worker.
      start_new_session=True,
  )
