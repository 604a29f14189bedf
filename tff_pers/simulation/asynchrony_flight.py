"""Messages in flight: what clients were sent, and what they answer.

A task is computed when its answer is first needed, together with all others
that wait. Each uses the message that it was sent, and so its own version of the
weights. A client with several tasks computes one after the other: a task waits
until the answer to the one before is applied, with the state that it leaves.
"""

import collections
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from tff_pers.core import process as process_lib
from tff_pers.core import random
from tff_pers import tff

# Tasks computed in one call, to bound memory.
_TASKS_PER_CALL = 128


class Flight:
  """The tasks under way in one process."""

  def __init__(
      self, parts: process_lib.Parts,
      client_data: Callable[[Sequence[int]], tuple[list, list]],
      clients: Sequence[int],
  ):
    """Initializes without any task.

    Args:
      parts: The steps of a round of the method.
      client_data: `tasks -> (client states, data)`.
      clients: The client of each task.
    """
    self._parts, self._client_data = parts, client_data
    self._clients = clients
    self._received: dict[int, Any] = {}
    self._answers: dict[int, Any] = {}

  def tasks(self) -> list[int]:
    """Returns the tasks under way, ascending."""
    return sorted([*self._received, *self._answers])

  def send(
      self, state: Any, tasks: Sequence[int], clients: Sequence[int]
  ) -> None:
    """Sends the weights of a server state to clients, each for one task.

    Of a client's tasks the first has the seed of the state, and each other one
    of its own, because it would draw the same examples for the same weights.
    """
    messages = self._parts.dispatch(state, list(clients))
    before: collections.Counter[int] = collections.Counter()
    for task, client, message in zip(tasks, clients, messages):
      if before[client]:
        seed = random.seed(message['seed'], before[client]).numpy()
        message = collections.OrderedDict(message, seed=seed)
      before[client] += 1
      self._received[task] = message

  def answer(self, task: int) -> Any:
    """Returns the answer to a task, which is then no longer under way."""
    if task not in self._answers:
      self._compute_waiting()
    return self._answers.pop(task)

  def _compute_waiting(self) -> None:
    first: dict[int, int] = {}
    for task in self.tasks():
      first.setdefault(self._clients[task], task)
    waiting = sorted(self._received.keys() & first.values())
    for start in range(0, len(waiting), _TASKS_PER_CALL):
      tasks = waiting[start:start + _TASKS_PER_CALL]
      messages = [self._received[task] for task in tasks]
      outputs = self._parts.work(messages, *self._client_data(tasks))
      self._answers.update(zip(tasks, outputs))
      for task in tasks:
        del self._received[task]

  def to_store(self) -> dict[int, Any]:
    """Returns all messages and answers under way, by number.

    Waiting and computed tasks have different numbers, because a kill must not
    change which tasks are computed together.
    """
    return {
        **{2 * task: message for task, message in self._received.items()},
        **{2 * task + 1: answer for task, answer in self._answers.items()},
    }

  def from_store(
      self, read: Callable[[int, Any], Any], numbers: Iterable[int]
  ) -> None:
    """Restores what `to_store` returned.

    Args:
      read: `(number, like) -> structure`.
      numbers: All numbers.
    """
    message, answer = (
        _example(computation.type_signature.result.member)
        for computation in (self._parts.dispatch, self._parts.work)
    )
    for number in numbers:
      task, is_answer = divmod(number, 2)
      if is_answer:
        self._answers[task] = read(number, answer)
      else:
        self._received[task] = read(number, message)


def _example(of_type: tff.Type) -> Mapping[str, Any]:
  """Returns a structure of that type; only its structure is meaningful."""
  return tff.types.structure_from_tensor_type_tree(
      lambda leaf: np.zeros([], leaf.dtype), of_type
  )
