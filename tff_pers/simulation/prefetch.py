"""Reads the data of the next cohort during the current round."""

from concurrent import futures
import time
from typing import Any, Optional, Sequence

from tff_pers.data import on_demand


class Prefetch:
  """Training data of cohorts, read ahead by a thread where that pays.

  It reads ahead only for `OnDemand` data and inside `with`, at the end of which
  no thread is left. It holds the data of at most two cohorts: the one that
  trains and the next one.

  Attributes:
    seconds_waiting: How long `take` has waited so far.
  """

  def __init__(self, clients: Sequence[Any]):
    """Initializes with dense client data, in order; reads nothing yet."""
    self._clients = clients
    self._pool: Optional[futures.ThreadPoolExecutor] = None
    self._begun: Optional[tuple[list[int], futures.Future]] = None
    self.seconds_waiting = 0.0

  def __enter__(self):
    if isinstance(self._clients, on_demand.OnDemand):
      # One thread, since it shares the cores with the current round.
      self._pool = futures.ThreadPoolExecutor(1, 'prefetch')
    return self

  def __exit__(self, kind, error, trace):
    if self._pool is not None:
      self._pool.shutdown(cancel_futures=True)
    self._pool, self._begun = None, None

  def begin(self, cohort: Sequence[int]) -> None:
    """Starts reading the data of `cohort` if that pays; empty: of none."""
    if self._pool is not None and len(cohort):
      cohort = [int(client) for client in cohort]
      self._begun = cohort, self._pool.submit(self._read, cohort)

  def take(self, cohort: Sequence[int]) -> list[Any]:
    """Returns the data of `cohort`, in order, once they have been read.

    Raises:
      DataError: If they cannot be read. Errors of a cohort that was begun but
        never taken are ignored.
    """
    started = time.monotonic()
    cohort = [int(client) for client in cohort]
    begun, self._begun = self._begun, None
    try:
      if begun is not None and begun[0] == cohort:
        return begun[1].result()
      return self._read(cohort)
    finally:
      self.seconds_waiting += time.monotonic() - started

  def _read(self, cohort: Sequence[int]) -> list[Any]:
    return [self._clients[client] for client in cohort]
