"""Schedules of events, delays and clocks: no model."""

import numpy as np
import pytest

from tests.simulation import event_runs
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_clocks
from tff_pers.simulation import asynchrony_delays
from tff_pers.simulation import cohort


def _exponential(num_clients=20, slow=10):
  return asynchrony_delays.build(
      f'exponential[slow={slow}]', '', range(num_clients)
  )


def _make(num_updates=400, *, seed=0, delays=None, **options):
  arguments = dict(num_clients=20, in_flight=5, num_updates=num_updates)
  arguments.update(options)
  return asynchrony.make_schedule(
      delays or _exponential(arguments['num_clients']), seed=seed, **arguments
  )


def test_two_clients_of_durations_1_and_4():
  """Baselines 8.1: ties in client order, all applied before any is sent."""
  schedule = _make(
      10, delays=event_runs.Durations(1.0, 4.0), num_clients=2, in_flight=2,
      redispatch='same_client',
  )
  clients = schedule.client[schedule.order].tolist()
  assert clients == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
  assert [schedule.time_of(n) for n in range(7)] == [0, 1, 2, 3, 4, 4, 5]
  # Client 0 is sent its fifth task after both messages of time 4.
  assert schedule.staleness.tolist() == [0, 0, 0, 0, 4, 0, 0, 0, 0, 4]
  assert schedule.max_delay(4) == 4 and schedule.max_delay(5) == 5


def test_staleness_counts_updates_and_not_messages():
  """Baselines 8.2: an arrival in the buffer does not raise the version."""
  schedule = _make(
      2, delays=event_runs.Durations(1.0, 4.0), num_clients=2, in_flight=2,
      redispatch='same_client', messages_per_update=5,
  )
  assert len(schedule.order) == 10 and schedule.num_updates == 2
  assert schedule.staleness.tolist() == [0] * 10
  schedule = _make(
      5, delays=event_runs.Durations(1.0, 4.0), num_clients=2, in_flight=2,
      redispatch='same_client', messages_per_update=2,
  )
  # Versions by message: 0 0 1 1 2 2 3 3 4 4; sent at 0 0 1 1 0 2 3 3 4 2.
  assert schedule.staleness.tolist() == [0, 0, 0, 0, 2, 0, 0, 0, 0, 2]


def test_a_client_computes_one_task_at_a_time_and_p_clients_compute():
  schedule = _make()
  under_way, tasks = set(), 0
  for number, task in enumerate(schedule.order):
    while tasks < len(schedule.client) and (
        schedule.sent_after[tasks] <= number
    ):
      client = int(schedule.client[tasks])
      assert client not in under_way
      under_way.add(client)
      tasks += 1
    assert len(under_way) == 5 == schedule.num_in_flight(number)
    assert schedule.arrives_at[task] == min(
        schedule.arrives_at[t] for t in range(tasks)
        if t not in schedule.order[:number]
    )
    under_way.remove(int(schedule.client[task]))


def test_who_works_next_is_uniform_over_the_idle():
  """Also who has just finished may be next: it is idle."""
  schedule = _make(6000, delays=_exponential(slow=1))
  sent = np.bincount(schedule.client, minlength=20)
  np.testing.assert_allclose(sent, len(schedule.client) / 20, rtol=0.2)
  next_clients = schedule.client[5:5 + 6000]
  same = np.mean(next_clients == schedule.client[schedule.order])
  np.testing.assert_allclose(same, 1 / 16, atol=0.015)


@pytest.mark.parametrize('in_flight', [5, 10, 20])
def test_uniform_draws_hear_all_clients_alike(in_flight):
  """The slowest takes 10 times as long as the fastest.

  A client is drawn with probability 1 / N, busy or not, so the messages of each
  are binomial. Four standard deviations, for 60 clients in all. What waits at
  slow clients at the end is at most the P tasks under way.
  """
  schedule = _make(6000, in_flight=in_flight, redispatch='uniform')
  share = 1 / 20
  sent = np.bincount(schedule.client, minlength=20)
  deviation = np.sqrt(len(schedule.client) * share * (1 - share))
  np.testing.assert_allclose(
      sent, len(schedule.client) * share, atol=4 * deviation
  )
  applied = np.bincount(schedule.client[schedule.order], minlength=20)
  assert np.all(sent - applied >= 0) and np.sum(sent - applied) == in_flight


def test_constant_delays_and_the_same_client_weigh_by_speed():
  """The closed form of the bias that uniform draws do not have."""
  seconds = np.arange(1.0, 5.0)
  schedule = _make(
      5000, delays=event_runs.Durations(*seconds), num_clients=4, in_flight=4,
      redispatch='same_client',
  )
  applied = np.bincount(schedule.client[schedule.order], minlength=4)
  expected = 1 / seconds / np.sum(1 / seconds)
  np.testing.assert_allclose(applied / applied.sum(), expected, atol=1e-3)


def test_a_busy_client_computes_its_tasks_one_after_the_other():
  schedule = _make(
      300, delays=event_runs.Durations(*[2.0] * 3), num_clients=3, in_flight=3,
      redispatch='uniform',
  )
  waited = 0
  for client in range(3):
    tasks = np.flatnonzero(schedule.client == client)
    begun = np.maximum(
        schedule.sent_at[tasks], [0.0, *schedule.arrives_at[tasks][:-1]]
    )
    np.testing.assert_array_equal(schedule.arrives_at[tasks], begun + 2)
    waited += np.sum(begun > schedule.sent_at[tasks])
  assert waited > 50  # Otherwise nothing was tried.


def test_the_same_client_works_again_if_asked_for():
  schedule = _make(redispatch='same_client')
  assert len(set(schedule.client.tolist())) == 5
  np.testing.assert_array_equal(
      schedule.client[5:405], schedule.client[schedule.order]
  )


def test_a_function_of_the_seed_and_a_longer_one_begins_with_the_shorter():
  first, longer, other = _make(100), _make(300), _make(100, seed=1)
  for a, b in zip(first[:5], longer[:5]):
    np.testing.assert_array_equal(a, b[:len(a)])
  assert not np.array_equal(first.arrives_at, other.arrives_at)


def test_largest_delay_of_the_calibration():
  """Partial personalization 8, check 11: about 45 to 57, dispatch included."""
  found = [_make(3000, seed=seed).max_delay(3000) for seed in range(4)]
  assert all(35 <= delay <= 75 for delay in found)
  one = _make(50, in_flight=1)
  assert one.max_delay(50) == 1 and not one.staleness.any()


def test_what_never_arrives_counts_with_the_updates_it_missed():
  """Assumption 5 holds for whatever is under way."""
  schedule = _make(
      6, delays=event_runs.Durations(1.0, 100.0), num_clients=2, in_flight=2,
      redispatch='same_client',
  )
  assert schedule.staleness.max() == 0 and schedule.max_delay(6) == 6


@pytest.mark.parametrize('text, mean, above', [
    ('constant[seconds=2]', 2.0, 2.0),
    ('exponential[mean=2]', 2.0, 0.0),
    ('lognormal[median=2,sigma=0.5]', 2 * np.exp(0.125), 0.0),
    ('pareto[scale=2,shape=3]', 3.0, 2.0),
])
def test_delays_have_the_mean_of_their_law(text, mean, above):
  delays = asynchrony_delays.build(text, '', range(2))
  generator = np.random.default_rng(0)
  drawn = [delays.draw(generator, 0, 0) for _ in range(20000)]
  assert min(drawn) >= above
  np.testing.assert_allclose(np.mean(drawn), mean, rtol=0.05)


def test_the_tail_of_pareto_is_heavy():
  delays = asynchrony_delays.build('pareto[shape=1.5]', '', range(1))
  generator = np.random.default_rng(0)
  drawn = np.array([delays.draw(generator, 0, 0) for _ in range(20000)])
  for t in (2.0, 10.0, 50.0):
    np.testing.assert_allclose(np.mean(drawn > t), t ** -1.5, rtol=0.25)


def test_slow_clients_and_the_network():
  delays = asynchrony_delays.build(
      'constant[slow=10]', 'constant[seconds=0.5]', range(4)
  )
  assert [delays.draw(None, c, 0) for c in range(4)] == [1.5, 4.5, 7.5, 10.5]


def test_a_trace_is_played_in_order_and_again(tmp_path):
  path = tmp_path / 'delays.csv'
  path.write_text(
      'client,compute_seconds,network_seconds\nb,1,0.5\na,2,0\nb,3,0\nc,9,9\n'
  )
  delays = asynchrony_delays.build(f'trace[file={path}]', '', ['a', 'b'])
  assert [delays.draw(None, 1, visit) for visit in range(3)] == [1.5, 3, 1.5]
  assert delays.draw(None, 0, 7) == 2


@pytest.mark.parametrize('text, message', [
    ('client,compute_seconds\na,1\n', 'found .* without network_seconds'),
    ('client,compute_seconds,network_seconds\na,1,0\n', 'without client b'),
    ('client,compute_seconds,network_seconds\na,x,0\n', "found 'x' in line 2"),
    ('client,compute_seconds,network_seconds\na,-1,0\n', "found '-1' in line"),
    ('client,compute_seconds,network_seconds\na,1\n', 'found None in line 2'),
])
def test_bad_traces_are_refused(tmp_path, text, message):
  path = tmp_path / 'delays.csv'
  path.write_text(text)
  with pytest.raises(ValueError, match=message):
    asynchrony_delays.read_trace(str(path), ['a', 'b'])


def test_a_round_lasts_as_long_as_its_slowest_client():
  sampler = cohort.fixed([[0, 2], [1], [0, 1]])
  clock = asynchrony_clocks.RoundClock(
      event_runs.Durations(5.0, 2.0, 1.0), sampler, seed=0
  )
  assert clock.values(3, {}) == dict(virtual_time=12.0)
  assert [clock.time_of(n) for n in range(4)] == [0, 5, 7, 12]


def test_the_clock_of_rounds_is_a_function_of_the_seed():
  sampler = cohort.uniform(20, 5)
  first, again, other = (
      asynchrony_clocks.RoundClock(_exponential(), sampler, seed)
      for seed in (0, 0, 1)
  )
  times = [first.time_of(n) for n in range(6)]
  assert again.time_of(5) == times[5] != other.time_of(5)
  assert times == sorted(set(times))


def test_the_clock_of_events_tells_of_all_messages_so_far():
  schedule = _make(
      10, delays=event_runs.Durations(1.0, 4.0), num_clients=2, in_flight=2,
      redispatch='same_client',
  )
  clock = asynchrony_clocks.EventClock(schedule)
  assert clock.values(5, dict(round=5)) == dict(
      virtual_time=4.0, version=5, staleness_mean=0.8, staleness_max=4,
      in_flight=2,
  )
  # `version` is the server's own where it has one.
  assert clock.values(4, dict(round=4, version=2))['version'] == 2
  assert list(clock.values(0, dict(round=0))) == list(clock.columns)
