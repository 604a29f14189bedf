"""Who hosts whom, and with which step: perm check 15b; sparse rows."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.perm import visits
from tff_pers.algorithms.perm import fixed_mixing
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.algorithms.perm import visits as hosted
from tff_pers.numerics import mixing_rows

_N = 4
_PROBLEM = visits.random_quadratics(0, _N, 3)
_MIXING = visits.random_mixing(1, _N)
_hyperparameters = visits.hyperparameters


_CAPPED = np.array([
    [0.7, 0.3, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25],
    [0.9, 0.05, 0.05, 0.0],
], np.float32)


def _multipliers(hyperparameters, *, matched):
  return np.array([
      [
          hosted.step_multiplier(
              tf.constant(_CAPPED), tf.constant(i), tf.constant(c),
              hyperparameters, matched=matched,
          ).numpy()
          for c in range(_N)
      ]
      for i in range(_N)
  ])


@pytest.mark.parametrize('cap, expected', [(2.0, 2.0), ('auto', 4.0)])
def test_cap_bounds_the_largest_step(cap, expected):
  """perm 2.3: s_i = min(N, cap / max_c alpha_i(c)), c_max = 4."""
  scale = np.minimum(_N, expected / _CAPPED.max(axis=1, keepdims=True))
  np.testing.assert_allclose(
      _multipliers(_hyperparameters(step_cap=cap), matched=False),
      scale * _CAPPED, rtol=1e-6,
  )


@pytest.mark.parametrize('cap, visits', [
    (0.0, [[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]),
    ('auto', [[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [3, 1, 1, 0]]),
    (0.5, [[3, 1, 0, 0], [0, 2, 0, 0], [2, 2, 2, 2], [5, 1, 1, 0]]),
])
def test_matchings_visit_clients_of_large_weight_several_times(cap, visits):
  """Steps of about the cap, and in sum s_i alpha_i(c), s_i = |support|."""
  hyperparameters = _hyperparameters(step_cap=cap)
  counts = np.sum(_CAPPED > 0, axis=1, keepdims=True)
  found = visit_schedule.visits_per_epoch(
      tf.constant(_CAPPED), tf.constant(counts, tf.int32), hyperparameters
  )
  np.testing.assert_array_equal(found, visits)
  np.testing.assert_allclose(
      _multipliers(hyperparameters, matched=True) * visits, counts * _CAPPED,
      rtol=1e-6,
  )


def test_clients_without_a_visit_send_nothing():
  """All models learn from client 0 alone, which hosts one at a time."""
  mixing = np.zeros((_N, _N))
  mixing[:, 0] = 1
  process = fixed_mixing.build_shuffling(
      _PROBLEM.model, mixing, _hyperparameters(schedule='matching')
  )
  state, visited = process.initialize_seeded(3), np.zeros(_N, bool)
  for _ in range(5 * _N):  # A model is not among them in 1 of 300 runs.
    output = process.next(state, [()] * _N, _PROBLEM.clients())
    moved = np.any(
        output['state']['models'][0] != state['models'][0], axis=1
    )
    state, metrics = output['state'], output['metrics']
    assert moved.sum() == 1
    visited |= moved
    assert metrics['bytes_down'] == 8 * (3 + 1) / _N  # A model and a factor.
    assert metrics['bytes_up'] == 8 * 3 / _N
    assert np.isfinite(metrics['train_loss'])
  assert visited.all()


def test_matching_with_all_clients_visits_supported_pairs_once():
  """perm check 15b, m = N: each supported pair exactly once per epoch."""
  n = 6
  rng = np.random.default_rng(0)
  mixing = tf.constant((rng.random((n, n)) < 0.4) | np.eye(n, dtype=bool))
  mixing = tf.cast(mixing, tf.float32)
  hyperparameters = _hyperparameters(step_cap=0.0)
  plan = tf.function(lambda pending, key: visit_schedule.matching_owners(
      pending, mixing, tf.ones([n], tf.bool), key, hyperparameters
  ))
  pending = visit_schedule.no_pending_visits(hyperparameters, mixing, False)
  visits_of, epochs = np.zeros((n, n), int), np.zeros(n, int)
  for t in range(40):
    before = pending['left'].numpy()
    hosts = plan(pending, tf.constant([t, 0], tf.int64))
    owners, pending = hosts['owners'], hosts['pending']
    done = ~before.any(axis=1)
    # A model starts an epoch only when it met its whole support alike often.
    np.testing.assert_array_equal(
        visits_of[done], epochs[done, None] * mixing.numpy()[done]
    )
    epochs += done
    hosting = np.flatnonzero(owners.numpy() >= 0)
    assert len(set(owners.numpy()[hosting])) == len(hosting)
    visits_of[owners.numpy()[hosting], hosting] += 1
  assert epochs.min() >= 5


def test_absent_hosts_are_owed_their_visits_of_at_most_two_epochs():
  """Client 2 is absent: model 0 begins new epochs, and owes it two visits."""
  mixing = tf.constant(
      [[1 / 3, 1 / 3, 1 / 3], [0, 0, 1], [0, 0, 1]], tf.float32
  )
  hyperparameters = _hyperparameters(step_cap=0.0)
  pending = visit_schedule.no_pending_visits(hyperparameters, mixing, False)
  owed, hosts = [], []
  for t in range(5):
    found = visit_schedule.matching_owners(
        pending, mixing, tf.constant([True, True, False]),
        tf.constant([t, 0], tf.int64), hyperparameters,
    )
    pending = found['pending']
    hosts.append(found['owners'].numpy().tolist().index(0))
    owed.append(int(pending['left'][0, 2]))
  assert owed == [1, 1, 2, 2, 2]  # Two rounds of an epoch have a host.
  assert sorted(hosts[:2]) == sorted(hosts[2:4]) == [0, 1]


def test_partial_participation_moves_only_hosted_models():
  process = fixed_mixing.build_shuffling(
      _PROBLEM.model, _MIXING, _hyperparameters(), full_participation=False
  )
  data = _PROBLEM.clients()
  state = process.initialize_seeded(0)
  before = state['models'][0]
  output = process.next(state, [()] * 2, [data[3], data[1]])
  moved = np.any(output['state']['models'][0] != before, axis=1)
  assert moved.sum() == 2
  used = output['state']['pending']['left'] == 0
  np.testing.assert_array_equal(used.any(axis=0), [False, True, False, True])


def test_models_do_not_wait_for_clients_that_are_not_there():
  """Clients 2 and 3 come once in ten rounds; the other models go on."""
  mixing = tf.fill([_N, _N], 1 / _N)
  hyperparameters = _hyperparameters()
  plan = tf.function(lambda pending, cohort, key: visit_schedule.
                     matching_owners(
                         pending, mixing, cohort, key, hyperparameters
                     ))
  pending = visit_schedule.no_pending_visits(hyperparameters, mixing, False)
  visits_of = np.zeros((_N, _N), int)
  for t in range(100):
    cohort = np.array([t % 10 > 0] * 2 + [t % 10 == 0] * 2)
    hosts = plan(pending, tf.constant(cohort), tf.constant([t, 0], tf.int64))
    owners, pending = hosts['owners'], hosts['pending']
    hosting = np.flatnonzero(owners.numpy() >= 0)
    np.testing.assert_array_equal(hosting, np.flatnonzero(cohort))  # No idle.
    visits_of[owners.numpy()[hosting], hosting] += 1
    assert pending['left'].numpy().max() <= 2  # Epochs of one visit each.
  assert visits_of[:, 2:].min() >= 1  # What is owed is paid.
  assert np.ptp(visits_of.sum(axis=1)) <= 4  # Models train alike.


def _visited(mixing_of, num_rounds, hyperparameters):
  """Returns the model at each client in rounds with all, int[rounds, N]."""
  num_clients = mixing_rows.MixingRows(mixing_of(0)).num_clients
  plan = tf.function(lambda pending, mixing, key: visit_schedule.
                     matching_owners(
                         pending, mixing, tf.ones([num_clients], tf.bool), key,
                         hyperparameters
                     ))
  pending = visit_schedule.no_pending_visits(hyperparameters, mixing_of(0), False)
  owners = []
  for t in range(num_rounds):
    hosts = plan(pending, mixing_of(t), tf.constant([t, 0], tf.int64))
    pending = hosts['pending']
    owners.append(hosts['owners'].numpy())
  return np.array(owners)


@pytest.mark.parametrize('sparse', [False, True])
def test_a_client_that_enters_a_row_waits_for_the_next_epoch(sparse):
  """Model 0 learns from 0 and 1 when its epoch begins, then also from 2."""
  def mixing_of(t):
    row = [1 / 2, 1 / 2, 0] if t == 0 else [1 / 3, 1 / 3, 1 / 3]
    dense = tf.constant([row, [0, 1, 0], [0, 0, 1]], tf.float32)
    if not sparse:
      return dense
    columns = tf.constant([[2, 0, 1] if t else [0, 1, 2], [1, 0, 0], [2, 0, 0]])
    return dict(
        columns=columns,
        values=tf.gather(dense, columns, batch_dims=1)
        * [[1, 1, 1], [1, 0, 0], [1, 0, 0]],
    )

  hosts = np.argwhere(_visited(mixing_of, 30, _hyperparameters()) == 0)[:, 1]
  assert len(hosts) >= 8
  assert set(hosts[:2]) == {0, 1}
  assert set(hosts[2:5]) == set(hosts[5:8]) == {0, 1, 2}


def test_no_more_clients_are_idle_than_rows_require():
  """The bound is for models that train alike by their rows; they nearly do.

  A client hosts one model per round, so the most wanted of them is the bound.
  Rounds are few, and in the last epoch models are ahead at other clients.
  """
  n, num_rounds = 8, 150
  hyperparameters = _hyperparameters(step_cap='auto', schedule='matching')
  mixing = np.random.default_rng(0).dirichlet(np.full(n, 0.5), n)
  mixing += 0.2 * np.eye(n) + 0.15 * np.eye(n)[0]  # Client 0 is popular.
  mixing = tf.constant(mixing / mixing.sum(axis=1, keepdims=True), tf.float32)
  epoch = visit_schedule.visits_per_epoch(
      mixing, tf.fill([n, 1], n), hyperparameters
  ).numpy()
  shares = epoch / epoch.sum(axis=1, keepdims=True)
  owners = _visited(lambda t: mixing, num_rounds, hyperparameters)
  idle, bound = np.mean(owners < 0), 1 - 1 / shares.sum(axis=0).max()
  assert bound > 0.3 and abs(idle - bound) < 0.06
  visits_of = np.array([
      [np.sum(owners[:, c] == i) for c in range(n)] for i in range(n)
  ])
  found = visits_of / visits_of.sum(axis=1, keepdims=True)
  np.testing.assert_allclose(found, shares, atol=0.06)


def test_sparse_and_dense_weights_mean_the_same():
  dense = np.array(
      [[0.7, 0.0, 0.3], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], np.float32
  )
  sparse = dict(
      columns=tf.constant([[0, 2], [1, 0], [1, 0]]),
      values=tf.constant([[0.7, 0.3], [1.0, 0.0], [0.5, 0.5]]),
  )
  for rows in (mixing_rows.MixingRows(sparse),
               mixing_rows.MixingRows(tf.constant(dense))):
    np.testing.assert_array_equal(rows.own(), np.diag(dense))
    for i in range(3):
      assert rows.maximum(i) == dense[i].max()
      assert rows.count(i) == np.count_nonzero(dense[i])
      for c in range(3):
        assert rows.weight(tf.constant(i), tf.constant(c)) == dense[i, c]
    owners, hosts = tf.constant([0, 2, 1]), tf.constant([2, 0, 0])
    np.testing.assert_array_equal(rows.dense(owners), dense[[0, 2, 1]])
    np.testing.assert_array_equal(
        rows.weight(owners, hosts), dense[[0, 2, 1], [2, 0, 0]]
    )


@pytest.mark.parametrize('num_nonzeros', [0, 2])
def test_rows_are_made_and_replaced(num_nonzeros):
  alpha = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 0.125, 0.375, 0.5]])
  owners = tf.constant([3, 1])
  rows = mixing_rows.identity(4, num_nonzeros)
  new = mixing_rows.kept(tf.constant(alpha), owners, num_nonzeros)
  rows = mixing_rows.replaced(rows, owners, new)
  if num_nonzeros:
    # The largest and the own one, where that is not 0.
    alpha = np.array([[2 / 3, 1 / 3, 0, 0], [0, 0.2, 0, 0.8]])
  expected = np.eye(4)
  expected[[3, 1]] = alpha
  np.testing.assert_allclose(
      mixing_rows.MixingRows(rows).dense(tf.range(4)), expected, rtol=1e-6
  )
  np.testing.assert_array_equal(
      mixing_rows.uniform(2, 5), np.full([2, 5], np.float32(0.2))
  )


def test_visits_follow_clients_to_other_columns():
  """Sparse rows that changed: by client, 0 for who was not there."""
  rows = mixing_rows.MixingRows(dict(
      columns=tf.constant([[3, 0, 1], [2, 1, 0], [2, 2, 2], [3, 1, 0]]),
      values=tf.ones([4, 3]),
  ))
  before = dict(
      clients=tf.constant([[0, 1, 2], [0, 1, 2], [2, 2, 2], [3, 1, 2]]),
      visits=tf.constant([[5, 6, 7], [5, 6, 7], [4, 0, 0], [1, 2, 3]]),
  )
  np.testing.assert_array_equal(
      rows.looked_up(**before), [[0, 5, 6], [7, 6, 5], [4, 4, 4], [1, 2, 0]]
  )
