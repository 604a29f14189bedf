"""Runs one host of the remote runtime: one of TFF's C++ workers.

    python -m binaries.worker --port=8000
"""

# To start quickly and to stay small, this program imports neither TensorFlow
# nor TFF, and therefore not `binaries.flags`.
import signal
import sys
import time
from typing import Sequence

from absl import flags
import portpicker

from tff_pers.runtime import worker_process

SUMMARY = """\
python -m binaries.worker [--port=8000]

Runs a worker for programs that are started elsewhere with --runtime=remote
--workers=HOST:8000,...; see docs/remote.md. Says `ready` when it is, and ends
on SIGTERM, Ctrl-C, or with the program that started it (unless under nohup). A
worker that crashes or hangs is started again.

There is no password and no encryption: whoever reaches the port can run
anything. It listens on all interfaces; use it in a private network.

  --port
      Port to listen on, 1 to 65535; default: 8000."""

_CHECK_SECONDS = 10.0
_HANGS_AFTER_SECONDS = 60.0


class _Stopped(Exception):
  """A signal asked us to end."""


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  if '--help' in argv or '-h' in argv:
    print(SUMMARY)
    return 0
  try:
    port = _port(argv)
  except flags.Error as error:
    return _fail(2, error)
  try:
    _end_on_signals()
    _serve(port)
  except _Stopped:
    return 0
  except RuntimeError as error:
    return _fail(1, error)


def _fail(code: int, error: Exception) -> int:
  print(f'worker: {" ".join(str(error).split())}', file=sys.stderr)
  return code


def _port(argv: Sequence[str]) -> int:
  """Returns the value of the only flag.

  Raises:
    flags.Error: If there is another one, or the port cannot be used.
  """
  values = flags.FlagValues()
  flags.DEFINE_integer(
      'port', 8000, 'Port to listen on.', lower_bound=1, upper_bound=65535,
      flag_values=values,
  )
  rest = values(list(argv))[1:]
  if rest:
    raise flags.Error(
        f'Arguments must be flags (--name=value), found {rest[0]!r}.'
    )
  # The worker would not fail on a port in use, but share it with its owner.
  if not portpicker.is_port_free(values.port):
    raise flags.Error(f'`--port` must be free, found {values.port} in use.')
  return values.port


def _end_on_signals() -> None:
  """Raises `_Stopped` on SIGTERM, SIGINT, and when our parent is gone."""

  def stop(*_):
    raise _Stopped()

  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stop)
  if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # Without nohup.
    signal.signal(signal.SIGHUP, stop)
    worker_process.end_with_parent(signal.SIGTERM)


def _serve(port: int) -> None:
  """Keeps a worker running, for ever."""
  restarts = worker_process.Restarts()
  while True:
    worker = worker_process.WorkerProcess(port)
    try:
      worker.wait_until_ready()
      print(f'worker: ready on port {port}.', flush=True)
      why = _wait_until_broken(worker)
    finally:
      worker.stop()
    restarts.add(worker.exit_code)
    print(f'worker: it {why} and is started again.', file=sys.stderr)


def _wait_until_broken(worker: worker_process.WorkerProcess) -> str:
  """Waits until the worker is dead or hangs; returns which of them."""
  while True:
    checked = time.monotonic()
    while time.monotonic() - checked < _CHECK_SECONDS:
      if worker.pid is None:
        return f'ended with exit code {worker.exit_code}'
      time.sleep(0.2)
    # A worker may hang without ending, so it is asked now and then.
    if worker.pid and not worker.answers(_HANGS_AFTER_SECONDS):
      return f'gave no answer for {_HANGS_AFTER_SECONDS:g} s'


if __name__ == '__main__':
  run()
