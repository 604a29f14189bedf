"""Runs computations on several hosts, each with one of TFF's C++ workers.

Every worker computes for a slice of the cohort, and one of them also for the
server (docs/remote.md says how to start them). TFF's own way to split a cohort,
its mergeable form, does not allow aggregations that depend on others, sends the
data twice, and trains twice if results stay at the clients: once before the
merge and once after it. Here any computation runs, in levels (`levels`), and
every step runs once; the workers and their protocol are TFF's.
"""

import time
from typing import Any, Sequence

from absl import logging
# Not exported by TFF: how its own contexts convert arguments and results.
from tensorflow_federated.python.core.environments.tensorflow_frontend import tensorflow_computation

from tff_pers.runtime import context
from tff_pers.runtime import errors
from tff_pers.runtime import executor
from tff_pers.runtime.remote import levels
from tff_pers.runtime.remote import round as round_lib
from tff_pers.runtime.remote import worker as worker_lib
from tff_pers.runtime.serving import lease
from tff_pers.runtime.serving import tls
from tff_pers import tff


class RemoteError(RuntimeError):
  """The workers cannot be reached, or are not reliable."""


class WrongWorkerError(RemoteError, ValueError):
  """The server at an address is not our worker, or refuses us."""


def use(
    workers: Sequence[str],
    *,
    connect_seconds: float = 60.0,
    round_seconds: float = 3600.0,
    heartbeat_seconds: float = 30.0,
    max_retries: int = 2,
    tls_cert: str = '',
    tls_key: str = '',
    tls_ca: str = '',
) -> context.Installed:
  """Connects to the workers and installs them as TFF's default context.

  A worker that dies, hangs or is disconnected is left out until it answers
  again, and the computation is repeated on the others. That changes no result:
  computations depend only on their arguments, and a result is returned only
  when it is complete.

  Args:
    workers: Their addresses, e.g. `['host:8000']`.
    connect_seconds: Time limit for all workers to answer at the start.
    round_seconds: Time limit of a computation, including repetitions.
    heartbeat_seconds: Time limit for a worker to answer a heartbeat.
    max_retries: Maximum number of repetitions of one computation.
    tls_cert: Path of our certificate, PEM, for workers with TLS.
    tls_key: Path of its private key.
    tls_ca: Path of the certificate of the authority that has signed both sides'
      certificates.

  Returns:
    The installed runtime, a context manager.

  Raises:
    ValueError: If `workers` is not a list of addresses, is empty or has
      duplicates, a number is out of range, or a file cannot be used.
    WrongWorkerError: If a server is not a worker, a worker has another version,
      or one side refuses the other's certificate.
    RemoteError: If a worker does not answer or serves another program; in a
      later call, if no worker is left, or the time or the repetitions are used
      up. The workers are named.
  """
  _check(workers, max_retries, connect_seconds=connect_seconds,
         round_seconds=round_seconds, heartbeat_seconds=heartbeat_seconds)
  files = tls.files(tls_cert, tls_key, tls_ca)
  cluster = _Cluster(
      [worker_lib.Worker(each, heartbeat_seconds, files) for each in workers],
      round_seconds, max_retries,
  )
  cluster.connect(connect_seconds)
  execution = errors.ExecutionContext(
      executor_fn=tff.framework.ResourceManagingExecutorFactory(
          executor_stack_fn=lambda sizes: executor.HoldingExecutor(
              lambda program, argument: cluster.run(
                  program, argument, sizes.get(tff.CLIENTS, 0)
              )
          )
      ),
      compiler_fn=levels.from_computation,
      transform_args=tensorflow_computation.transform_args,
      transform_result=tensorflow_computation.transform_result,
  )
  return context.Installed(execution, cluster.close)


def _check(workers, max_retries, **seconds) -> None:
  """Raises the ValueErrors that `use` documents."""
  is_list = isinstance(workers, (list, tuple))
  wrong = [w for w in workers if not _is_address(w)] if is_list else [workers]
  if wrong:
    raise ValueError(
        f'`workers` must be a list of addresses host:port, found {wrong[0]!r}.'
    )
  if not workers or len(set(workers)) < len(workers):
    raise ValueError(
        '`workers` must name each worker once, at least one, found'
        f' {", ".join(workers) or "none"}.'
    )
  for name, value in seconds.items():
    if not value > 0:
      raise ValueError(f'`{name}` must be > 0, found {value}.')
  if max_retries < 0:
    raise ValueError(f'`max_retries` must be >= 0, found {max_retries}.')


def _is_address(value) -> bool:
  if not isinstance(value, str):
    return False
  host, _, port = value.rpartition(':')
  return bool(host) and port.isdecimal() and 0 < int(port) < 65536


class _Cluster:
  """The workers that a driver uses."""

  def __init__(self, workers, round_seconds: float, max_retries: int):
    self._workers = workers
    self._round_seconds = round_seconds
    self._max_retries = max_retries

  def connect(self, seconds: float) -> None:
    """Waits for all workers."""
    deadline = time.monotonic() + seconds
    try:
      # All drivers use the same order, or else each of two might wait for a
      # worker that the other has.
      missing = {
          worker.address for worker
          in sorted(self._workers, key=lambda w: w.address)
          if not worker.connect(deadline)
      }
    except BaseException as error:
      self.close()
      if isinstance(error, lease.Refused):
        raise WrongWorkerError(str(error)) from error
      raise
    if missing:
      self.close()
      reasons = [
          f'{w.address} ({w.lost_because})' for w in self._workers
          if w.address in missing
      ]
      raise RemoteError(
          f'All workers must answer and be free within {seconds:g} s, found'
          f' otherwise: {", ".join(reasons)}. Tip: start them with `python -m'
          ' binaries.worker --port=8000`, see docs/remote.md.'
      )

  def close(self) -> None:
    for worker in self._workers:
      worker.close()

  def run(self, program: levels.Program, argument: Any, num_clients: int):
    """Runs a computation, and repeats it if a worker is lost."""
    deadline = time.monotonic() + self._round_seconds
    for repetition in range(self._max_retries + 1):
      workers = [worker for worker in self._workers if worker.is_alive]
      if not workers:
        lost = [f'{w.address} ({w.lost_because})' for w in self._workers]
        raise RemoteError(f'All workers are lost: {", ".join(lost)}.')
      try:
        return round_lib.run(program, argument, num_clients, workers, deadline)
      except worker_lib.WorkerLate as late:
        raise RemoteError(
            f'A computation must end within {self._round_seconds:g} s, found'
            f' {late} still at work.'
        ) from late
      except worker_lib.WorkerLost as error:
        last_lost = error
        logging.warning(
            'The computation lost worker %s; repetition %d of at most %d.',
            last_lost, repetition + 1, self._max_retries,
        )
    raise RemoteError(
        f'A computation must not lose workers more than {self._max_retries}'
        f' times, found it lost {last_lost} last.'
    )
