"""Shuffling Local SGD (Algorithm 1): perm checks 5 to 9 and 15b."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from baselines import local_only
from tests import acting
from tests.algorithms import visits
from tff_pers.algorithms import mixing_rows
from tff_pers.algorithms import shuffling
from tff_pers.algorithms import visit_schedule
from tff_pers.algorithms import visits as hosted

_N = 4
_PROBLEM = visits.random_quadratics(0, _N, 3)
_MIXING = visits.random_mixing(1, _N)


def _hyperparameters(**values):
  defaults = dict(
      local_steps=3, batch_size=4, learning_rate=0.05, step_cap=0.0,
      schedule='permutation',
  )
  return acting.hyperparameters(
      shuffling.ShufflingHyperparameters, defaults, **values
  )


@functools.lru_cache(maxsize=None)
def _build(**values):
  return shuffling.build_shuffling(
      _PROBLEM.model, _MIXING, _hyperparameters(**values)
  )


def _rounds(process, num_rounds, seed=3, state=None, problem=_PROBLEM):
  data = problem.clients()
  state = process.initialize_seeded(seed) if state is None else state
  states = []
  for _ in range(num_rounds):
    state = process.next(state, [()] * len(data), data)['state']
    states.append(state)
  return states


def _expected(num_rounds, seed=3, mixing=_MIXING, **values):
  epochs = -(-num_rounds // _N)
  hosts = visits.hosts_of_epochs(seed, _N, epochs)[:num_rounds]
  return visits.last(visits.run(
      _PROBLEM, mixing, hosts,
      **{**dict(learning_rate=0.05, local_steps=3), **values}
  ))


def test_process_matches_numpy_visits():
  """The simulator below (checks 8, 9) and the process do the same."""
  states = _rounds(_build(), 6)
  np.testing.assert_allclose(
      states[-1]['models'][0], _expected(6), rtol=1e-10
  )


def test_local_steps_of_a_visit_match_numpy():
  """perm traps 8, 9: clip, decay, then scale; momentum anew in each visit."""
  local = dict(momentum=0.9, weight_decay=0.5, clip_norm=0.7)
  states = _rounds(
      _build(
          learning_rate_schedule='exponential', learning_rate_rounds='2',
          learning_rate_decay=0.25, **local,
      ), 6,
  )
  expected = _expected(6, factor=lambda t: 0.5**t, **local)
  np.testing.assert_allclose(states[-1]['models'][0], expected, rtol=1e-10)


def test_resume_in_mid_epoch_repeats_the_schedule():
  """perm check 5: a state saved in mid-epoch continues bit for bit."""
  process = _build()
  whole = _rounds(process, 6)
  resumed = _rounds(process, 4, state=whole[1])
  np.testing.assert_array_equal(
      resumed[-1]['models'][0], whole[-1]['models'][0]
  )


def test_owner_row_scales_at_the_host():
  """perm check 6: -(w' - w) / (eta N K) = sum_j A[i, j] grad f_j(w_i)."""
  process = _build(learning_rate=1e-5)
  moved = _rounds(process, _N)[-1]['models'][0]
  step = (_PROBLEM.start - moved) / (1e-5 * _N * 3)
  gradients = np.einsum(
      'nij,nj->ni', _PROBLEM.curvatures, _PROBLEM.start - _PROBLEM.centers
  )
  np.testing.assert_allclose(step, _MIXING @ gradients, rtol=1e-3)
  with pytest.raises(AssertionError):
    np.testing.assert_allclose(step, _MIXING.T @ gradients, rtol=1e-3)


def test_scale_n_is_step_n_eta():
  """perm check 6: s = N with eta equals s = 1 with N eta."""
  scaled = _rounds(_build(), _N)[-1]['models'][0]
  plain = _rounds(
      _build(step_scale='one', learning_rate=0.05 * _N), _N
  )[-1]['models'][0]
  np.testing.assert_allclose(plain, scaled, rtol=1e-12)


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


def test_one_hot_rows_are_local_training():
  """With matchings, in every round, bit by bit."""
  values = dict(local_steps=3, batch_size=4, learning_rate=0.05)
  process = shuffling.build_shuffling(
      _PROBLEM.model, np.eye(_N), shuffling.ShufflingHyperparameters(**values)
  )
  alone = local_only.build_local_only(
      _PROBLEM.model, local_only.LocalOnlyHyperparameters(**values)
  )
  data = _PROBLEM.clients()
  state = alone.initialize_seeded(3)
  kept = [alone.initialize_client(state, i) for i in range(_N)]
  for reached in _rounds(process, 3):
    output = alone.next(state, kept, data)
    state, kept = output['state'], output['client_states']
    for i in range(_N):
      np.testing.assert_array_equal(
          reached['models'][0][i], alone.client_model(state, kept[i], i)[0]
      )


def test_clients_without_a_visit_send_nothing():
  """All models learn from client 0 alone, which hosts one at a time."""
  mixing = np.zeros((_N, _N))
  mixing[:, 0] = 1
  process = shuffling.build_shuffling(
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


def test_identity_is_local_training_once_per_epoch():
  """perm check 7, A = I: K local steps of size N eta per N rounds."""
  hosts = visits.hosts_of_epochs(0, _N, 3)
  moved = visits.last(visits.run(
      _PROBLEM, np.eye(_N), hosts, learning_rate=0.05, local_steps=3
  ))
  for i in range(_N):
    w = _PROBLEM.start
    for _ in range(9):
      w = w - 0.05 * _N * _PROBLEM.curvatures[i] @ (w - _PROBLEM.centers[i])
    np.testing.assert_allclose(moved[i], w, rtol=1e-12)


def test_identity_in_the_process():
  """perm check 7, A = I: visits of weight 0 change nothing at all."""
  process = shuffling.build_shuffling(
      _PROBLEM.model, np.eye(_N), _hyperparameters()
  )
  states = _rounds(process, _N)
  hosts = visits.hosts_of_epochs(3, _N, 1)
  before = np.tile(_PROBLEM.start, (_N, 1))
  for state, host in zip(states, hosts):
    models = state['models'][0]
    at_home = host == np.arange(_N)
    np.testing.assert_array_equal(models[~at_home], before[~at_home])
    assert np.all(np.any(models != before, axis=1) == at_home)
    before = models


@pytest.mark.parametrize('target', ['uniform', 'one_hot'])
def test_models_reach_the_minimizer_of_their_mixture(target):
  """perm check 7: A = 1/N reaches argmin F, one-hot on k argmin f_k."""
  mixing = np.full((_N, _N), 1 / _N) if target == 'uniform' else (
      np.eye(_N)[[1, 2, 3, 0]]
  )
  hosts = visits.hosts_of_epochs(0, _N, 4000)
  moved = visits.last(visits.run(
      _PROBLEM, mixing, hosts, learning_rate=1e-3, local_steps=3
  ))
  for i in range(_N):
    expected = _PROBLEM.minimizer(mixing[i])
    # O(eta) bias of the visits; none with a single host.
    atol = 5e-3 if target == 'uniform' else 1e-8
    np.testing.assert_allclose(moved[i], expected, atol=atol)


def test_one_client_is_plain_sgd():
  """perm check 7, N = 1."""
  problem = visits.random_quadratics(5, 1, 3)
  process = shuffling.build_shuffling(
      problem.model, np.ones((1, 1)), _hyperparameters()
  )
  moved = _rounds(process, 2, problem=problem)[-1]['models'][0][0]
  w = problem.start
  for _ in range(6):
    w = w - 0.05 * problem.curvatures[0] @ (w - problem.centers[0])
  np.testing.assert_allclose(moved, w, rtol=1e-12)


def _schedules(n, epochs, kind):
  rng = np.random.default_rng(9)
  if kind == 'fresh':
    return visits.hosts_of_epochs(4, n, epochs)
  if kind == 'fixed':
    sigma = rng.permutation(n)
    epoch = [sigma[(np.arange(n) + j) % n] for j in range(n)]
    return np.tile(np.stack(epoch), (epochs, 1))
  return rng.integers(n, size=(epochs * n, n))  # With replacement.


@functools.lru_cache(maxsize=None)
def _limit_distances(kind):
  """RMS distance to v*(alpha_i) over the last 80 epochs, for four eta."""
  n, k, d = 8, 4, 5
  found = []
  for halving in range(4):
    eta = 1e-2 / 2**halving
    squares = []
    for draw in range(3):
      problem = visits.random_quadratics(20 + draw, n, d)
      mixing = visits.random_mixing(40 + draw, n)
      optimum = np.stack([problem.minimizer(row) for row in mixing])
      # Contraction per epoch >= eta N K mu / 2; start at the optimum, so that
      # only the limit cycle has to build up.
      epochs = 80 + int(4 / (eta * n * k * 0.5))
      hosts = _schedules(n, epochs, kind)
      path = visits.run(
          problem, mixing, hosts, learning_rate=eta, local_steps=k,
          models=optimum,
      )
      ends = [w for t, w in enumerate(path) if (t + 1) % n == 0]
      squares.append(np.mean(np.sum((ends[-80:] - optimum) ** 2, axis=-1)))
    found.append(np.sqrt(np.mean(squares)))
  return np.array(found)


@pytest.mark.parametrize(
    'kind, low, high',
    [('fresh', 1.3, 1.7), ('fixed', 0.9, 1.1), ('replacement', 0.3, 0.7)],
)
def test_shuffling_order(kind, low, high):
  """perm check 8: the limit distance scales as eta^1.5, eta^1, eta^0.5."""
  distances = _limit_distances(kind)
  slope = np.mean(np.log2(distances[:-1] / distances[1:]))
  assert low <= slope <= high


def test_fresh_permutations_beat_a_fixed_one():
  """perm check 8: ratio >= 1.5 at eta = 1e-2 and >= 4 at 1.25e-3."""
  ratio = _limit_distances('fixed') / _limit_distances('fresh')
  assert ratio[0] >= 1.5 and ratio[-1] >= 4


@pytest.mark.parametrize('effective', [1, 3, 10])
def test_noise_floor(effective):
  """perm check 9: E||w_i - v*||^2 = eta N delta^2 ||alpha||^2 / (2 mu)."""
  n, d, k, eta, std = 10, 20, 5, 2e-3, 1.0
  problem = visits.random_quadratics(0, n, d)
  problem = type(problem)(
      np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d)), problem.num_examples,
      np.zeros(d),
  )
  row = np.zeros(n)
  row[:effective] = 1 / effective
  mixing = np.stack([np.roll(row, i) for i in range(n)])
  rng = np.random.default_rng(effective)
  # Time constant 1 / (eta N K) = 10 epochs: 1000 epochs x 10 models are about
  # 500 independent samples in 20 dimensions, 1.4 % standard error.
  hosts = visits.hosts_of_epochs(1, n, 1100)
  path = visits.run(
      problem, mixing, hosts, learning_rate=eta, local_steps=k,
      noise=lambda shape: std * rng.standard_normal(shape),
  )
  ends = [w for t, w in enumerate(path) if (t + 1) % n == 0][100:]
  measured = np.mean(np.sum(np.square(ends), axis=-1))
  floor = eta * n * (d * std**2) * np.sum(row**2) / 2
  np.testing.assert_allclose(measured, floor, rtol=0.1)


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
  pending = visit_schedule.nothing_pending(hyperparameters, mixing, False)
  visits_of, epochs = np.zeros((n, n), int), np.zeros(n, int)
  for t in range(40):
    before = pending['left'].numpy()
    owners, pending = plan(pending, tf.constant([t, 0], tf.int64))
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


def test_partial_participation_moves_only_hosted_models():
  process = shuffling.build_shuffling(
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
  pending = visit_schedule.nothing_pending(hyperparameters, mixing, False)
  visits_of = np.zeros((_N, _N), int)
  for t in range(100):
    cohort = np.array([t % 10 > 0] * 2 + [t % 10 == 0] * 2)
    owners, pending = plan(
        pending, tf.constant(cohort), tf.constant([t, 0], tf.int64)
    )
    hosting = np.flatnonzero(owners.numpy() >= 0)
    np.testing.assert_array_equal(hosting, np.flatnonzero(cohort))  # No idle.
    visits_of[owners.numpy()[hosting], hosting] += 1
    assert pending['left'].numpy().max() <= 2  # Epochs of one visit each.
  assert visits_of[:, 2:].min() >= 1  # What is owed is paid.
  assert np.ptp(visits_of.sum(axis=1)) <= 4  # Models train alike.


def test_full_participation_refuses_a_smaller_cohort():
  data = _PROBLEM.clients()
  process = _build()
  with pytest.raises(Exception, match='full participation'):
    process.next(process.initialize_seeded(0), [()] * 2, data[:2])


@pytest.mark.parametrize('mixing, message', [
    (np.ones((2, 3)), 'square'),
    (np.array([[0.5, 0.5], [0.5, 0.4]]), 'row 1'),
    (np.array([[0.5, 0.5], [1.5, -0.5]]), 'found row 1 with minimum -0.5'),
    (np.array([[np.nan, 1.0], [0.5, 0.5]]), 'found row 0'),
])
def test_raises_on_bad_mixing_weights(mixing, message):
  with pytest.raises(ValueError, match=message):
    shuffling.build_shuffling(_PROBLEM.model, mixing)


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
      for c in range(3):
        assert rows.weight(tf.constant(i), tf.constant(c)) == dense[i, c]
    owners, hosts = tf.constant([0, 2, 1]), tf.constant([2, 0, 0])
    np.testing.assert_array_equal(
        rows.weight(owners, hosts), dense[[0, 2, 1], [2, 0, 0]]
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
