"""Shuffling Local SGD (Algorithm 1): perm checks 5 to 9."""

import functools

import numpy as np
import pytest

from baselines import local_only
from tests.algorithms.perm import visits
from tff_pers.algorithms.perm import fixed_mixing

_N = 4
_PROBLEM = visits.random_quadratics(0, _N, 3)
_MIXING = visits.random_mixing(1, _N)
_hyperparameters = visits.hyperparameters


@functools.lru_cache(maxsize=None)
def _build(**values):
  return fixed_mixing.build_shuffling(
      _PROBLEM.model, _MIXING, _hyperparameters(**values)
  )


def _rounds(process, num_rounds, state=None, problem=_PROBLEM):
  data = problem.clients()
  state = process.initialize_seeded(3) if state is None else state
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
  """perm traps 8, 9: clip, decay, then scale; new momentum in each visit."""
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


def test_one_hot_rows_are_local_training():
  """With matchings, in every round, bit by bit."""
  values = dict(local_steps=3, batch_size=4, learning_rate=0.05)
  process = fixed_mixing.build_shuffling(
      _PROBLEM.model, np.eye(_N),
      fixed_mixing.ShufflingHyperparameters(**values),
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
  process = fixed_mixing.build_shuffling(
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
  process = fixed_mixing.build_shuffling(
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


def test_full_participation_refuses_a_smaller_cohort():
  data = _PROBLEM.clients()
  process = _build()
  with pytest.raises(Exception, match='full_participation=False'):
    process.next(process.initialize_seeded(0), [()] * 2, data[:2])


@pytest.mark.parametrize('mixing, message', [
    (np.ones((2, 3)), 'square'),
    (np.array([[0.5, 0.5], [0.5, 0.4]]), 'row 1'),
    (np.array([[0.5, 0.5], [1.5, -0.5]]), 'found row 1 with minimum -0.5'),
    (np.array([[np.nan, 1.0], [0.5, 0.5]]), 'found row 0'),
])
def test_raises_on_bad_mixing_weights(mixing, message):
  with pytest.raises(ValueError, match=message):
    fixed_mixing.build_shuffling(_PROBLEM.model, mixing)
