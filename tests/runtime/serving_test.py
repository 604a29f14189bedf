"""Leases: who has a worker, and for how long. No worker of TFF's runs here."""

from concurrent import futures
import socket
import subprocess
import sys
import threading
import time

import grpc
import portpicker
import pytest

from binaries import train
from tests.runtime import workers
from tff_pers.runtime import remote
from tff_pers.runtime import worker_process
from tff_pers.runtime.serving import lease
from tff_pers.runtime.serving import relay as relay_lib


class _Echo(grpc.GenericRpcHandler):
  """Sends every message back."""

  def service(self, handler_call_details):
    return grpc.unary_unary_rpc_method_handler(lambda message, _: message)


def _server(address: str) -> grpc.Server:
  server = grpc.server(
      futures.ThreadPoolExecutor(2),
      options=[('grpc.max_receive_message_length', -1)],
  )
  server.add_generic_rpc_handlers([_Echo()])
  server.add_insecure_port(address)
  server.start()
  return server


@pytest.fixture(name='relay')
def _relay(tmp_path):
  """A relay in front of `_Echo`, open to drivers, and its address."""
  behind = f'unix:{tmp_path}/1'
  server = _server(behind)
  listener = socket.create_server(('127.0.0.1', 0))
  relay = relay_lib.Relay(listener)
  relay.open(behind)
  relay.address = f'localhost:{listener.getsockname()[1]}'
  relay.behind = behind
  yield relay
  relay.shut()
  server.stop(None)
  listener.close()


def _as_another_program(monkeypatch):
  monkeypatch.setattr(lease, '_PROGRAM', 'another')


def _call(address, message=b'x'):
  with worker_process.connect(address) as channel:
    return channel.unary_unary('/any/Method')(message, timeout=30)


def test_a_message_of_many_chunks_passes(relay):
  held = lease.Lease(relay.address)
  message = bytes(range(256)) * 50_000
  assert _call(relay.address, message) == message
  held.close()


def test_nobody_passes_without_a_lease(relay):
  with pytest.raises(grpc.RpcError):
    _call(relay.address)


def test_one_program_has_the_worker(relay, monkeypatch):
  held = [lease.Lease(relay.address) for _ in range(2)]  # One program, twice.
  _as_another_program(monkeypatch)
  with pytest.raises(lease.NotYet, match='serves another driver, process'):
    lease.Lease(relay.address)
  held[0].close()
  time.sleep(0.2)
  assert relay.left is None
  with pytest.raises(lease.NotYet, match='serves another driver'):
    lease.Lease(relay.address)
  held[1].close()
  workers.wait_for(lambda: relay.left is not None)
  assert relay.left.startswith('process ')


def test_after_a_driver_the_worker_is_started_before_the_next(relay):
  """Else the next driver's work would be lost with the first driver's worker."""
  lease.Lease(relay.address).close()
  workers.wait_for(lambda: relay.left is not None)
  with pytest.raises(lease.NotYet, match='is being started'):
    lease.Lease(relay.address)
  relay.open(relay.behind)
  held = lease.Lease(relay.address)
  assert relay.left is None and _call(relay.address) == b'x'
  held.close()


def test_who_asks_while_the_worker_is_started_gets_an_answer(relay):
  """Over TLS, a driver takes the end of its connection for a refusal."""
  host, _, port = relay.address.partition(':')
  with socket.create_connection((host, int(port)), timeout=10) as connection:
    asked = lease.to_line(version=lease.version(), program='p', name='process')
    connection.sendall(asked[:len(lease.MAGIC) + 1])
    time.sleep(0.2)
    relay.shut()
    relay.open(relay.behind)
    connection.sendall(asked[len(lease.MAGIC) + 1:])
    assert lease.from_line(connection.recv(4096))['why_not'] == ''


def test_the_end_of_a_lease_ends_the_calls_of_its_driver(relay):
  held = lease.Lease(relay.address)
  channel = worker_process.connect(relay.address)
  assert channel.unary_unary('/any/Method')(b'x', timeout=30) == b'x'
  held.close()
  workers.wait_for(lambda: relay.left is not None)
  with pytest.raises(grpc.RpcError):
    channel.unary_unary('/any/Method')(b'x', timeout=30)
  channel.close()


# In a network of its own: one program with both ends, which is cut in two.
_CUT_OFF = """
import fcntl, socket, struct, time
from tff_pers.runtime.serving import lease, relay as relay_lib

def loopback(up):
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack('16sh14x', b'lo', int(up)))

loopback(True)
lease.IDLE_SECONDS = lease.PROBE_SECONDS = lease.NUM_PROBES = 1
listener = socket.create_server(('127.0.0.1', 0))
relay = relay_lib.Relay(listener)
relay.open('unix:/none')
held = lease.Lease(f'127.0.0.1:{listener.getsockname()[1]}')
time.sleep(4)
assert held.is_valid and relay.left is None  # The system answers its probes.
loopback(False)
deadline = time.monotonic() + 30
while time.monotonic() < deadline and (held.is_valid or relay.left is None):
  time.sleep(0.1)
assert not held.is_valid and relay.left is not None
"""


def test_a_driver_that_is_cut_off_loses_the_lease():
  """Nobody ends the connection."""
  in_own_network = ['unshare', '--map-root-user', '--net']
  if subprocess.run([*in_own_network, 'true'], check=False).returncode:
    pytest.skip('needs the right to make a network of its own')
  subprocess.run(
      [*in_own_network, sys.executable, '-c', _CUT_OFF], cwd=workers.ROOT,
      check=True,
  )


def test_the_end_of_cut_off_drivers_is_known_in_time():
  """Within 30 s with the restart of the worker."""
  assert lease.IDLE_SECONDS + lease.NUM_PROBES * lease.PROBE_SECONDS <= 20


def test_a_driver_whose_python_stands_still_keeps_the_lease(relay):
  """As it does while a large argument is serialized."""
  code = (
      'import ctypes, sys; from tff_pers.runtime.serving import lease;'
      ' held = lease.Lease(sys.argv[1]); print("held", flush=True);'
      ' ctypes.PyDLL(None).sleep(60)'  # Keeps the interpreter's lock.
  )
  driver = subprocess.Popen(
      [sys.executable, '-c', code, relay.address], cwd=workers.ROOT,
      stdout=subprocess.PIPE,
  )
  assert driver.stdout.readline() == b'held\n'
  time.sleep(2)
  assert relay.left is None
  driver.kill()
  driver.communicate()
  workers.wait_for(lambda: relay.left is not None)


def _answering(said: bytes) -> str:
  """Returns the address of a server that says `said` to everybody."""
  listener = socket.create_server(('127.0.0.1', 0))

  def serve():
    with listener:
      connection, _ = listener.accept()
      with connection:
        connection.recv(4096)
        connection.sendall(said)

  threading.Thread(target=serve, daemon=True).start()
  return f'127.0.0.1:{listener.getsockname()[1]}'


@pytest.mark.parametrize(
    'said, message',
    [
        (b'HTTP/1.1 400 Bad Request\r\n\r\n', 'found another server at {},'),
        (lease.MAGIC + b'7\n', 'found another server at {},'),
        (
            lease.to_line(version='protocol 0, tensorflow-federated 0.1'),
            'found {} (protocol 0, tensorflow-federated 0.1).',
        ),
    ],
)
def test_a_foreign_server_is_one_sentence(said, message):
  address = _answering(said)
  with pytest.raises(remote.WrongWorkerError) as info:
    remote.use([address])
  assert message.format(address) in str(info.value)
  assert '\n' not in str(info.value)


def test_another_grpc_server_is_one_sentence():
  """A worker of TFF's without our program is one."""
  address = f'localhost:{portpicker.pick_unused_port()}'
  server = _server(address)
  with pytest.raises(
      remote.WrongWorkerError, match='another server at ' + address
  ):
    remote.use([address])
  server.stop(None)


def test_a_silent_server_is_named(monkeypatch):
  monkeypatch.setattr(lease, 'ANSWER_SECONDS', 0.3)
  with socket.create_server(('127.0.0.1', 0)) as listener:
    address = f'127.0.0.1:{listener.getsockname()[1]}'
    with pytest.raises(
        remote.RemoteError, match=address + r' \(no answer for 0.3 s\)'
    ):
      remote.use([address], connect_seconds=0.1)


def test_a_busy_worker_is_named(relay, monkeypatch):
  held = lease.Lease(relay.address)
  _as_another_program(monkeypatch)
  with pytest.raises(
      remote.RemoteError, match=relay.address + r' \(it serves another driver'
  ):
    remote.use([relay.address], connect_seconds=0.1)
  held.close()


def test_train_refuses_a_foreign_server_with_exit_code_2(capsys, tmp_path):
  address = _answering(b'HTTP/1.1 400 Bad Request\r\n\r\n')
  assert train.main([
      'train', '--algo=fedavg', '--num_clients=4', '--runtime=remote',
      f'--workers={address}', f'--output_dir={tmp_path / "run"}',
  ]) == 2
  sentence = capsys.readouterr().err.splitlines()[-1]
  assert sentence.startswith('train: `--workers` must be started by')
  assert address in sentence and not (tmp_path / 'run').exists()
