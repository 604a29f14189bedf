"""Asynchronous training as a schedule of events, computed before training.

A bounded number of clients computes at any time. When a message arrives, the
server applies it and sends the newest weights to an idle client. Which client
computes when depends on the seed and on how long clients take, but not on what
is trained. So the schedule is known before the first step, and with it the
largest delay, on which the step size of the theory depends.

    schedule = asynchrony.make_schedule(delays, 20, 5, 3000, seed=0)

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025. Algorithm 3.
"""

import heapq
from typing import NamedTuple

import numpy as np

from tff_pers.simulation import asynchrony_delays

REDISPATCH = ('uniform_idle', 'same_client', 'uniform')
_EVENTS = 3  # First number of seed sequences; see `cohort` for 1 and 2.


class Schedule(NamedTuple):
  """The times at which tasks are sent to clients and messages are applied.

  Attributes:
    client: int32[T], the client that computes task 0, 1, ..., in the order in
      which tasks are sent.
    sent_after: int64[T], number of messages applied before the task was sent;
      ascending, 0 for the first ones.
    sent_at: float64[T], virtual seconds.
    arrives_at: float64[T], virtual seconds.
    order: int64[A], the task whose message is applied as number 0, 1, ...
    messages_per_update: B, number of messages per server update.
    in_flight: P, number of clients that compute at the same time.
  """

  client: np.ndarray
  sent_after: np.ndarray
  sent_at: np.ndarray
  arrives_at: np.ndarray
  order: np.ndarray
  messages_per_update: int
  in_flight: int

  @property
  def num_updates(self) -> int:
    """Number of server updates that all messages make."""
    return len(self.order) // self.messages_per_update

  @property
  def staleness(self) -> np.ndarray:
    """int64[A], server updates between dispatch and application."""
    applied = np.arange(len(self.order)) // self.messages_per_update
    return applied - self.sent_after[self.order] // self.messages_per_update

  def time_of(self, applied: int) -> float:
    """Returns the clock after `applied` messages, in virtual seconds."""
    return float(self.arrives_at[self.order[applied - 1]]) if applied else 0.0

  def num_in_flight(self, applied: int) -> int:
    """Returns how many messages are under way once `applied` are applied."""
    sent = np.searchsorted(self.sent_after, applied, side='right')
    return int(sent) - applied

  def max_delay(self, num_updates: int) -> int:
    """Returns tau_max >= 1 of the theory, for `num_updates` server updates.

    A delay counts the updates from the dispatch of a task up to and including
    the one that applies its message: its staleness plus 1. Tasks that are still
    under way at the end count with the updates they have missed.
    """
    applied = num_updates * self.messages_per_update
    delays = [1, *(self.staleness[:applied] + 1)]
    done = self.order[:applied]
    waiting = np.setdiff1d(
        np.flatnonzero(self.sent_after < applied), done, assume_unique=True
    )
    sent = self.sent_after[waiting] // self.messages_per_update
    return int(max([*delays, *(num_updates - sent)]))

  def clients_of(self, update: int) -> np.ndarray:
    """Returns the clients of server update 0, 1, ..., int32[B]."""
    size = self.messages_per_update
    return self.client[self.order[update * size:(update + 1) * size]]


def make_schedule(
    delays: asynchrony_delays.Delays,
    num_clients: int,
    in_flight: int,
    num_updates: int,
    *,
    seed: int,
    messages_per_update: int = 1,
    redispatch: str = 'uniform_idle',
) -> Schedule:
  """Returns the schedule; a longer one begins with the shorter one.

  Messages that arrive at the same time are all applied, in the order of the
  clients, before any client is sent a new task.

  Args:
    delays: How long the visits of clients take.
    num_clients: N.
    in_flight: P <= N, number of clients that compute at the same time.
    num_updates: Server updates.
    seed: The run's seed.
    messages_per_update: B.
    redispatch: Which client is sent the next task: one drawn uniformly from the
      idle ones (`uniform_idle`), the one whose message was applied
      (`same_client`), or one drawn uniformly from all (`uniform`), which
      computes its tasks one after the other.

  Raises:
    ValueError: If P is not in 1..N, or the rule is unknown.
  """
  if not 1 <= in_flight <= num_clients:
    raise ValueError(
        f'`in_flight` must be >= 1 and <= the {num_clients} clients that train,'
        f' found {in_flight}.'
    )
  if redispatch not in REDISPATCH:
    raise ValueError(
        f'`redispatch` must be one of {", ".join(REDISPATCH)}, found'
        f' {redispatch!r}.'
    )
  events = _Events(delays, num_clients, np.random.default_rng(
      [_EVENTS, seed, 0]
  ))
  draw = events.draw if redispatch == 'uniform' else events.draw_idle
  for _ in range(in_flight):
    events.send(draw(), now=0.0)
  while len(events.order) < num_updates * messages_per_update:
    now, clients = events.apply_next()
    if redispatch == 'uniform_idle':
      events.idle += clients
    for client in clients:
      events.send(client if redispatch == 'same_client' else draw(), now)
  return Schedule(
      client=np.array(events.client, np.int32),
      sent_after=np.array(events.sent_after, np.int64),
      sent_at=np.array(events.sent_at, np.float64),
      arrives_at=np.array(events.arrives_at, np.float64),
      order=np.array(events.order, np.int64),
      messages_per_update=messages_per_update, in_flight=in_flight,
  )


class _Events:
  """The events so far, and the state of the simulation after them."""

  def __init__(self, delays, num_clients: int, generator):
    self._delays, self._generator = delays, generator
    self._visits = [0] * num_clients
    self._busy_until = [0.0] * num_clients
    # A heap of (time of arrival, client, task).
    self._under_way: list[tuple[float, int, int]] = []
    self.idle = list(range(num_clients))
    self.client: list[int] = []
    self.sent_after: list[int] = []
    self.sent_at: list[float] = []
    self.arrives_at: list[float] = []
    self.order: list[int] = []

  def draw_idle(self) -> int:
    """Draws a client uniformly from the idle ones and removes it from them."""
    idle, place = self.idle, int(self._generator.integers(len(self.idle)))
    idle[place], idle[-1] = idle[-1], idle[place]
    return idle.pop()

  def draw(self) -> int:
    """Draws a client uniformly from all."""
    return int(self._generator.integers(len(self._visits)))

  def send(self, client: int, now: float) -> None:
    """Sends a task to a client, which computes those that it has before."""
    seconds = self._delays.draw(self._generator, client, self._visits[client])
    self._visits[client] += 1
    arrives_at = max(now, self._busy_until[client]) + seconds
    self._busy_until[client] = arrives_at
    heapq.heappush(self._under_way, (arrives_at, client, len(self.client)))
    self.client.append(client)
    self.sent_after.append(len(self.order))
    self.sent_at.append(now)
    self.arrives_at.append(arrives_at)

  def apply_next(self) -> tuple[float, list[int]]:
    """Applies the messages of the next arrival time; returns it and clients."""
    now, clients = self._under_way[0][0], []
    while self._under_way and self._under_way[0][0] == now:
      _, client, task = heapq.heappop(self._under_way)
      self.order.append(task)
      clients.append(client)
    return now, clients
