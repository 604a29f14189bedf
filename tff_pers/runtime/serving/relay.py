"""The port of a worker: grants leases, and relays gRPC to TFF's worker.

TFF's worker supports neither several drivers nor TLS, and listens on all
interfaces. So it runs behind this relay, on a socket that nobody else can open.
Bytes are passed on as they come, so that large messages need little memory.
"""

import asyncio
import socket
import ssl
import threading
from typing import Optional

from tff_pers.runtime.serving import lease

_GRPC = b'PRI * HT'  # The start of HTTP/2.
_CHUNK_BYTES = 1 << 20


class Relay:
  """Lets one driver at a time through to the worker.

  After a lease no driver is admitted until `open` is called again, so that the
  worker can be restarted: that frees the values of the last driver, and ends
  its computations.

  Attributes:
    left: The driver whose lease has ended since `open`, or None.
  """

  def __init__(
      self, listener: socket.socket, context: Optional[ssl.SSLContext] = None
  ):
    """Starts answering on `listener`, with TLS if there is a `context`."""
    self._worker: Optional[str] = None
    self._program, self._name = '', ''  # The driver that has the lease.
    self._leases: set[asyncio.StreamWriter] = set()  # Leases of that driver.
    # Leases and calls. Who still waits for an answer is not one of them: over
    # TLS, an end without an answer means that a certificate is refused.
    self._connections: set[asyncio.StreamWriter] = set()
    self.left: Optional[str] = None
    lease.keep_alive(listener)
    self._loop = asyncio.new_event_loop()
    threading.Thread(target=self._loop.run_forever, daemon=True).start()
    self._wait_for(asyncio.start_server(
        self._answer, sock=listener, ssl=context, limit=_CHUNK_BYTES
    ))

  def open(self, worker: str) -> None:
    """Admits a driver to the worker at `worker`, unix:path."""
    self._wait_for(self._set_worker(worker))

  def shut(self) -> None:
    """Ends all connections and the lease."""
    self._wait_for(self._set_worker(None))

  def _wait_for(self, coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

  async def _set_worker(self, worker: Optional[str]) -> None:
    self._end_connections()
    self._worker, self.left = worker, None

  def _end_connections(self) -> None:
    self._leases.clear()
    for connection in self._connections:
      connection.transport.abort()

  async def _answer(self, reader, writer) -> None:
    """Serves one connection."""
    try:
      start = await _soon(reader.readexactly(len(lease.MAGIC)))
      if start == lease.MAGIC:
        await self._serve_lease(reader, writer)
      elif start != _GRPC:
        # Other programs do not understand this line, but get an answer at once.
        writer.write(lease.to_line(version=lease.version()))
      elif self._leases and self._worker is not None:
        await self._pass_on(self._worker, start, reader, writer)
    # The other end is gone, or does not follow the protocol.
    except (EOFError, OSError, ValueError, asyncio.TimeoutError):
      pass
    finally:
      self._connections.discard(writer)
      writer.close()

  async def _serve_lease(self, reader, writer) -> None:
    """Grants the lease, or says why not; holds it until it ends."""
    driver = lease.from_line(lease.MAGIC + await _soon(reader.readline()))
    if driver is None:
      return
    why_not = self._why_not(driver)
    if not why_not:
      self._program, self._name = driver['program'], driver['name']
      self._leases.add(writer)
      self._connections.add(writer)
    writer.write(lease.to_line(version=lease.version(), why_not=why_not))
    if why_not:
      return
    try:
      await reader.read(1)  # Until the connection ends.
    finally:
      self._leave(writer)

  def _why_not(self, driver) -> str:
    if driver['version'] != lease.version():
      return 'it is of another version'
    if self._worker is None:
      return 'it is being started'
    if self._leases and self._program != driver['program']:
      return f'it serves another driver, {self._name}'
    return ''

  def _leave(self, writer) -> None:
    """Ends one lease; after the driver's last lease, the worker is closed."""
    if self._leases == {writer}:
      self._worker, self.left = None, self._name
      self._end_connections()
    self._leases.discard(writer)

  async def _pass_on(self, worker: str, start: bytes, reader, writer) -> None:
    """Connects a driver to TFF's worker, at unix:path."""
    self._connections.add(writer)
    from_worker, to_worker = await asyncio.open_unix_connection(
        worker[len('unix:'):], limit=_CHUNK_BYTES
    )
    self._connections.add(to_worker)
    to_worker.write(start)
    ways = [
        asyncio.ensure_future(_copy(reader, to_worker)),
        asyncio.ensure_future(_copy(from_worker, writer)),
    ]
    try:
      await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
      self._connections.discard(to_worker)
      to_worker.transport.abort()
      writer.transport.abort()
      await asyncio.gather(*ways, return_exceptions=True)


async def _soon(coroutine):
  return await asyncio.wait_for(coroutine, lease.ANSWER_SECONDS)


async def _copy(reader, writer) -> None:
  writer.transport.set_write_buffer_limits(_CHUNK_BYTES)
  while True:
    chunk = await reader.read(_CHUNK_BYTES)
    if not chunk:
      return
    writer.write(chunk)
    await writer.drain()
