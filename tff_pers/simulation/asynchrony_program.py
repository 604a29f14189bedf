"""Training by events: messages are applied as they arrive.

It extends the program of rounds, with a server update instead of a round: the
same evaluations, checkpoints and rows. The schedule says which message is
applied when; the method's parts do the local work and the server's steps.
"""

import time
from typing import Any, Sequence

import numpy as np

from tff_pers.core import process as process_lib
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_clocks
from tff_pers.simulation import asynchrony_flight
from tff_pers.simulation import non_finite
from tff_pers.simulation import program
from tff_pers.simulation import store
from tff_pers import tff


class AsynchronousProgram(program.TrainingProgram):
  """Trains one process according to a schedule of events.

  A message in flight is what its client received when it was sent; checkpoints
  contain all of them. A message that is due is sent just before the next one is
  applied, which makes no difference, because the state does not change in
  between.
  """

  def __init__(
      self,
      process: process_lib.PersonalizedProcess,
      data: program.Data,
      states: store.ClientStateStore,
      schedule: asynchrony.Schedule,
      **options: Any,
  ):
    """Starts at update 0, or at the checkpoint in `states`.

    Args:
      process: The method; it must have `parts`.
      data: Data of the clients.
      states: Client states and checkpoints.
      schedule: The events; they must match the checkpoint.
      **options: See `TrainingProgram`.

    Raises:
      ValueError: If they do not match.
    """
    assert process.parts is not None
    self._events = asynchrony_clocks.EventClock(schedule)
    super().__init__(process, data, states, clock=self._events, **options)
    self._schedule = schedule
    self._flight = asynchrony_flight.Flight(
        process.parts, self._of_tasks, schedule.client.tolist()
    )
    self._apply = _build_apply(process.parts, process.server_state_type)
    applied = self.position.round * schedule.messages_per_update
    # Tasks that are due now have not been sent yet.
    self._sent = int(np.searchsorted(schedule.sent_after, applied))
    if applied:
      self._flight.from_store(states.get_pending, states.pending())
      self._check_events(applied)

  def sampler(self, seed: int, update: int) -> np.ndarray:
    """Returns the clients of server update 0, 1, ..., see `cohort`."""
    del seed  # A schedule has one seed.
    return self._schedule.clients_of(update)

  def train_round(
      self, cohort: Sequence[int], following: Sequence[int] = ()
  ) -> dict[str, float]:
    """Applies the messages of the next server update; returns means of metrics.

    Args:
      cohort: The clients that sent these messages, as `sampler` returns them.
      following: Ignored: clients of the next update may have computed long ago,
        so nothing is read ahead for them.

    Raises:
      NonFiniteError: See `TrainingProgram.train_round`. With
        `on_non_finite='drop'` the run stops when as many messages in a row are
        dropped as are in flight.
    """
    del following
    started = time.monotonic()
    before = self._position
    first = before.round * self._schedule.messages_per_update
    measured = [
        self._apply_message(number)
        for number in range(first, first + len(cohort))
    ]
    self._position = self._position._replace(
        round=before.round + 1,
        seconds=before.seconds + time.monotonic() - started,
        virtual_time=self._events.time_of(before.round + 1),
    )
    means = {
        name: float(np.mean([row[name] for row in measured]))
        for name in measured[0]
    }
    # An attacker's message comes with no loss.
    losses = [row['train_loss'] for row in measured]
    known = [loss for loss in losses if not np.isnan(loss)]
    return means | dict(train_loss=float(np.mean(known or losses)))

  def _apply_message(self, number: int) -> dict[str, float]:
    """Applies message number 0, 1, ... of the schedule."""
    self._send_due(number)
    task = int(self._schedule.order[number])
    client = int(self._schedule.client[task])
    answer = self._flight.answer(task)
    applied = self._apply(self._state, [answer])
    metrics = applied['metrics']
    bad = np.asarray(metrics['non_finite']).tolist()
    lost = self._position.lost_in_a_row + 1 if bad else 0
    if bad and not self._drops:
      raise non_finite.NonFiniteError(self._position.round + 1, bad)
    if lost >= self._schedule.in_flight:
      raise non_finite.NobodyLeftError(self._position.round + 1, bad)
    if self._process.is_stateful:
      self._states.put(client, answer['client_state'])
    self._state = applied['state']
    done, refused = self._position, self._rows.refused(metrics)
    self._position = done.with_dropped(sorted({*bad, *refused}))._replace(
        clients=done.clients + 1, lost_in_a_row=lost,
        bytes_down=done.bytes_down + float(metrics['bytes_down']),
        bytes_up=done.bytes_up + float(metrics['bytes_up']),
    )
    return self._rows.measured(metrics)

  def _send_due(self, applied: int) -> None:
    """Sends the newest weights for all tasks due after `applied` messages."""
    end = int(np.searchsorted(self._schedule.sent_after, applied, 'right'))
    tasks = list(range(self._sent, end))
    if tasks:
      clients = self._schedule.client[tasks].tolist()
      self._flight.send(self._state, tasks, clients)
      self._sent = end

  def _of_tasks(self, tasks) -> tuple[list[Any], list[Any]]:
    """Returns the states and training data of the clients of `tasks`."""
    clients = self._schedule.client[list(tasks)].tolist()
    return self._client_states(clients), self._reader.take(clients)

  def _checkpoint(self) -> None:
    self._states.commit(
        self._state, self._position._asdict(), self._flight.to_store()
    )

  def _check_events(self, applied: int) -> None:
    """Raises if the checkpoint belongs to other events."""
    known = self._flight.tasks()
    due = np.setdiff1d(
        np.arange(self._sent), self._schedule.order[:applied]
    ).tolist()
    now = self._schedule.time_of(applied)
    if known != due or now != self.position.virtual_time:
      raise ValueError(
          '`delays` must give the same events as at the checkpoint, found'
          f' others: the clock is {now:g} after {applied} messages, it was'
          f' {self.position.virtual_time:g}. Tip: restore the trace.'
      )


def _build_apply(
    parts: process_lib.Parts, state_type: tff.Type
) -> tff.Computation:
  """Returns (S@SERVER, {answer}@CLIENTS -> <state=S, metrics=M>@SERVER)."""

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      parts.work.type_signature.result,
  )
  def apply_answers(state, answers):
    return parts.apply(state, parts.aggregate(state, answers))

  return apply_answers
