"""Runs one computation on several workers, each with a slice of the cohort.

The driver deserializes only the argument and the result: values from the server
and accumulators of workers pass through it unchanged.
"""

import functools
import threading
from typing import Any, Callable, Sequence

from tensorflow_federated.proto.v0 import executor_pb2

from tff_pers.runtime.remote import levels
from tff_pers.runtime.remote import worker as worker_lib
from tff_pers import tff


def run(
    program: levels.Program,
    argument: Any,
    num_clients: int,
    workers: Sequence[worker_lib.Worker],
    deadline: float,
) -> Any:
  """Runs `program`; the first worker is the server, too.

  If there are more workers than clients, the last ones stay idle. A value at
  clients is a list, and the deadline one of `time.monotonic()`.

  Returns:
    The result: nested `tff.structure.Struct`s of values as TFF deserializes.

  Raises:
    WorkerLost: If a worker is lost.
    WorkerLate: If workers are not done by `deadline`; names all of them.
  """
  workers = workers[:max(1, num_clients)]
  bounds = [i * num_clients // len(workers) for i in range(len(workers) + 1)]
  slices = [slice(*pair) for pair in zip(bounds, bounds[1:])]
  opened = []  # In any order; some of them, if a worker fails.

  def open_session(i):
    size = slices[i].stop - slices[i].start
    session = worker_lib.Session(workers[i], size, deadline)
    opened.append(session)
    return session

  try:
    sessions = _in_parallel(open_session, len(workers))
    return _Round(program, argument, sessions, slices).run()
  finally:
    _in_parallel(lambda i: opened[i].close(), len(opened))


class _Round:
  """The values of one computation by name, at the driver and at workers."""

  def __init__(self, program, argument, sessions, slices):
    self._program = program
    self._argument = argument
    self._sessions = sessions
    self._slices = slices
    self._values = {}  # At the driver: values at the server or unplaced.
    self._refs: list[dict] = [{} for _ in sessions]  # At the workers.

  def run(self):
    """Returns the result."""
    for level in self._program.levels:
      if level.server:
        self._call(0, level.server)
      if level.clients:
        for name in level.clients.inputs:
          if len(self._sessions) > 1 and not self._is_at_clients(name):
            self._value(name)
        self._on_all(functools.partial(self._call, turn=level.clients))
      if level.merge:
        self._merge(level.merge)
    return self._result(self._program.result)

  def _on_all(self, function: Callable[[int], Any]) -> list[Any]:
    return _in_parallel(function, len(self._sessions))

  def _is_at_clients(self, name: str) -> bool:
    return levels.is_at_clients(self._program.types[name])

  def _call(self, i: int, turn: levels.Turn) -> None:
    """Starts `turn` at worker `i`."""
    arguments = [self._ref(i, name) for name in turn.inputs]
    results = self._sessions[i].call(
        turn.function, arguments, len(turn.outputs)
    )
    self._refs[i].update(zip(turn.outputs, results))

  def _ref(self, i: int, name: str) -> executor_pb2.ValueRef:
    """Returns a reference to a value at worker `i`, sending it if necessary."""
    if name not in self._refs[i]:
      value = (
          self._slice(i, name) if self._is_at_clients(name)
          else self._value(name)
      )
      self._refs[i][name] = self._sessions[i].create(value)
    return self._refs[i][name]

  def _value(self, name: str) -> executor_pb2.Value:
    """Returns a value that is not at clients."""
    if name not in self._values:
      self._values[name] = (
          self._serialize(name, self._part(name))
          if name in self._program.parameters
          else self._sessions[0].fetch(self._refs[0][name])
      )
    return self._values[name]

  def _part(self, name: str):
    """Returns a part of the argument."""
    part = self._argument
    for i in self._program.parameters[name]:
      part = tff.structure.from_container(part)[i]
    return part

  def _slice(self, i: int, name: str) -> executor_pb2.Value:
    """Returns the part of the argument that belongs to worker `i`'s clients."""
    part = self._part(name)
    if not self._program.types[name].all_equal:
      part = list(part)[self._slices[i]]
    return self._serialize(name, part)

  def _serialize(self, name: str, part) -> executor_pb2.Value:
    return tff.framework.serialize_value(part, self._program.types[name])[0]

  def _merge(self, turn: levels.Turn) -> None:
    """Merges the accumulators of all workers at the first one, in order.

    Neighbours are merged in pairs, all pairs at the same time, each at the
    worker of its left operand, until one accumulator is left.
    """
    count, distance = len(self._sessions), 1
    while distance < count:
      lefts = range(0, count - distance, 2 * distance)
      _in_parallel(
          functools.partial(self._merge_pair, turn, distance, lefts), len(lefts)
      )
      distance *= 2

  def _merge_pair(
      self, turn: levels.Turn, distance: int, lefts: Sequence[int], k: int
  ) -> None:
    """Merges the accumulator at `distance` into that of worker `lefts[k]`."""
    left, right = lefts[k], lefts[k] + distance
    [pack] = turn.outputs
    partial = self._sessions[right].fetch(self._refs[right].pop(pack))
    operands = [self._refs[left][pack], self._sessions[left].create(partial)]
    [self._refs[left][pack]] = self._sessions[left].call(
        turn.function, operands, 1
    )

  def _result(self, block):
    """Returns the value of a struct of references."""
    if isinstance(block, tff.framework.Struct):
      return tff.structure.Struct([
          (name, self._result(member))
          for name, member in tff.structure.iter_elements(block)
      ])
    name, result_type = block.name, self._program.types[block.name]
    if not self._is_at_clients(name):
      return _deserialize(self._value(name), result_type)
    fetch = lambda i: self._sessions[i].fetch(self._ref(i, name))
    if result_type.all_equal:
      return _deserialize(fetch(0), result_type)
    return [
        value for part in self._on_all(fetch)
        for value in _deserialize(part, result_type)
    ]


def _deserialize(value: executor_pb2.Value, value_type: tff.Type):
  if isinstance(value_type, tff.FederatedType) and not value.federated.value:
    return []  # TFF refuses to deserialize values of no clients.
  return tff.framework.deserialize_value(value, value_type)[0]


def _in_parallel(function: Callable[[int], Any], count: int) -> list[Any]:
  """Returns `function(i)` for all `i`; raises after all have ended.

  Threads are daemons, so that Ctrl-C ends a program that waits for workers.
  """
  results, errors = [None] * count, []

  def call(i):
    try:
      results[i] = function(i)
    except Exception as error:  # pylint: disable=broad-except
      errors.append(error)

  threads = [
      threading.Thread(target=call, args=(i,), daemon=True)
      for i in range(count)
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  late = [e for e in errors if isinstance(e, worker_lib.WorkerLate)]
  lost = [e for e in errors if isinstance(e, worker_lib.WorkerLost)]
  for error in errors:
    if error not in late and error not in lost:
      raise error  # An error of the computation itself.
  if late:
    raise worker_lib.WorkerLate(', '.join(map(str, late)))
  if lost:
    raise lost[0]
  return results
