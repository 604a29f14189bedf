"""Theorems 1 to 3, Lemmas 7 and 14 and the bound on risks, measured.

On the quadratics of `perm_runs` (curvatures in [0.5, 2], sizes 2, 2, 4, 7), by
simulations in NumPy; other tests find the process to do the same
(`fixed_mixing_test`, `perm_test`, and the first one here).
"""

import numpy as np
import tensorflow as tf

from tests.algorithms.perm import perm_runs
from tests.algorithms.perm import visits
from tff_pers.numerics import mixing

_N, _PROBLEM, _SIZES = perm_runs.N, perm_runs.PROBLEM, perm_runs.SIZES
_MU, _SMOOTHNESS, _LAMBDA = 0.5, 2.0, 40.0
_SHARES = _SIZES / _SIZES.sum()
_OPTIMUM = _PROBLEM.minimizer(_SHARES)


def _slope(values, factor):
  """Returns the exponents between values at 1, factor, factor^2, ..."""
  return np.diff(np.log(values)) / np.log(factor)


def _gradients(w):
  """Returns the gradients of all clients, [..., N, d], at w [..., d]."""
  return np.einsum(
      'nij,...nj->...ni', _PROBLEM.curvatures,
      w[..., None, :] - _PROBLEM.centers,
  )


def _rows_at(gradients):
  """Returns A [..., N, N] for gradients [..., N, d]."""
  apart = gradients[..., :, None, :] - gradients[..., None, :, :]
  return mixing.water_filling(
      tf.constant(np.sum(apart ** 2, axis=-1)), tf.constant(_SIZES), _LAMBDA
  ).numpy()


def _single_loop(hosts, rate):
  """Returns w [epochs, d], A [epochs, N, N] and the models at the end.

  Algorithm 2 with one step of w and one solution of Eq. (2) per epoch; hosts
  are those of all rounds.
  """
  num_epochs = len(hosts) // _N
  ws = [_PROBLEM.start]
  for _ in range(num_epochs):
    ws.append(ws[-1] - 0.5 * _SHARES @ _gradients(ws[-1]))
  rows = _rows_at(_gradients(np.array(ws[:-1])))
  models = np.tile(_PROBLEM.start, (_N, 1))
  for weights, epoch in zip(rows, np.split(hosts, num_epochs)):
    models = visits.last(visits.run(
        _PROBLEM, weights, epoch, learning_rate=rate, local_steps=2,
        models=models,
    ))
  return np.array(ws), rows, models


def test_the_simulation_is_the_single_loop():
  states, _ = perm_runs.run(
      2 * _N, warmup_rounds=0, alpha_update='epoch', global_learning_rate=0.5
  )
  ws, rows, models = _single_loop(visits.hosts_of_epochs(3, _N, 2), 0.05)
  np.testing.assert_allclose(states[-1]['weights'][0], ws[-1], rtol=1e-6)
  np.testing.assert_allclose(states[-1]['mixing'], rows[-1], atol=1e-6)
  np.testing.assert_allclose(states[-1]['models'][0], models, rtol=1e-5)


def _first_stage(num_rounds, num_steps, noise, trials, rng):
  """Returns w^R [trials, d] of Algorithm 3, gamma = log(R K) / (mu R K)."""
  gamma = np.log(num_rounds * num_steps) / (_MU * num_rounds * num_steps)
  w = np.tile(_PROBLEM.start, (trials, 1))
  for _ in range(num_rounds):
    local = np.repeat(w[:, None], _N, axis=1)
    for _ in range(num_steps):
      gradient = np.einsum(
          'nij,tnj->tni', _PROBLEM.curvatures, local - _PROBLEM.centers
      )
      local = local - gamma * (gradient + noise * rng.normal(size=local.shape))
    w = np.einsum('n,tnj->tj', _SHARES, local)
  return w


def _squared_error(w):
  """Returns the mean of |A(w) - A(w*)|^2 over w, [trials, d]."""
  apart = _rows_at(_gradients(w)) - _rows_at(_gradients(_OPTIMUM))
  return np.mean(np.sum(apart ** 2, axis=(1, 2)))


def test_theorem_1_in_rounds_and_local_steps():
  """(log(R K) / R)^2 without noise, whatever K; log(R K) / (R K) with much."""
  rng = np.random.default_rng(0)
  exact = {
      (r, k): _squared_error(_first_stage(r, k, 0.0, 1, rng))
      for r, k in ((8, 4), (32, 4), (128, 4), (128, 16))
  }
  in_rounds = [exact[r, 4] / np.log(4 * r) ** 2 for r in (8, 32, 128)]
  in_steps = exact[128, 16] / exact[128, 4]
  # 500 trials: the mean of squares is off by a tenth at most.
  noisy = [
      _squared_error(_first_stage(32, k, 10.0, 500, rng)) / np.log(32 * k)
      for k in (1, 4, 16)
  ]
  np.testing.assert_allclose(_slope(in_rounds, 4), -2, atol=0.1)
  # K = 16 in place of 4: a drift of K - 1 steps, and a larger logarithm.
  assert 1 < in_steps < 3
  np.testing.assert_allclose(_slope(noisy, 4), -1, atol=0.2)


def test_theorem_1_in_steps_of_the_solver():
  """Every step of T_alpha leaves at most 1 - n_min / n_max = 5/7."""
  w = _first_stage(32, 4, 0.0, 1, np.random.default_rng(0))[0]
  best = _rows_at(_gradients(w))
  errors = [
      np.linalg.norm(mixing.projected_gradient(
          perm_runs.distances_at(w), _SIZES, _LAMBDA,
          np.full((_N, _N), 1 / _N), steps
      ) - best, axis=1) for steps in range(12)
  ]
  left = np.array(errors[1:]) / errors[:-1]
  assert left.max() <= 5 / 7


def _permutations(num_epochs, rng):
  """Returns hosts of fresh permutations, int[epochs * N, N]."""
  shifted = (np.arange(_N) + np.arange(_N)[:, None]) % _N
  return np.concatenate([
      rng.permutation(_N)[shifted] for _ in range(num_epochs)
  ])


def test_theorem_2_is_linear_in_the_error_of_the_weights():
  """After many epochs, for weights of a first stage of 2, 8 and 32 rounds."""
  rng, star = np.random.default_rng(0), _rows_at(_gradients(_OPTIMUM))
  best = np.stack([_PROBLEM.minimizer(row) for row in star])

  def distance(weights):
    rate = 2 * np.log(512) / (_MU * _N * 2 * 512)
    return np.linalg.norm(visits.last(visits.run(
        _PROBLEM, weights, _permutations(512, rng), learning_rate=rate,
        local_steps=2,
    )) - best)

  rows = [
      _rows_at(_gradients(_first_stage(num_rounds, 4, 0.0, 1, rng)))[0]
      for num_rounds in (2, 8, 32)
  ]
  errors = np.linalg.norm(np.array(rows) - star, axis=(1, 2))
  distances = [distance(weights) for weights in rows]
  # What is left with exact weights is of the order of shuffling.
  assert distance(star) < distances[-1] / 2
  np.testing.assert_allclose(distances / errors, 1.75, rtol=0.15)
  assert errors[0] > 5 * errors[-1]


def test_theorem_3_in_epochs():
  """The distance to the minimizer of the mixture at w* is (log R / R)^1.5.

  That is the order of shuffling; the theorem has 1 / R up to logarithms.
  """
  rng, distances = np.random.default_rng(0), []
  best = np.stack([
      _PROBLEM.minimizer(row) for row in _rows_at(_gradients(_OPTIMUM))
  ])
  numbers = np.array([16, 64, 256])
  for num_epochs in numbers:
    rate = 2 * np.log(num_epochs) / (_MU * _N * 2 * num_epochs)
    models = [
        _single_loop(_permutations(num_epochs, rng), rate)[2] for _ in range(8)
    ]
    distances.append(np.sqrt(np.mean((np.array(models) - best) ** 2)))
  slopes = _slope(distances / np.log(numbers) ** 1.5, 4)
  np.testing.assert_allclose(slopes, -1.5, atol=0.2)


def test_theorem_3_needs_large_batches_for_w():
  """|A - A*|^2 in the long run, for gradients of M examples with noise."""
  rng, star = np.random.default_rng(0), _rows_at(_gradients(_OPTIMUM))
  errors = []
  for batch in (4, 64, 1024):
    w, kept = np.tile(_OPTIMUM, (400, 1)), []
    for _ in range(30):
      gradients = _gradients(w)
      gradients += rng.normal(size=gradients.shape) / np.sqrt(batch)
      w = w - 0.5 * np.einsum('n,tnj->tj', _SHARES, gradients)
      kept.append(gradients)
    apart = _rows_at(np.array(kept[10:])) - star
    errors.append(np.mean(np.sum(apart ** 2, axis=(-1, -2))))
  np.testing.assert_allclose(_slope(errors, 16), -1, atol=0.1)


def test_lemma_7_an_epoch_is_a_step_up_to_a_square():
  """w' - w + eta N K grad Phi(alpha, w) is of the order eta^2."""
  weights = visits.random_mixing(1, _N)
  gradient = weights @ perm_runs.gradients_at(_PROBLEM.start)
  hosts, rests = visits.hosts_of_epochs(3, _N, 1), []
  for rate in (1e-2, 1e-3, 1e-4):
    moved = visits.last(visits.run(
        _PROBLEM, weights, hosts, learning_rate=rate, local_steps=3
    )) - _PROBLEM.start
    rests.append(np.linalg.norm(moved + rate * _N * 3 * gradient))
  np.testing.assert_allclose(_slope(rests, 10), -2, atol=0.05)


def test_lemma_14_weights_of_two_epochs_differ_as_w_has_moved():
  """By n_max / (2 lambda) 4 L r sqrt(sum_j (sqrt zeta_ij + L r)^2) at most.

  r = |w' - w|, and zeta_ij are the squared distances of gradients at w.
  """
  hosts = _permutations(12, np.random.default_rng(0))
  ws, rows, _ = _single_loop(hosts, 0.05)
  shares, moves = [], []
  for w, later, row, new in zip(ws, ws[1:], rows, rows[1:]):
    r = np.linalg.norm(later - w)
    zeta = np.sqrt(perm_runs.distances_at(w))
    bound = _SIZES.max() / (2 * _LAMBDA) * 4 * _SMOOTHNESS * r * np.sqrt(
        np.sum((zeta + _SMOOTHNESS * r) ** 2, axis=1)
    )
    moves.append(np.linalg.norm(new - row, axis=1))
    shares.append(moves[-1] / bound)
  assert 0.01 < np.max(shares) < 1
  # As w, which comes nearer by a factor of 0.4 in an epoch.
  slopes = _slope(np.max(moves, axis=1), np.e)
  np.testing.assert_allclose(slopes, -0.93, atol=0.05)


def test_the_risk_of_a_mixture_is_below_its_bound():
  """Means of clients, squared loss: bias^2 + sigma^2 sum_j alpha_j^2 / n_j.

  It is at most sum_j alpha_j d_ij + sigma^2 sum_j alpha_j^2 / n_j, Eq. (2) with
  lambda = sigma^2. At the solution the risk is lower than alone, and than with
  all examples alike.
  """
  rng, sigma = np.random.default_rng(0), 2.0
  shares, gains = [], []
  for _ in range(100):
    means = rng.normal(size=6) * 10 ** rng.uniform(-2, 1)
    sizes = rng.integers(2, 30, 6).astype(float)
    distances = (means[:, None] - means) ** 2
    rows = mixing.water_filling(
        tf.constant(distances), tf.constant(sizes), sigma ** 2
    ).numpy()
    def risks(a):
      return (a @ means - means) ** 2 + sigma ** 2 * a ** 2 @ (1 / sizes)
    bound = np.sum(rows * distances, axis=1) + sigma ** 2 * rows ** 2 @ (
        1 / sizes
    )
    shares.append(risks(rows) / bound)
    pooled = np.tile(sizes / sizes.sum(), (6, 1))
    gains.append([
        risks(other).mean() / risks(rows).mean()
        for other in (np.eye(6), pooled)
    ])
  # Equality where a client is alone.
  assert 0.3 < np.min(shares) and np.max(shares) <= 1 + 1e-12
  alone, alike = np.transpose(gains)
  assert alone.min() > 1 - 1e-12 and np.median(alone) > 4
  assert alike.min() > 0.99 and np.median(alike) > 1.1
