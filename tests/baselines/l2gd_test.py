"""L2GD (papers/baselines.md 3.5, B16)."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import l2gd
from baselines import local_only
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import local_sgd
from tff_pers.config import methods
from tff_pers.data import task as task_lib

_LAMBDA, _L, _P = 0.5, 2.0, 0.2
_ALL = tuple(range(6))


def _values(**options):
  return l2gd.L2gdHyperparameters(
      lambda_=_LAMBDA, batch_size=50, **options
  )


def _gradients(q6, x):
  return np.einsum('nij,nj->ni', q6.curvatures, x - q6.centers)


def _minimizer(q6):
  """Returns argmin F, float64[6, 5], of the linear system of all clients."""
  n, d = q6.centers.shape
  matrix = np.zeros((n, d, n, d))
  for i in range(n):
    matrix[i, :, i] += q6.curvatures[i] + _LAMBDA * np.eye(d)
    for j in range(n):
      matrix[i, :, j] -= _LAMBDA / n * np.eye(d)
  right = np.einsum('nij,nj->ni', q6.curvatures, q6.centers)
  return np.linalg.solve(
      matrix.reshape(n * d, n * d), right.ravel()
  ).reshape(n, d)


def test_steps_of_the_sheet():
  """p* and alpha = 1.2 give s = 1/4 and th = 1/2; alpha / 100 a hundredth."""
  known = _values(smoothness=_L).steps()
  np.testing.assert_allclose(known, (_P, 0.25, 0.5), rtol=1e-15)
  alpha = known.local * 6 * (1 - known.p)
  np.testing.assert_allclose(alpha, 1.2)
  small = _values(p=_P, learning_rate=0.0025).steps()
  np.testing.assert_allclose(small, (_P, 0.0025, 0.005), rtol=1e-15)
  other = _values(p=0.5, smoothness=_L).steps()  # L / (1 - p) is the larger.
  np.testing.assert_allclose(other, (0.5, 0.25, 0.125), rtol=1e-15)


@pytest.mark.parametrize('options, num_local_steps, expected', [
    (dict(local_steps=8), None, (1 / 8, 0.1, 0.1 * 7 / 8 * 0.5 * 8)),
    (dict(local_steps=8), 2.5, (0.4, 0.1, 0.1 * 0.6 * 0.5 / 0.4)),
    (dict(local_steps=1), None, (0.5, 0.1, 0.05)),
    (dict(local_steps=100), None, (0.01, 0.1, 0.5)),
])
def test_unknown_smoothness_takes_the_learning_rate(
    options, num_local_steps, expected
):
  found = _values(**options).steps(num_local_steps)
  np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_expected_step_is_gradient_descent_on_the_penalized_loss():
  q6, steps = problems.q6(), _values(smoothness=_L).steps()
  x = np.random.default_rng(1).standard_normal((6, 5))
  mean, alpha = x.mean(0), 1.2
  expected = x - alpha * (_gradients(q6, x) + _LAMBDA * (x - mean)) / 6
  for i, data in enumerate(map(rounds.tensors, q6.clients())):
    (local,), _ = local_sgd.train(
        q6.model, (tf.constant(x[i]),), data, learning_rate=steps.local,
        num_steps=1, batch_size=50, seed=tf.zeros([2], tf.int64),
    )
    (averaged,) = l2gd.averaged(
        dict(weights=(mean,), pull=steps.averaging),
        dict(weights=(x[i],), trained=True),
    )
    np.testing.assert_allclose(
        (1 - steps.p) * local + steps.p * averaged, expected[i], rtol=0,
        atol=1e-15,
    )


def _chain(q6, coins, local, averaging):
  """Yields x after every iteration, from 0."""
  x = np.zeros((6, 5))
  for coin in coins:
    if coin:
      x = x + averaging * (x.mean(0) - x)
    else:
      x = x - local * _gradients(q6, x)
    yield x


def _numpy_coins(num):
  rng = np.random.default_rng(0)
  return np.array([rng.random() < _P for _ in range(num)])


def test_rounds_are_the_chain_which_approaches_the_minimizer(monkeypatch):
  """The sheet's 40 000 iterations, of which the process repeats the first."""
  q6, coins = problems.q6(), _numpy_coins(40_000)
  path = list(_chain(q6, coins, 0.0025, 0.005))
  optimum = _minimizer(q6)
  rms = lambda x: np.sqrt(np.mean(np.sum((x - optimum) ** 2, axis=1)))
  np.testing.assert_allclose(rms(path[-1]), 0.0275, atol=5e-5)
  np.testing.assert_allclose(
      rms(np.mean(path[20_000:], axis=0)), 0.0036, atol=5e-5
  )

  monkeypatch.setattr(
      l2gd, 'is_averaging', lambda seed, t, p: tf.gather(tf.constant(coins), t)
  )
  process = l2gd.build_l2gd(
      q6.model, _values(p=_P, learning_rate=0.0025), client_weighting='uniform'
  )
  states, own, metrics = rounds.train(process, [_ALL] * 100, q6.clients())
  done = states[-1]['iteration']
  assert 100 / 0.16 * 0.8 < done < 100 / 0.16 * 1.2
  totals = [m['local_steps'] + m['averagings'] for m in metrics]
  leading = int(np.argmin(coins))  # Averagings of equal models.
  assert leading + sum(totals) == done
  for i in _ALL:
    rounds.assert_close(
        process.client_model(states[-1], own[i], i), path[done - 1][i]
    )


def test_coins_are_fair_and_rarely_communicate():
  @tf.function(autograph=False)
  def draw():
    return tf.map_fn(
        lambda t: l2gd.is_averaging(tf.constant(3, tf.int64), t, _P),
        tf.range(20_000), fn_output_signature=tf.bool,
    )

  coins = draw().numpy()
  np.testing.assert_allclose(coins.mean(), _P, rtol=0.05)
  communications = np.mean(~coins[:-1] & coins[1:])
  np.testing.assert_allclose(communications, _P * (1 - _P), rtol=0.05)
  assert np.mean(coins[:-1] & coins[1:]) > 0.5 * _P ** 2  # Independent.
  seed = tf.constant(3, tf.int64)
  start = int(np.argmax(coins))
  num = l2gd.count_coins(seed, start, _P, averaging=True)
  assert coins[start:start + num].all() and not coins[start + num]


def test_without_penalty_it_is_local_training_bit_for_bit():
  """Baselines B2; every client takes the round's number of steps."""
  process, states, own, metrics = rounds.run(
      'l2gd', lambda_=0.0, p=0.3, local_steps=20
  )
  weights, state = {}, process.initialize_seeded(rounds.SEED)
  for round_num, cohort in enumerate(rounds.COHORTS):
    work = local_only.build_local_work(
        problems.tiny_model(),
        local_only.LocalOnlyHyperparameters(
            local_steps=int(state['local_steps']), batch_size=2,
            learning_rate=0.1,
        ),
    )
    for i in cohort:
      # Who has never trained starts from the mean.
      start = weights.get(i, state['weights'])
      weights[i] = work.update(
          rounds.message((), rounds.SEED, round_num),
          tf.nest.map_structure(tf.constant, start),
          rounds.tensors(problems.tiny_clients()[i]),
      ).client_state
    assert metrics[round_num]['local_steps'] == state['local_steps']
    state = states[round_num]
  for i, expected in weights.items():
    rounds.assert_identical(own[i]['weights'], expected)


def test_a_client_that_never_trained_deploys_the_mean():
  process, states, own, _ = rounds.run('l2gd')
  state = states[-1]
  fresh = process.initialize_client(state, 4)
  rounds.assert_identical(process.client_model(state, fresh, 4), state['weights'])
  trained = process.client_model(state, own[0], 0)
  for x, kept, mean in zip(*map(
      rounds.leaves, (trained, own[0]['weights'], state['weights'])
  )):
    np.testing.assert_allclose(x, kept + state['pull'] * (mean - kept))
    assert np.any(x != kept) and np.any(x != mean)


def test_mean_is_that_of_the_cohort_before_it_averages():
  _, states, own, _ = rounds.run('l2gd')
  # Clients 2 and 0, of 5 and 3 examples, were the last cohort.
  expected = [
      (5 * a + 3 * b) / 8
      for a, b in zip(*(rounds.leaves(own[i]['weights']) for i in (2, 0)))
  ]
  rounds.assert_close(states[-1]['weights'], expected)


def test_with_epochs_p_is_that_of_the_average_client(monkeypatch):
  task = task_lib.Task(
      'tiny', problems.tiny_model(), problems.tiny_clients(), test=()
  )
  values = l2gd.L2gdHyperparameters(
      local_steps=0, local_epochs=2, batch_size=2
  )
  monkeypatch.setattr(l2gd, 'build_l2gd', lambda *_, **named: named)
  built = methods.get('l2gd').build(task, values)
  # 3, 4, 5, 6 and 7 examples are 2, 2, 3, 3 and 4 batches.
  assert built['num_local_steps'] == 2 * 2.8


def test_raises_where_clients_would_never_communicate():
  with pytest.raises(ValueError, match='`p` must be a number with lambda=0'):
    l2gd.L2gdHyperparameters(lambda_=0.0, smoothness=1.0)
