"""Workers of the remote runtime on this machine, and computations to disturb.

A `held` computation can be caught in the middle: every client says that it has
started and waits until it is let go.
"""

import contextlib
import os
import pathlib
import time

import numpy as np
import portpicker
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import worker_process

PATIENCE_SECONDS = 60  # On a busy machine.


@contextlib.contextmanager
def running(count: int):
  """Starts workers; none is left at the end, whatever happened to them."""
  started = []
  try:
    for _ in range(count):
      port = portpicker.pick_unused_port()
      started.append(worker_process.WorkerProcess(port))
    for worker in started:
      worker.wait_until_ready()
    yield started
  finally:
    for worker in started:
      worker.stop()
      assert worker.pid is None


def addresses(started) -> list[str]:
  return [f'localhost:{worker.port}' for worker in started]


def wait_for(condition) -> None:
  deadline = time.monotonic() + PATIENCE_SECONDS
  while not condition():
    assert time.monotonic() < deadline, 'It did not happen.'
    time.sleep(0.05)


@tf.function
def _say_and_wait(folder, client):
  name = tf.strings.as_string(client)
  tf.io.write_file(tf.strings.join([folder, '/started-', name]), '')
  going = tf.constant(0)
  # The name depends on the last look, or TensorFlow would look only once.
  while tf.equal(going, 0):
    letters = tf.strings.substr('go-', 0, 2 + going)
    going = tf.size(tf.io.matching_files(folder + '/' + letters))
  return client + going - 1  # `going` is 1; TensorFlow must wait for it.


@tff.tensorflow.computation(np.str_, np.int32)
def _held_work(folder, client):
  return _say_and_wait(folder, client)


@tff.federated_computation(
    tff.FederatedType(np.str_, tff.SERVER),
    tff.FederatedType(np.int32, tff.CLIENTS),
)
def held(folder, clients):
  """Returns the sum of `clients`, which are integers, and the clients."""
  told = tff.federated_map(
      _held_work, (tff.federated_broadcast(folder), clients)
  )
  return tff.federated_sum(told), told


def has_started(folder: pathlib.Path, client: int) -> bool:
  return (folder / f'started-{client}').exists()


def let_go(folder: pathlib.Path) -> None:
  (folder / 'go').touch()


def send(worker: worker_process.WorkerProcess, signal_number: int) -> None:
  os.kill(worker.pid, signal_number)
