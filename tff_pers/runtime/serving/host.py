"""Runs one of TFF's C++ workers behind a relay, on a host of its own.

Nothing here imports TensorFlow or TFF, to start quickly and stay small.
"""

import ipaddress
import signal
import socket
import sys
import time
from typing import NoReturn, Optional, Sequence

from absl import flags

from tff_pers.runtime import worker_process
from tff_pers.runtime.serving import relay as relay_lib
from tff_pers.runtime.serving import tls

_CHECK_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
_HANGS_AFTER_SECONDS = 60.0


class _Stopped(Exception):
  """A signal asked this program to end."""


def run(argv: Sequence[str]) -> int:
  """Serves until a signal arrives, see `binaries.worker`; returns exit code."""
  try:
    values = _parse(argv)
    files = tls.files(values.tls_cert, values.tls_key, values.tls_ca)
    listener = _listen(values.host, values.port)
  except (flags.Error, ValueError) as error:
    return _fail(2, str(error).replace('`tls_', '`--tls_'))
  address = ipaddress.ip_address(listener.getsockname()[0])
  if files is None and not address.is_loopback:
    print(
        f'worker: everybody who can reach {values.host}:{values.port} can run'
        ' any code here. Tip: --tls_cert, or a private network.',
        file=sys.stderr,
    )
  context = files and tls.server_context(files)
  try:
    _end_on_signals()
    _serve(relay_lib.Relay(listener, context), values)
  except _Stopped:
    return 0
  except RuntimeError as error:
    return _fail(1, str(error))


def _fail(code: int, error: str) -> int:
  print(f'worker: {" ".join(error.split())}', file=sys.stderr)
  return code


def _parse(argv: Sequence[str]) -> flags.FlagValues:
  """Returns the values of the flags.

  Raises:
    flags.Error: If a flag is unknown or has an invalid value.
  """
  values = flags.FlagValues()
  flags.DEFINE_integer(
      'port', 8000, 'Port to listen on.', lower_bound=1, upper_bound=65535,
      flag_values=values,
  )
  texts = dict(host='127.0.0.1', tls_cert='', tls_key='', tls_ca='')
  for name, default in texts.items():
    flags.DEFINE_string(name, default, 'See above.', flag_values=values)
  rest = values(list(argv))[1:]
  if rest:
    raise flags.Error(
        f'Arguments must be flags (--name=value), found {rest[0]!r}.'
    )
  return values


def _listen(host: str, port: int) -> socket.socket:
  """Returns the socket for drivers.

  Raises:
    flags.Error: If the address cannot be used.
  """
  try:
    [family, *_], *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return socket.create_server((host, port), family=family)
  except socket.gaierror as error:
    raise flags.Error(
        f'`--host` must be an address of this machine, found {host!r}'
        f' ({error.strerror}).'
    ) from error
  except OSError as error:
    raise flags.Error(
        f'`--host` and `--port` must be an address of this machine and a free'
        f' port, found {host}:{port} ({error.strerror}).'
    ) from error


def _end_on_signals() -> None:
  """Raises `_Stopped` on SIGTERM, SIGINT, and when our parent is gone."""

  def stop(*_):
    raise _Stopped()

  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stop)
  if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # Without nohup.
    signal.signal(signal.SIGHUP, stop)
    worker_process.end_with_parent(signal.SIGTERM)


def _serve(relay: relay_lib.Relay, values) -> NoReturn:
  """Keeps a worker running behind `relay`, until a signal arrives."""
  restarts = worker_process.Restarts()
  while True:
    worker = worker_process.WorkerProcess()
    try:
      worker.wait_until_ready()
      relay.open(worker.address)
      print(f'worker: ready on {values.host}:{values.port}.', flush=True)
      why = _wait_for_an_end(worker, relay)
    finally:
      relay.shut()
      worker.stop()
    if why is not None:
      restarts.add(worker.exit_code)
      print(f'worker: it {why} and is restarted.', file=sys.stderr)


def _wait_for_an_end(
    worker: worker_process.WorkerProcess, relay: relay_lib.Relay
) -> Optional[str]:
  """Waits until the worker's driver has left, or the worker has failed.

  TFF's worker keeps the values of a driver and computes until told otherwise,
  which a driver that was killed cannot do. Only ending the worker frees all of
  that.

  Returns:
    None if the driver has left; else what is wrong with the worker.
  """
  answered = checked = time.monotonic()
  while True:
    if worker.pid is None:
      return f'ended with exit code {worker.exit_code}'
    if relay.left:
      print(f'worker: {relay.left} has left.', flush=True)
      return None
    time.sleep(0.2)
    # A worker may hang without ending, so it is asked from time to time, and
    # briefly, because its driver may leave meanwhile.
    if time.monotonic() - checked > _CHECK_SECONDS:
      checked = time.monotonic()
      if worker.answers(_ANSWER_SECONDS):
        answered = checked
      elif checked - answered > _HANGS_AFTER_SECONDS:
        return f'gave no answer for {_HANGS_AFTER_SECONDS:g} s'
