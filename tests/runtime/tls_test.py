"""TLS between drivers and workers: who is let in, and what the others read."""

import socket

import numpy as np
import psutil
import pytest
import tensorflow_federated as tff

from tests.runtime import certificates
from tests.runtime import workers
from tff_pers.runtime import remote
from tff_pers.runtime.serving import tls

pytestmark = certificates.needs_openssl


@pytest.fixture(scope='module', name='authority')
def _authority(tmp_path_factory):
  return certificates.make_authority(tmp_path_factory.mktemp('tls') / 'ours')


@pytest.fixture(scope='module', name='worker')
def _worker(authority):
  own = certificates.sign(authority, 'worker', 'localhost')
  with workers.running(1, *certificates.as_flags(own)) as [program]:
    yield program


@pytest.fixture(scope='module', name='own')
def _own(authority):
  return certificates.sign(authority, 'driver', 'nowhere')


def test_computes_with_certificates_of_one_authority(worker, own):
  double = tff.tensorflow.computation(lambda x: 2 * x, np.int32)
  with remote.use([worker.address], **own):
    assert double(21) == 42


def test_refuses_who_has_no_certificate(worker):
  """Neither as our driver nor as any other client."""
  with pytest.raises(
      remote.WrongWorkerError, match='with TLS, found ' + worker.address
  ):
    remote.use([worker.address])
  host, port = worker.address.split(':')
  with socket.create_connection((host, int(port)), timeout=10) as connection:
    connection.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    assert not connection.recv(100).startswith(b'\0')  # No frame of HTTP/2.


def test_refuses_the_certificate_of_another_authority(
    worker, authority, tmp_path
):
  other = certificates.make_authority(tmp_path / 'other')
  theirs = certificates.sign(other, 'stranger', 'nowhere')
  # The driver refuses the worker,
  fails = f'TLS with {worker.address} fails: '
  with pytest.raises(remote.WrongWorkerError, match=fails + '.*self.signed'):
    remote.use([worker.address], **theirs)
  # and the worker a driver that would trust it.
  with pytest.raises(remote.WrongWorkerError, match=fails + 'it refuses'):
    remote.use([worker.address], **dict(theirs, tls_ca=str(authority)))


def test_refuses_a_worker_of_another_name(authority, own):
  named = certificates.sign(authority, 'elsewhere', 'elsewhere')
  with workers.running(1, *certificates.as_flags(named)) as [program]:
    with pytest.raises(remote.WrongWorkerError, match='hostname mismatch'):
      remote.use([program.address], **own)


def test_a_worker_without_tls_is_one_sentence(own):
  with workers.running(1) as [program]:
    with pytest.raises(
        remote.WrongWorkerError, match='without TLS, found ' + program.address
    ):
      remote.use([program.address], **own)


def test_only_the_loopback_address_is_open(worker, own):
  """TFF's worker itself would listen on all interfaces."""
  with remote.use([worker.address], **own):  # It runs from here on.
    pids = {process.pid for process in worker.processes()}
  assert len(pids) == 2
  listening = [
      found.laddr for found in psutil.net_connections('tcp')
      if found.pid in pids and found.status == psutil.CONN_LISTEN
  ]
  assert [f'{ip}:{port}' for ip, port in listening] == [
      worker.address.replace('localhost', '127.0.0.1')
  ]


def test_raises_on_files_that_cannot_be_used(own, tmp_path):
  for name in own:
    with pytest.raises(ValueError, match=f'`{name}` must be given with the'):
      tls.files(**{n.removeprefix('tls_'): '' if n == name else path
                   for n, path in own.items()})
  missing = str(tmp_path / 'none')
  with pytest.raises(ValueError, match='`tls_key` must be a file, found'):
    tls.files(own['tls_cert'], missing, own['tls_ca'])
  with pytest.raises(ValueError, match='`tls_cert` and `tls_key` must be'):
    tls.files(own['tls_ca'], own['tls_key'], own['tls_ca'])
  with pytest.raises(ValueError, match='`tls_ca` must be a certificate'):
    tls.files(own['tls_cert'], own['tls_key'], own['tls_key'])
  assert tls.files('', '', '') is None
