"""The program of events: what is applied when, batches, checkpoints."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

from baselines import ditto
from baselines import fedavg
from baselines import fedbuff
from tests import problems
from tests.simulation import event_runs
from tff_pers.simulation import asynchrony_flight
from tff_pers.simulation import non_finite
from tff_pers.simulation import store

_ONE_STEP = dict(local_steps=1, learning_rate=0.1, batch_size=64)


@functools.lru_cache(maxsize=None)
def _fedavg():
  """FedAvg of one full step: what arrives is 0.1 A_i (w_v - c_i)."""
  return fedavg.build_fedavg(
      problems.q6().model, fedavg.FedAvgHyperparameters(**_ONE_STEP),
      client_weighting='uniform',
  )


@functools.lru_cache(maxsize=None)
def _ditto():
  model = problems.tiny_model()
  return ditto.build_ditto(
      model, ditto.DittoHyperparameters(
          local_steps=2, learning_rate=0.1, batch_size=2
      ),
  )


def _played(schedule, num_updates):
  """Returns by NumPy, after every message of FedAvg of one full step, w.

  And (client, the w that it was sent) of every message.
  """
  problem = problems.q6()
  received, w, path, answered, sent = {}, problem.start, [], [], 0
  for number in range(num_updates):
    while sent < len(schedule.client) and schedule.sent_after[sent] <= number:
      received[sent] = w
      sent += 1
    task = schedule.order[number]
    i = schedule.client[task]
    answered.append((i, received.pop(task)))
    w = w - 0.1 * problem.curvatures[i] @ (
        answered[-1][1] - problem.centers[i]
    )
    path.append(w)
  return np.array(path), answered


@pytest.mark.parametrize('options', [
    dict(in_flight=3), dict(delays=event_runs.Durations(1, 1, 2, 2, 1, 3)),
    dict(in_flight=1), dict(in_flight=4, redispatch='same_client'),
])
def test_messages_are_applied_once_each_as_computed_at_what_was_sent(options):
  """Check 10: with one client in flight that is sequential SGD."""
  events = event_runs.schedule(6, 25, **options)
  trainer = event_runs.trainer(_fedavg(), problems.q6().clients(), events)
  found = [
      np.asarray(state['weights'][0])
      for state in event_runs.updates(trainer, 25)
  ]
  np.testing.assert_allclose(found, _played(events, 25)[0], rtol=0, atol=1e-12)
  assert trainer.position.round == trainer.position.clients == 25
  assert trainer.position.virtual_time == events.time_of(25)


@pytest.mark.parametrize('redispatch', ['uniform_idle', 'uniform'])
def test_a_client_goes_on_from_its_own_state(redispatch):
  """Ditto of one full step: v <- v - 0.1 (A_i (v - c_i) + (v - w)).

  Of a client that is sent a task while it is busy, too: v is then what the task
  before leaves, w what it was sent.
  """
  problem = problems.q6()
  process = ditto.build_ditto(
      problem.model, ditto.DittoHyperparameters(**_ONE_STEP),
      client_weighting='uniform',
  )
  states = store.ClientStateStore()
  events = event_runs.schedule(6, 25, in_flight=3, redispatch=redispatch)
  trainer = event_runs.trainer(process, problem.clients(), events, states)
  for _ in event_runs.updates(trainer, 25):
    pass
  under_way = [
      np.setdiff1d(np.flatnonzero(events.sent_after <= n), events.order[:n])
      for n in range(25)
  ]
  most = max(np.bincount(events.client[tasks]).max() for tasks in under_way)
  assert (most > 1) == (redispatch == 'uniform')
  expected = {}
  for i, w in _played(events, 25)[1]:
    v = expected.get(i, problem.start)
    gradient = problem.curvatures[i] @ (v - problem.centers[i])
    expected[i] = v - 0.1 * (gradient + v - w)
  like = process.initialize_client(trainer.state, 0)
  assert set(states.clients()) == set(expected) and len(expected) > 3
  for client, v in expected.items():
    np.testing.assert_allclose(states.get(client, like)[0], v, rtol=1e-10)


def test_recorded_staleness_is_that_of_the_versions():
  """The version that a message says, against the server's when it arrives."""
  problem = problems.q6()
  process = fedbuff.build_fedbuff(
      problem.model, fedbuff.FedBuffHyperparameters(buffer_size=2, **_ONE_STEP)
  )
  events = event_runs.schedule(6, 20, in_flight=4, messages_per_update=2)
  trainer = event_runs.trainer(process, problem.clients(), events)
  found, apply = [], trainer._apply  # pylint: disable=protected-access
  def noted(state, answers):
    [answer] = answers
    found.append(int(state['version']) - int(answer['update']['version']))
    return apply(state, answers)
  trainer._apply = noted  # pylint: disable=protected-access
  *_, last = event_runs.updates(trainer, 20)
  assert found == events.staleness[:40].tolist() and max(found) >= 2
  assert last['version'] == 20 and last['round'] == 40


def test_tasks_that_wait_are_computed_together(monkeypatch):
  """All that are under way when an answer is needed, of whatever version."""
  calls, work = [], asynchrony_flight.Flight._compute_waiting
  def counted(flight):
    calls.append(len(flight._received))
    work(flight)
  monkeypatch.setattr(
      asynchrony_flight.Flight, '_compute_waiting', counted
  )
  events = event_runs.schedule(6, 30, in_flight=5)
  trainer = event_runs.trainer(_fedavg(), problems.q6().clients(), events)
  together = np.array(trainer.state['weights'])
  for together in event_runs.updates(trainer, 30):
    pass
  assert calls[0] == 5 and len(calls) < 20 and max(calls[1:]) > 1
  monkeypatch.setattr(asynchrony_flight, '_TASKS_PER_CALL', 1)
  alone = event_runs.trainer(_fedavg(), problems.q6().clients(), events)
  for single in event_runs.updates(alone, 30):
    pass
  np.testing.assert_array_equal(single['weights'][0], together['weights'][0])


def _leaves(states, trainer):
  """Returns all that a run ends with, as arrays."""
  process = trainer._process  # pylint: disable=protected-access
  like = process.initialize_client(trainer.state, 0)
  kept = [states.get(client, like) for client in states.clients()]
  return [
      np.asarray(leaf) for leaf in tf.nest.flatten((trainer.state, kept))
  ]


@pytest.mark.parametrize('stop, kinds', [(4, {0, 1}), (1, {1}), (5, {0})])
def test_a_run_goes_on_from_its_checkpoint_with_the_same_bits(
    tmp_path, stop, kinds
):
  """Messages under way are in it, both computed ones and ones that wait."""
  clients = problems.tiny_clients()
  events = event_runs.schedule(5, 12, in_flight=3)
  runs = {}
  for name in ('whole', 'parts'):
    with store.ClientStateStore(tmp_path / name) as states:
      trainer = event_runs.trainer(_ditto(), clients, events, states, seed=3)
      for number, _ in enumerate(event_runs.updates(trainer, 12), start=1):
        trainer._checkpoint()  # pylint: disable=protected-access
        if name == 'parts' and number == stop:
          break
      runs[name] = _leaves(states, trainer), trainer.position.clients
  with store.ClientStateStore(tmp_path / 'parts') as states:
    trainer = event_runs.trainer(_ditto(), clients, events, states, seed=3)
    assert trainer.position.round == stop and states.pending()
    assert {number % 2 for number in states.pending()} == kinds
    for _ in event_runs.updates(trainer, 12 - stop):
      pass
    resumed = _leaves(states, trainer), trainer.position.clients
  whole, clients_whole = runs['whole']
  assert resumed[1] == clients_whole == 12
  assert len(resumed[0]) == len(whole)
  for a, b in zip(resumed[0], whole):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


def test_other_events_than_those_of_the_checkpoint_are_refused():
  states = store.ClientStateStore()
  clients = problems.q6().clients()
  first = event_runs.schedule(6, 20, in_flight=4)
  trainer = event_runs.trainer(_fedavg(), clients, first, states)
  for _ in event_runs.updates(trainer, 5):
    pass
  trainer._checkpoint()  # pylint: disable=protected-access
  longer = event_runs.schedule(6, 40, in_flight=4)
  event_runs.trainer(_fedavg(), clients, longer, states)
  for other in (dict(seed=1), dict(delays=event_runs.Durations(*range(1, 7)))):
    events = event_runs.schedule(6, 20, in_flight=4, **other)
    with pytest.raises(ValueError, match='`delays` must give the same events as'):
      event_runs.trainer(_fedavg(), clients, events, states)


def _with_nan(clients, bad):
  broken = list(clients)
  for client in bad:
    examples = broken[client]['examples']
    broken[client] = collections.OrderedDict(broken[client], examples=(
        collections.OrderedDict(examples, x=np.full_like(examples['x'], np.nan))
    ))
  return broken


def test_what_is_not_finite_stops_the_run_or_is_dropped():
  clients = _with_nan(problems.q6().clients(), [2])
  events = event_runs.schedule(
      6, 30, delays=event_runs.Durations(1, 2, 3, 4, 5, 6)
  )
  trainer = event_runs.trainer(_fedavg(), clients, events)
  with pytest.raises(non_finite.NonFiniteError, match='at client 2'):
    list(event_runs.updates(trainer, 30))
  trainer = event_runs.trainer(
      _fedavg(), clients, events, on_non_finite='drop'
  )
  *_, last = event_runs.updates(trainer, 30)
  assert np.all(np.isfinite(last['weights'][0]))
  [(client, times)] = trainer.position.dropped
  clients_applied = events.client[events.order[:30]]
  assert client == 2 and times == np.sum(clients_applied == 2) > 1


def test_a_run_in_which_all_in_flight_are_lost_ends():
  clients = _with_nan(problems.q6().clients(), range(6))
  events = event_runs.schedule(6, 30, in_flight=4)
  trainer = event_runs.trainer(
      _fedavg(), clients, events, on_non_finite='drop'
  )
  with pytest.raises(non_finite.NobodyLeftError):
    list(event_runs.updates(trainer, 30))
  assert trainer.position.lost_in_a_row == 3
