"""Workers of the remote runtime on this machine, and computations to disturb.

A `held` computation can be caught in the middle: every client says that it has
started and waits until it is let go.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from typing import Optional

import numpy as np
import portpicker
import psutil
import tensorflow as tf
import tensorflow_federated as tff

PATIENCE_SECONDS = 60  # On a busy machine.
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Program:
  """`binaries.worker`, as a user starts it."""

  def __init__(self, *options: str):
    port = portpicker.pick_unused_port()
    self.address = f'localhost:{port}'
    self._process = subprocess.Popen(
        [sys.executable, '-m', 'binaries.worker', f'--port={port}', *options],
        cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

  def wait_until_ready(self) -> None:
    assert 'ready' in self._process.stdout.readline()

  def processes(self) -> list[psutil.Process]:
    """Returns the program, and TFF's worker if it runs."""
    program = psutil.Process(self._process.pid)
    return [program, *program.children()]

  @property
  def pid(self) -> Optional[int]:
    """The process id of TFF's worker, or None."""
    return next((process.pid for process in self.processes()[1:]), None)

  def stop(self) -> None:
    if self._process.poll() is not None:
      return
    processes = self.processes()
    self._process.terminate()
    self._process.communicate(timeout=PATIENCE_SECONDS)
    assert not psutil.wait_procs(processes, timeout=PATIENCE_SECONDS)[1]


@contextlib.contextmanager
def running(count: int, *options: str):
  """Starts workers; none is left at the end, whatever happened to them."""
  started = []
  try:
    for _ in range(count):
      started.append(Program(*options))
    for worker in started:
      worker.wait_until_ready()
    yield started
  finally:
    for worker in started:
      worker.stop()


def addresses(started) -> list[str]:
  return [worker.address for worker in started]


def wait_for(condition, seconds: float = PATIENCE_SECONDS) -> None:
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline, 'It did not happen.'
    time.sleep(0.05)


@tf.function
def say_and_wait(folder, client):
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
  return say_and_wait(folder, client)


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


def send(worker: Program, signal_number: int) -> None:
  os.kill(worker.pid, signal_number)
