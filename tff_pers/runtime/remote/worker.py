"""The driver's connection to a worker, watched by a heartbeat."""

import threading
import time
from typing import Any, Optional, Sequence

from absl import logging
import grpc
from tensorflow_federated.proto.v0 import computation_pb2
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.proto.v0 import executor_pb2_grpc

from tff_pers.runtime import worker_process
from tff_pers.runtime.serving import lease as lease_lib
from tff_pers.runtime.serving import tls as tls_lib
from tff_pers import tff

# Errors if a worker is gone or has been restarted.
_LOST = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.FAILED_PRECONDITION,
)

# Time limit for freeing a worker's values, after the computation's deadline.
_CLOSE_SECONDS = 5.0


class WorkerLost(Exception):
  """A worker is dead, hangs or is disconnected."""

  def __init__(self, address: str, reason: str):
    super().__init__(f'{address} ({reason})')


class WorkerLate(Exception):
  """A worker is alive, but has missed the deadline."""


class Worker:
  """A worker that is leased to us, from then on watched by a heartbeat.

  gRPC has no time limit for a worker that hangs; here the heartbeat closes the
  connection, which ends all calls. A lost worker that answers again is back.
  """

  def __init__(
      self, address: str, heartbeat_seconds: float,
      tls: Optional[tls_lib.Files] = None,
  ):
    """Prepares the connection; see `connect`."""
    self.address = address
    self._heartbeat_seconds = heartbeat_seconds
    self._context = tls and tls_lib.client_context(tls)
    self._credentials = tls and tls_lib.credentials(tls)
    self._lock = threading.Lock()
    self._lease: Optional[lease_lib.Lease] = None
    self._channel: Optional[grpc.Channel] = None
    self._closed = threading.Event()
    self.lost_because = 'not connected'

  @property
  def is_alive(self) -> bool:
    """Whether it is connected and its lease is valid."""
    return self._channel is not None and self._has_lease

  @property
  def _has_lease(self) -> bool:
    return self._lease is not None and self._lease.is_valid

  def connect(self, deadline: float) -> bool:
    """Waits until we have the lease; returns whether that was in time.

    Raises:
      lease.Refused: If the worker can never be ours.
    """
    while not self._is_leased():
      if time.monotonic() > deadline:
        return False
      time.sleep(0.2)
    self.lost_because = 'TFF\'s worker there gives no answer'
    channel = self._new_channel()
    while not worker_process.answers(channel, seconds=1.0):
      channel.close()
      if time.monotonic() > deadline:
        return False
      channel = self._new_channel()  # At once, no backoff.
    self._open()
    threading.Thread(target=self._watch, args=(channel,), daemon=True).start()
    return True

  def _is_leased(self) -> bool:
    """Returns whether we have the lease; asks for it if we do not."""
    if self._has_lease:
      return True
    try:
      self._lease = lease_lib.Lease(self.address, self._context)
    except lease_lib.NotYet as error:
      self.lost_because = str(error)
      return False
    return True

  def _new_channel(self) -> grpc.Channel:
    return worker_process.connect(self.address, self._credentials)

  def close(self) -> None:
    """Closes the connection for good, and gives the worker back."""
    with self._lock:
      self._closed.set()
      channel, self._channel = self._channel, None
    if channel is not None:
      channel.close()
    if self._lease is not None:
      self._lease.close()

  def request(self, method: str, message: Any, deadline: float) -> Any:
    """Calls a method of the worker.

    Raises:
      WorkerLost: If the worker is lost, or is lost while we wait for it.
      WorkerLate: If there is no answer at `deadline`.
      grpc.RpcError: If the computation itself fails.
    """
    channel = self._channel
    if channel is None or not self._has_lease:
      self._lose('its lease has ended')
      raise WorkerLost(self.address, self.lost_because)
    stub = executor_pb2_grpc.ExecutorGroupStub(channel)
    try:
      return getattr(stub, method)(
          message, timeout=max(0.0, deadline - time.monotonic())
      )
    except grpc.RpcError as error:
      if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        raise WorkerLate(self.address) from error
      if error.code() not in _LOST:
        raise
      self._lose(error.details())
    except ValueError:  # The heartbeat has just closed the channel.
      pass
    raise WorkerLost(self.address, self.lost_because)

  def _watch(self, channel: grpc.Channel) -> None:
    """Sends heartbeats on a connection of their own."""
    while not self._closed.wait(min(1.0, self._heartbeat_seconds / 4)):
      if not self._has_lease:
        self._lose('its lease has ended')
        if not self._is_leased_again():
          continue
      if worker_process.answers(channel, self._heartbeat_seconds):
        if not self.is_alive:
          self._open()
          logging.warning('Worker %s is back.', self.address)
      else:
        self._lose(f'no heartbeat for {self._heartbeat_seconds:g} s')
        channel.close()
        channel = self._new_channel()
    channel.close()

  def _is_leased_again(self) -> bool:
    try:
      found = self._is_leased()
    except lease_lib.Refused as error:
      self.lost_because = str(error)
      return False
    if self._lease is not None and found and self._closed.is_set():
      self._lease.close()  # Closed while we asked for it.
    return found

  def _open(self) -> None:
    with self._lock:
      if not self._closed.is_set():
        self._channel = self._new_channel()

  def _lose(self, reason: str) -> None:
    with self._lock:
      channel, self._channel = self._channel, None
      if channel is None:
        return
      self.lost_because = reason
    logging.warning('Worker %s is lost: %s.', self.address, reason)
    channel.close()


class Session:
  """The values that one worker holds for one computation."""

  def __init__(self, worker: Worker, num_clients: int, deadline: float):
    """Opens the session for `num_clients` clients."""
    self._worker = worker
    self._deadline = deadline
    # Functions that were sent, by the identity of the value.
    self._functions: dict[Any, Any] = {}
    cohort = executor_pb2.Cardinality(
        placement=computation_pb2.Placement(uri=tff.CLIENTS.uri),
        cardinality=num_clients,
    )
    self._executor = worker.request(
        'GetExecutor', executor_pb2.GetExecutorRequest(cardinalities=[cohort]),
        deadline,
    ).executor

  def _request(self, method: str, **fields: Any) -> Any:
    message = getattr(executor_pb2, f'{method}Request')(
        executor=self._executor, **fields
    )
    return self._worker.request(method, message, self._deadline)

  def create(self, value: executor_pb2.Value) -> executor_pb2.ValueRef:
    """Sends a value and returns a reference to it."""
    return self._request('CreateValue', value=value).value_ref

  def call(
      self,
      function: executor_pb2.Value,
      arguments: Sequence[executor_pb2.ValueRef],
      num_results: int,
  ) -> list[executor_pb2.ValueRef]:
    """Starts a computation on a struct without waiting for its results."""
    if id(function) not in self._functions:
      self._functions[id(function)] = self.create(function)
    argument = None
    if arguments:
      element = executor_pb2.CreateStructRequest.Element
      argument = self._request(
          'CreateStruct',
          element=[element(value_ref=ref) for ref in arguments],
      ).value_ref
    result = self._request(
        'CreateCall', function_ref=self._functions[id(function)],
        argument_ref=argument,
    ).value_ref
    return [
        self._request('CreateSelection', source_ref=result, index=i).value_ref
        for i in range(num_results)
    ]

  def fetch(self, ref: executor_pb2.ValueRef) -> executor_pb2.Value:
    """Waits for a value and returns it."""
    return self._request('Compute', value_ref=ref).value

  def close(self) -> None:
    """Frees all values, if the worker can be reached."""
    try:
      self._worker.request(
          'DisposeExecutor',
          executor_pb2.DisposeExecutorRequest(executor=self._executor),
          time.monotonic() + _CLOSE_SECONDS,
      )
    except (grpc.RpcError, WorkerLost, WorkerLate):
      logging.info('Worker %s could not free a session.', self._worker.address)
