"""Any task with its clients on demand, and a record of who is read."""

import dataclasses
import threading

from tff_pers.data import on_demand
from tff_pers.data.tasks import registry
from tff_pers.simulation import program


class Reads:
  """Positions that were read, in order, and the threads that did it.

  Attributes:
    train: Those of training data.
    test: Those of test data.
    threads: Names of the threads.
  """

  def __init__(self):
    self.train, self.test, self.threads = [], [], set()

  def on_demand(self, task):
    """Returns a task whose clients are on demand."""
    return dataclasses.replace(
        task, train=self._clients(task.train, self.train),
        test=self._clients(task.test, self.test), class_counts=None,
    )

  def data(self, data: program.Data) -> program.Data:
    """Returns data of clients on demand."""
    return program.Data(
        self._clients(data.train, self.train),
        self._clients(data.test, self.test),
    )

  def _clients(self, clients, read):
    def load(position):
      read.append(position)
      self.threads.add(threading.current_thread().name)
      examples = clients[position]['examples']
      return examples['x'], examples['y']

    return on_demand.OnDemand(load, on_demand.sizes(clients))


def make_on_demand(monkeypatch) -> Reads:
  """Puts the clients of all tasks on demand, as if their `build` had."""
  reads = Reads()
  hold_out = registry.validation.hold_out
  monkeypatch.setattr(
      registry.validation, 'hold_out',
      lambda task, *rest: hold_out(reads.on_demand(task), *rest),
  )
  return reads
