"""Reads the data of the next cohort while the round of this one runs."""

from concurrent import futures
import time
from typing import Any, Optional, Sequence

from tff_pers.data import on_demand


class Prefetch:
  """The training data of cohorts, which a thread may read ahead.

  Reading ahead is for `OnDemand` data and only inside of `with`, at whose end
  no thread is left. Of two cohorts at most the data are held: the one that
  trains and the next one.

  Attributes:
    seconds_waiting: How long `take` has taken so far.
  """

  def __init__(self, clients: Sequence[Any]):
    """Reads nothing yet; `clients` are dense client data in order."""
    self._clients = clients
    self._pool: Optional[futures.ThreadPoolExecutor] = None
    self._begun: Optional[tuple[list[int], futures.Future]] = None
    self.seconds_waiting = 0.0

  def __enter__(self):
    if isinstance(self._clients, on_demand.OnDemand):
      # One thread: it shares the cores with the round that runs.
      self._pool = futures.ThreadPoolExecutor(1, 'prefetch')
    return self

  def __exit__(self, kind, error, trace):
    if self._pool is not None:
      self._pool.shutdown(cancel_futures=True)
    self._pool, self._begun = None, None

  def begin(self, cohort: Sequence[int]) -> None:
    """Begins to read the data of `cohort`, if it pays; nobody: of none."""
    if self._pool is not None and len(cohort):
      cohort = [int(client) for client in cohort]
      self._begun = cohort, self._pool.submit(self._read, cohort)

  def take(self, cohort: Sequence[int]) -> list[Any]:
    """Returns the data of `cohort`, in order, once they are read.

    Raises:
      DataError: If they cannot be read. What went wrong with a cohort that was
        begun and is not taken is nobody's concern.
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
