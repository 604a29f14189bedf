"""Rounds of a method on the tiny task, for contract tests."""

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.core import process as process_lib
from tff_pers.testing import tiny

NUM_ROUNDS = 3
SEED = 3


@dataclasses.dataclass
class Snapshot:
  """Server state, and states of the clients that have taken part."""

  state: Any
  clients: dict


@dataclasses.dataclass
class Case:
  """A method on the task, and its first rounds under the seed `SEED`.

  Attributes:
    process: The method.
    task: The task.
    snapshots: Snapshots before the first round, and after each.
    name: Name of the method.
    values: Hyperparameters besides those that make it small.
  """

  process: process_lib.PersonalizedProcess
  task: tiny.Watched
  snapshots: list
  name: str = ''
  values: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def case(name: str, values: Mapping[str, Any]) -> Case:
  """Builds a method and runs its first rounds with all clients."""
  task = tiny.task()
  process = tiny.build(name, task, **values)
  return Case(process, task, train(process, task.train, SEED), name, values)


def play(
    process: process_lib.PersonalizedProcess, before: Snapshot,
    cohort: Sequence[int], data: Sequence[Mapping[str, Any]],
) -> tuple[Snapshot, Mapping[str, Any]]:
  """Returns (the snapshot after a round of `cohort`, its metrics)."""
  clients = dict(before.clients)
  for i in cohort:
    if i not in clients:
      clients[i] = process.initialize_client(before.state, i)
  output = process.next(
      before.state, [clients[i] for i in cohort], [data[i] for i in cohort]
  )
  clients.update(zip(cohort, output['client_states']))
  return Snapshot(output['state'], clients), output['metrics']


def train(
    process: process_lib.PersonalizedProcess, data: Sequence[Mapping[str, Any]],
    seed: int, num_rounds: int = NUM_ROUNDS,
) -> list[Snapshot]:
  """Returns the snapshots before and after each round with all clients."""
  snapshots = [Snapshot(process.initialize_seeded(seed), {})]
  for _ in range(num_rounds):
    after, _ = play(process, snapshots[-1], range(len(data)), data)
    snapshots.append(after)
  return snapshots


def leaves(snapshot: Snapshot) -> list:
  """Returns all arrays of a snapshot except the seed."""
  state = {name: snapshot.state[name] for name in snapshot.state}
  del state['seed']
  clients = [snapshot.clients[i] for i in sorted(snapshot.clients)]
  return [np.asarray(leaf) for leaf in tf.nest.flatten((state, clients))]


def assert_equal(actual: Snapshot, expected: Snapshot) -> None:
  """Asserts that two snapshots are bit-identical, except for the seed."""
  np.testing.assert_equal(leaves(actual), leaves(expected))


def assert_close(
    actual: Snapshot, expected: Snapshot, rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
  """Asserts that they differ by rounding of a few float32 passes at most."""
  pairs = list(zip(leaves(actual), leaves(expected)))
  assert len(pairs) == len(leaves(actual)) == len(leaves(expected))
  for a, b in pairs:
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def evaluate(case_: Case, snapshot: Snapshot) -> Any:
  """Returns the metrics of every client on its test data."""
  process, task = case_.process, case_.task
  return process.evaluate(
      snapshot.state, [snapshot.clients[i] for i in range(task.num_clients)],
      [dict(adapt=a, test=t) for a, t in zip(task.train, task.test)],
  )
