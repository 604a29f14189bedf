"""Workers that die, hang or take too long; nothing waits without a limit.

Every test catches two workers in the middle of a round: each holds one client
of two. The heartbeat is fast, and slow enough for a busy machine.
"""

import logging
import os
import signal
import threading
import time

import numpy as np
import portpicker
import pytest
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2

from tests.runtime import workers
from tff_pers.runtime import remote
from tff_pers.runtime.remote import round as round_lib
from tff_pers.runtime.remote import worker as worker_lib

HEARTBEAT_SECONDS = 4.0
CLIENTS = [5, 6]  # The first worker has client 5, the second client 6.


@pytest.fixture(name='started')
def _started():
  with workers.running(2) as processes:
    yield processes


def _disturb(started, folder, signals):
  """Once both clients have started: sends signals, then lets the work go on."""

  def disturb():
    workers.wait_for(
        lambda: all(workers.has_started(folder, i) for i in CLIENTS)
    )
    for worker, number in zip(started, signals):
      if number:
        workers.send(worker, number)
    workers.let_go(folder)

  thread = threading.Thread(target=disturb, daemon=True)
  thread.start()
  return thread


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize('disturbed', [0, 1])
def test_a_round_is_finished_by_the_other_worker(
    number, disturbed, started, tmp_path, caplog
):
  """A dead and a hung worker, which has the server's part or not."""
  signals = [0, 0]
  signals[disturbed] = number
  address = workers.addresses(started)[disturbed]
  with remote.use(
      workers.addresses(started), heartbeat_seconds=HEARTBEAT_SECONDS
  ):
    thread = _disturb(started, tmp_path, signals)
    assert workers.held(str(tmp_path), CLIENTS) == (11, CLIENTS)
    thread.join()
    assert f'lost worker {address} (' in caplog.text
    # The next round does not meet the worker again.
    start = time.monotonic()
    assert workers.held(str(tmp_path), CLIENTS + [7]) == (18, CLIENTS + [7])
    assert time.monotonic() - start < HEARTBEAT_SECONDS


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGSTOP])
def test_without_repetitions_the_error_names_the_worker(
    number, started, tmp_path
):
  address = workers.addresses(started)[1]
  with remote.use(
      workers.addresses(started), heartbeat_seconds=HEARTBEAT_SECONDS,
      max_retries=0,
  ):
    thread = _disturb(started, tmp_path, [0, number])
    start = time.monotonic()
    with pytest.raises(remote.RemoteError, match=f'it lost {address} \\('):
      workers.held(str(tmp_path), CLIENTS)
    assert time.monotonic() - start < workers.PATIENCE_SECONDS
    thread.join()


def test_the_error_names_all_workers_when_all_are_lost(started, tmp_path):
  addresses = workers.addresses(started)
  with remote.use(addresses, heartbeat_seconds=HEARTBEAT_SECONDS):
    thread = _disturb(started, tmp_path, [signal.SIGKILL, signal.SIGKILL])
    with pytest.raises(remote.RemoteError, match='All workers are lost') as e:
      workers.held(str(tmp_path), CLIENTS)
    thread.join()
  assert all(address in str(e.value) for address in addresses)


def test_the_error_names_the_workers_that_are_late(started, tmp_path, caplog):
  """Both are alive and free what they hold; nobody lets them go."""
  caplog.set_level(logging.INFO, 'absl')
  addresses = workers.addresses(started)
  with remote.use(addresses, round_seconds=2.0):
    with pytest.raises(remote.RemoteError, match='must end within 2 s') as e:
      workers.held(str(tmp_path), CLIENTS)
    workers.let_go(tmp_path)
    assert workers.held(str(tmp_path), CLIENTS) == (11, CLIENTS)
  assert all(address in str(e.value) for address in addresses)
  assert 'could not free' not in caplog.text


class _Worker:
  """Opens sessions, or fails to; remembers what it was asked for."""

  address = 'host:8000'

  def __init__(self, fails: bool):
    self._fails = fails
    self.asked = []

  def request(self, method, message, deadline):
    del message, deadline
    self.asked.append(method)
    if self._fails:
      raise worker_lib.WorkerLost(self.address, 'gone')
    return executor_pb2.GetExecutorResponse()


@pytest.mark.parametrize('lost', [0, 1])
def test_what_was_opened_is_freed_if_a_worker_is_lost(lost):
  cohort = [_Worker(i == lost) for i in range(2)]
  with pytest.raises(worker_lib.WorkerLost):
    round_lib.run(None, None, len(cohort), cohort, time.monotonic() + 60)
  assert cohort[lost].asked == ['GetExecutor']
  assert cohort[1 - lost].asked == ['GetExecutor', 'DisposeExecutor']


def test_a_worker_that_does_not_answer_is_named(started):
  nobody = f'localhost:{portpicker.pick_unused_port()}'
  before = tff.framework.get_context_stack().current
  with pytest.raises(remote.RemoteError, match=f'{nobody} \\(connection ref'):
    remote.use([*workers.addresses(started), nobody], connect_seconds=0.5)
  assert tff.framework.get_context_stack().current is before


def test_a_lost_worker_comes_back(started):
  worker = worker_lib.Worker(workers.addresses(started)[0], 2.0)
  assert worker.connect(time.monotonic() + workers.PATIENCE_SECONDS)
  workers.send(started[0], signal.SIGSTOP)
  workers.wait_for(lambda: not worker.is_alive)
  assert worker.lost_because == 'no heartbeat for 2 s'
  workers.send(started[0], signal.SIGCONT)
  workers.wait_for(lambda: worker.is_alive)
  session = worker_lib.Session(worker, 3, time.monotonic() + 10)
  value, _ = tff.framework.serialize_value(7, tff.TensorType(np.int32))
  assert session.fetch(session.create(value)) == value
  session.close()
  worker.close()
  assert not worker.is_alive and os.path.exists(f'/proc/{started[0].pid}')
