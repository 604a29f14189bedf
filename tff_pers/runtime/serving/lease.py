"""Leases of a worker: one driver has it, as long as it is connected.

The port of a worker accepts two kinds of connections. One that starts with
`MAGIC` asks for the lease: the driver sends a line that identifies it, and the
worker answers with a line. A lease that is granted ends with this connection,
on which nothing more is sent. The other kind is gRPC.

When a driver ends, for any reason, its connections end. If it is disconnected,
the operating system notices: it probes connections (see `keep_alive`). A
heartbeat of our own would have to come from a thread of the driver, and Python
runs no other thread while it serializes a large argument, which takes minutes.
"""

import contextlib
import importlib.metadata
import json
import os
import socket
import ssl
import threading
from typing import Any, Optional
import uuid

# Has the length of the start of gRPC's connections, so that the same number of
# bytes identifies either kind.
MAGIC = b'tff_pers'
ANSWER_SECONDS = 5.0  # Time limit; a worker answers this without computing.
# The other end counts as gone 20 s after its last sign of life.
IDLE_SECONDS = 5
PROBE_SECONDS = 5
NUM_PROBES = 3
_PROTOCOL = 1  # To be increased when the protocol changes.
# One program is one driver, however many connections it has.
_PROGRAM = uuid.uuid4().hex


class NotYet(Exception):
  """The lease is not available now, but may be later; says why."""


class Refused(ValueError):
  """The server at this address cannot be our worker; says why."""


def version() -> str:
  """Returns what both ends must share: the protocol's and TFF's versions."""
  tff_version = importlib.metadata.version('tensorflow-federated')
  return f'protocol {_PROTOCOL}, tensorflow-federated {tff_version}'


def to_line(**fields: Any) -> bytes:
  """Returns fields, which are JSON values, as a line of the protocol."""
  return MAGIC + json.dumps(fields).encode() + b'\n'


def from_line(line: bytes) -> Optional[dict[str, Any]]:
  """Returns the fields of a line, None if it is not one of the protocol."""
  try:
    fields = json.loads(line[len(MAGIC):])
  except ValueError:
    return None
  is_ours = line.startswith(MAGIC) and isinstance(fields, dict)
  return fields if is_ours and 'version' in fields else None


def keep_alive(connection: socket.socket) -> None:
  """Makes the system end a connection whose other end is gone."""
  connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for option, value in [
      (socket.TCP_KEEPIDLE, IDLE_SECONDS),
      (socket.TCP_KEEPINTVL, PROBE_SECONDS),
      (socket.TCP_KEEPCNT, NUM_PROBES),
  ]:
    connection.setsockopt(socket.IPPROTO_TCP, option, value)


class Lease:
  """This program's lease of one worker."""

  def __init__(self, address: str, context: Optional[ssl.SSLContext] = None):
    """Asks for the lease, which lasts until `close` or until it is lost.

    The address is host:port; without a context, there is no TLS.

    Raises:
      NotYet: If the worker does not answer, or serves another driver.
      Refused: If there is no worker, or one that can never be ours.
    """
    try:
      self._socket = _connect(address, context)
    except ssl.SSLEOFError as error:
      raise NotYet('it ends the connection in the TLS handshake') from error
    except ssl.SSLError as error:
      reason = getattr(error, 'verify_message', '') or str(error.reason)
      raise _tls_failed(address, reason) from error
    except OSError as error:
      raise NotYet(_why(error)) from error
    try:
      self._ask(address)
    except BaseException:
      self._socket.close()
      raise
    self._ended = threading.Event()
    threading.Thread(target=self._wait_for_its_end, daemon=True).start()

  @property
  def is_valid(self) -> bool:
    """Whether we have the lease, as far as we know."""
    return not self._ended.is_set()

  def close(self) -> None:
    """Gives the worker back."""
    self._ended.set()
    with contextlib.suppress(OSError):  # The connection has ended already.
      self._socket.shutdown(socket.SHUT_RDWR)

  def _ask(self, address: str) -> None:
    """Returns if the lease is granted, else raises."""
    try:
      self._socket.sendall(to_line(
          version=version(), program=f'{_PROGRAM}/{os.getpid()}',
          name=f'process {os.getpid()} on {socket.gethostname()}',
      ))
      line = _read_line(self._socket)
    except ssl.SSLError as error:
      raise _tls_failed(address, str(error.reason)) from error
    except ConnectionError:
      line = b''
    except OSError as error:
      raise NotYet(_why(error)) from error
    if not line:
      raise self._without_an_answer(address)
    answer = from_line(line)
    if answer is None:
      raise Refused(
          '`workers` must be started by `python -m binaries.worker` of this'
          f' version, found another server at {address}, which answers'
          f' {line[:20]!r}.'
      )
    if answer['version'] != version():
      raise Refused(
          f'`workers` must be of this program\'s version ({version()}), found'
          f' {address} ({answer["version"]}).'
      )
    if answer.get('why_not'):
      raise NotYet(answer['why_not'])

  def _without_an_answer(self, address: str) -> Exception:
    """Returns the error for a connection that ends at once."""
    if isinstance(self._socket, ssl.SSLSocket):
      # In TLS 1.3, a client only learns at this point that it is refused.
      return _tls_failed(address, 'it refuses our certificate')
    if _speaks_tls(address):
      return Refused(
          '`tls_cert`, `tls_key` and `tls_ca` must be given for workers with'
          f' TLS, found {address}.'
      )
    return NotYet('it ends the connection without an answer')

  def _wait_for_its_end(self) -> None:
    self._socket.settimeout(None)
    with contextlib.suppress(OSError):
      self._socket.recv(1)
    self._ended.set()
    self._socket.close()


def _connect(address: str, context: Optional[ssl.SSLContext]) -> socket.socket:
  host, _, port = address.rpartition(':')
  host = host.strip('[]')  # Of IPv6.
  connection = socket.create_connection((host, int(port)), ANSWER_SECONDS)
  keep_alive(connection)
  if context is None:
    return connection
  try:
    return context.wrap_socket(connection, server_hostname=host)
  except BaseException:
    connection.close()
    raise


def _read_line(connection: socket.socket) -> bytes:
  """Returns the answer of the other end, up to the end of its line."""
  said = b''
  while not said.endswith(b'\n') and said.startswith(MAGIC[:len(said)]):
    more = connection.recv(4096)
    if not more:
      break
    said += more
  return said


def _why(error: OSError) -> str:
  if isinstance(error, socket.timeout):
    return f'no answer for {ANSWER_SECONDS:g} s'
  return (error.strerror or str(error)).lower()


def _speaks_tls(address: str) -> bool:
  """Whether the other end takes part in a TLS handshake of any kind."""
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  context.check_hostname = False
  context.verify_mode = ssl.CERT_NONE
  try:
    _connect(address, context).close()
  except OSError:
    return False
  return True


def _tls_failed(address: str, reason: str) -> Refused:
  if reason == 'WRONG_VERSION_NUMBER':
    return Refused(
        f'`tls_cert` must be left out for workers without TLS, found {address}.'
    )
  return Refused(
      '`tls_ca` must have signed the certificates of both sides, and the'
      f' worker\'s must name its host, found that TLS with {address} fails:'
      f' {reason.replace("_", " ").lower().rstrip(".")}.'
  )
