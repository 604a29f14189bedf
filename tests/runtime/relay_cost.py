"""What the relay costs: rounds on two workers, directly, behind it, with TLS.

    python -m tests.runtime.relay_cost

Wall-clock and CPU seconds (of all processes) per round of FedAvg, the best of
several; once with a tiny model, where the 42 requests of a round count, and
once with 40 MB of clients' data, where the bytes do.
"""

import contextlib
import pathlib
import tempfile
import time
import types

import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedavg
from tests import problems
from tests.runtime import certificates
from tests.runtime import workers
from tff_pers.runtime import native
from tff_pers.runtime import remote
from tff_pers.runtime import worker_process
from tff_pers.runtime.remote import worker as worker_lib

_REPETITIONS = 7


class _Direct(worker_lib.Worker):
  """A worker of TFF's without our program; nobody leases or watches it."""

  sockets: dict[str, str] = {}  # By what `remote.use` takes for an address.

  def connect(self, deadline):
    self._lease = _Always()
    self._open()
    return True

  def _new_channel(self):
    return worker_process.connect(self.sockets[self.address])


class _Always:
  is_valid = True

  def close(self):
    """There is nothing to give back."""


@contextlib.contextmanager
def _direct():
  started = []
  for number in (1, 2):
    started.append(worker_process.WorkerProcess())
    started[-1].wait_until_ready()
    _Direct.sockets[f'direct:{number}'] = started[-1].address
  theirs, worker_lib.Worker = worker_lib.Worker, _Direct
  try:
    yield [
        types.SimpleNamespace(
            address=address, processes=[psutil.Process(worker.pid)].copy
        ) for address, worker in zip(_Direct.sockets, started)
    ]
  finally:
    worker_lib.Worker = theirs
    for worker in started:
      worker.stop()


@tff.tensorflow.computation(tff.TensorType(np.float32, [None]))
def _sum(values):
  return tf.reduce_sum(values)


@tff.federated_computation(
    tff.FederatedType(tff.TensorType(np.float32, [None]), tff.CLIENTS)
)
def _sum_of_sums(values):
  return tff.federated_sum(tff.federated_map(_sum, values))


def _measure(name, started, **options):
  process = fedavg.build_fedavg(problems.tiny_model())
  data = problems.tiny_clients()
  processes = [psutil.Process()] + [
      each for worker in started for each in worker.processes()
  ]

  def used():
    times = [each.cpu_times() for each in processes]
    cpu_seconds = sum(each.user + each.system for each in times)
    return np.array([time.perf_counter(), cpu_seconds])

  def best(function):
    function()
    spent = []
    for _ in range(_REPETITIONS):
      before = used()
      function()
      spent.append(used() - before)
    return np.min(spent, axis=0)

  with remote.use([worker.address for worker in started], **options):
    state = process.initialize()
    tiny = best(lambda: process.next(state, [()] * len(data), data))
    large = best(lambda: _sum_of_sums([np.ones(5_000_000, np.float32)] * 2))
  print(f'{name:8s} tiny {tiny[0]:.3f} s, {tiny[1]:.3f} CPU s;'
        f' 40 MB {large[0]:.3f} s, {large[1]:.3f} CPU s', flush=True)


def main() -> None:
  native.drop_default_context()
  with _direct() as started:
    _measure('direct', started)
  with workers.running(2) as started:
    _measure('relay', started)
  with tempfile.TemporaryDirectory() as folder:
    authority = certificates.make_authority(pathlib.Path(folder) / 'authority')
    own = certificates.sign(authority, 'worker', 'localhost')
    with workers.running(2, *certificates.as_flags(own)) as started:
      _measure('TLS', started, **certificates.sign(authority, 'driver', 'any'))


if __name__ == '__main__':
  main()
