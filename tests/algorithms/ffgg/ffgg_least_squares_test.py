"""Checks of papers/partial_personalization.md 8, by number, in float64.

Tiny-LSQ: 20 clients, d_theta = 10, d_w = 4. Numbers in brackets there are of
five seeds; here the seed is 0 and bounds are those of the sheet.
"""

import functools

import numpy as np
import pytest

from tests.algorithms import least_squares
from tests import built
from tff_pers.algorithms.ffgg import ffgg
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.algorithms.ffgg import local_ffgg
from tff_pers.models import partition

_ALL = tuple(range(20))


@functools.lru_cache(maxsize=None)
def _task(name='overpersonalized'):
  return built.task(name, options=dict(scale='tiny'))


@functools.lru_cache(maxsize=None)
def _oracle(name='overpersonalized'):
  return least_squares.LeastSquares(_task(name))


def _parts():
  return partition.from_scheme(_task().model, 'output_layer')


@functools.lru_cache(maxsize=None)
def _ffgg(step, tuner='exact', tau=0, rate=None):
  """Returns FFGG with gamma_theta = `step` and gamma_w = `rate`."""
  options = dict(private_init='zeros')
  if tau:
    options.update(local_steps=tau, local_epochs=0)
  if rate:
    # All rows are one batch: the paper's full gradients.
    options.update(learning_rate=rate, batch_size=256)
  return ffgg.build_ffgg(_parts(), ffgg_hp.FFGGHyperparameters(
      tuner=tuner, server_learning_rate=step, **options
  ))


@functools.lru_cache(maxsize=None)
def _local(num_steps):
  """Returns Local FFGG with an exact initial w; step sizes of check 9."""
  oracle = _oracle()
  return local_ffgg.build_local_ffgg(
      _parts(),
      ffgg_hp.LocalFFGGHyperparameters(
          tuner='exact', private_init='zeros', local_steps=num_steps,
          local_epochs=0, batch_size=256,
          learning_rate=1 / oracle.shared_smoothness,
          private_learning_rate=1 / oracle.private_smoothness,
      ),
  )


def _at(process, theta):
  """Returns a server state with these global weights."""
  state = process.initialize_seeded(0)
  state['weights'] = (np.asarray(theta, np.float64),)
  return state


def _sent(process, theta, task):
  """Returns what every client sends for theta, [N, d_theta]."""
  messages = process.parts.dispatch(_at(process, theta), list(_ALL))
  outputs = process.parts.work(messages, [()] * len(_ALL), list(task.train))
  return np.stack([output['update']['weights'][0] for output in outputs])


def _train(process, task, num_rounds, cohort_size=20, start=None):
  """Yields (theta after the round, the round's cohort)."""
  rng = np.random.default_rng(1)
  state = process.initialize_seeded(0)
  if start is not None:
    state = _at(process, start)
  for _ in range(num_rounds):
    cohort = _ALL
    if cohort_size < 20:
      cohort = tuple(rng.choice(20, cohort_size, replace=False).tolist())
    state = process.next(
        state, [()] * len(cohort), [task.train[i] for i in cohort]
    )['state']
    yield np.asarray(state['weights'][0]), cohort


def _distances(process, name, num_rounds, **options):
  """Returns ||theta^r - theta*|| after rounds 1, 2, ..."""
  root = _oracle(name).root
  return np.array([
      np.linalg.norm(theta - root)
      for theta, _ in _train(process, _task(name), num_rounds, **options)
  ])


def test_1_the_operator_is_the_closed_form_and_the_slope_of_the_value():
  oracle, rng = _oracle(), np.random.default_rng(0)
  theta, step = rng.normal(size=10), 1e-6
  found = _sent(_ffgg(1.0), theta, _task())
  np.testing.assert_allclose(
      found, oracle.operators(theta), rtol=0, atol=1e-10
  )
  slopes = [
      (oracle.value(theta + d) - oracle.value(theta - d)) / (2 * step)
      for d in step * np.eye(10)
  ]
  np.testing.assert_allclose(
      found, np.stack(slopes, axis=1), rtol=0, atol=1e-6 * np.abs(found).max()
  )
  at_optimum = _sent(_ffgg(1.0), oracle.root, _task())
  np.testing.assert_allclose(at_optimum, 0, atol=1e-10)


def test_2_with_one_step_w_is_constant_all_the_same():
  oracle, theta = _oracle(), np.random.default_rng(0).normal(size=10)
  rate = 1 / oracle.private_smoothness
  found = _sent(_ffgg(1.0, 'sgd', 1, rate), theta, _task())
  _, slope = oracle.gradient(theta, np.zeros([20, 4]))
  tuned = -rate * slope  # One step from w^0 = 0.
  frozen, slope = oracle.gradient(theta, tuned)
  np.testing.assert_allclose(found, frozen, rtol=0, atol=1e-10)
  # d w / d theta = -rate D'C: what a common tape would add.
  unrolled = frozen - rate * np.einsum(
      'mri,mrj,mj->mi', oracle.c, oracle.d, slope
  )
  assert np.linalg.norm(unrolled - frozen) > 1e-3 * np.linalg.norm(frozen)


def test_3_operators_are_cocoercive():
  """A1 with L = lambda_max(G_m), on what clients send."""
  rng, process = np.random.default_rng(0), _ffgg(1.0)
  constants = np.linalg.eigvalsh(_oracle().g).max(axis=1)
  for _ in range(15):  # Times 20 clients: 300 pairs.
    a, b = rng.normal(size=(2, 10))
    difference = _sent(process, a, _task()) - _sent(process, b, _task())
    product = difference @ (a - b)
    squared = np.sum(difference ** 2, axis=1)
    assert np.all(product >= squared / constants - 1e-10)


def _rounds_until(distances, bound):
  return int(np.argmax(distances <= bound)) + 1


@pytest.mark.parametrize('cohort_size', [20, 5, 1])
def test_4_exact_ffgg_has_no_neighbourhood(cohort_size):
  oracle = _oracle()
  root, bound, mu = oracle.root, oracle.smoothness, oracle.convexity
  before, norms = np.zeros(10), []
  for theta, cohort in _train(_ffgg(1 / bound), _task(), 60, cohort_size):
    squared = [np.sum((x - root) ** 2) for x in (before, theta)]
    sent = oracle.operators(before)[list(cohort)]
    norms.append(np.sum(oracle.operator(before) ** 2))
    gained = np.mean(np.sum(sent ** 2, axis=1)) / bound ** 2
    # The inequality of every round (6.2), and the linear rate.
    assert squared[1] <= squared[0] - gained + 1e-12
    assert squared[1] <= (1 - mu / bound) * squared[0] + 1e-12
    # Theorem 1.
    assert min(norms) <= bound ** 2 * np.sum(root ** 2) / len(norms) + 1e-12
    before = theta
  assert np.linalg.norm(before - root) <= 1e-8


def test_5_on_the_control_only_all_clients_together_converge():
  name = 'overpersonalized_control'
  process = _ffgg(1 / _oracle(name).smoothness)
  alone = _distances(process, name, 400, cohort_size=1)
  assert alone[200:].mean() >= 0.5
  assert _distances(process, name, 100)[-1] <= 1e-8


# tau: the range of the floor; the sheet allows a factor of two outside of it.
# That of tau = 40, 4e-9 to 5e-8, is one of five problems: over twelve seeds the
# closed form below goes from 7e-9 to 1e-5, with 1.5e-7 for this one.
_GD = {
    1: (3e-2, 6e-2), 2: (1.6e-2, 3e-2), 5: (3e-3, 7e-3), 10: (2.7e-4, 9e-4),
    20: (5e-6, 2.7e-5), 40: (4e-9, 1e-5),
}
_CG = {1: (2e-2, 3e-2), 2: (4e-3, 1e-2), 3: (7e-4, 1.2e-3), 4: (0, 1e-10)}


_FAST = (('sgd', 1), ('cg', 4))


def _floor(tuner, tau):
  oracle = _oracle()
  rate = 1 / oracle.private_smoothness if tuner == 'sgd' else None
  process = _ffgg(1 / (2 * oracle.smoothness), tuner, tau, rate)
  return _distances(process, 'overpersonalized', 150)[-1]


@pytest.mark.parametrize('tuner, tau, low, high', [
    pytest.param(
        tuner, tau, low, high, marks=[pytest.mark.slow] * ((tuner, tau) not in _FAST)
    )
    for tuner, floors in (('sgd', _GD), ('cg', _CG))
    for tau, (low, high) in floors.items()
])
def test_6_floor_of_inexact_ffgg_falls_with_tau(tuner, tau, low, high):
  floor = _floor(tuner, tau)
  assert low / 2 <= floor <= 2 * high
  if tuner == 'sgd':
    oracle = _oracle()
    expected = np.linalg.norm(oracle.inexact_root(tau) - oracle.root)
    np.testing.assert_allclose(floor, expected, rtol=1e-4)


def test_7_theorem_6():
  """The bound with tau from the formula, R = 100; factor 2 of slack."""
  oracle, num_rounds = _oracle(), 100
  bound, mu_w = oracle.smoothness, oracle.private_convexity
  cross = oracle.d.swapaxes(1, 2) @ oracle.c
  l_w = max(np.linalg.norm(m, 2) for m in cross)
  l_w = max(l_w, oracle.private_smoothness)
  response = np.linalg.pinv(oracle.d) @ oracle.c
  radius = np.linalg.norm(oracle.root)
  a = 2 * l_w * max(np.linalg.norm(m, 2) for m in response) / bound
  largest = np.linalg.norm(oracle.best_response(oracle.root), axis=1).max()
  b = 2 * l_w * largest / bound
  logs = (
      2 * np.log(a * num_rounds), 2 * np.log(b * num_rounds / radius),
      np.log(b ** 2 * num_rounds / radius ** 2),
  )
  tau = int(np.ceil(l_w / mu_w * max(logs)))
  assert 30 <= tau <= 60  # 43 for another draw of the problem.
  process = _ffgg(1 / (2 * bound), 'sgd', tau, 1 / l_w)
  thetas = [x for x, _ in _train(process, _task(), num_rounds)]
  squared = [np.sum(oracle.operator(theta) ** 2) for theta in thetas]
  assert min(squared) <= 2 * 4 * bound * radius ** 2 * 2 * bound / num_rounds


def _scaled(factor):
  """Returns the training data with every w_m,o multiplied by `factor`."""
  oracle = _oracle()
  own = oracle.best_response(oracle.root)
  changed = oracle.y + (factor - 1) * np.einsum('mrj,mj->mr', oracle.d, own)
  scaled = []
  for data, y in zip(_task().train, changed):
    examples = type(data['examples'])(data['examples'], y=y)
    scaled.append(type(data)(data, examples=examples))
  return scaled


def _distance_on(process, data, num_rounds):
  state = process.initialize_seeded(0)
  found = []
  for _ in range(num_rounds):
    state = process.next(state, [()] * 20, data)['state']
    found.append(np.linalg.norm(state['weights'][0] - _oracle().root))
  return np.array(found)


def test_8_private_heterogeneity_costs_exact_clients_nothing():
  oracle = _oracle()
  exact = _ffgg(1 / oracle.smoothness)
  needed = {
      _rounds_until(_distance_on(exact, _scaled(factor), 40), 1e-8)
      for factor in (0.1, 100)
  }
  assert len(needed) == 1 and needed.pop() > 10
  inexact = _ffgg(
      1 / (2 * oracle.smoothness), 'sgd', 10, 1 / oracle.private_smoothness
  )
  floors = [
      _distance_on(inexact, _scaled(factor), 100)[-1] / factor
      for factor in (1, 100)
  ]
  np.testing.assert_allclose(floors[0], floors[1], rtol=1e-3)


def test_9a_one_local_step_is_ffgg():
  step = 1 / _oracle().shared_smoothness
  theta = np.random.default_rng(0).normal(size=10)
  np.testing.assert_allclose(
      _sent(_local(1), theta, _task()),
      step * _sent(_ffgg(1.0), theta, _task()), rtol=0, atol=1e-12,
  )


@pytest.mark.parametrize('num_steps', [1, 10])
def test_9b_the_optimum_is_a_fixed_point(num_steps):
  sent = _sent(_local(num_steps), _oracle().root, _task())
  np.testing.assert_allclose(sent, 0, atol=1e-12)


@pytest.mark.parametrize('cohort_size', [20, 4])
def test_9c_more_local_steps_take_fewer_rounds(cohort_size):
  needed = [
      _rounds_until(
          _distances(
              _local(k), 'overpersonalized', 40, cohort_size=cohort_size
          ), 1e-8
      )
      for k in (1, 5, 50)
  ]
  assert needed == sorted(needed, reverse=True)
  assert needed[0] >= 20 and needed[1] <= 14 and needed[2] <= 4


def test_9d_on_the_control_local_steps_stall():
  name = 'overpersonalized_control'
  assert _distances(_local(5), name, 100)[-1] >= 0.05
  assert _distances(_local(1), name, 100)[-1] <= 1e-6


def test_metrics_tell_whether_one_theta_suits_all():
  """Sheet, trap 16: ||mean F_m|| goes to 0 on the control, mean ||F_m||^2 not."""
  for name, suits in (
      ('overpersonalized', True), ('overpersonalized_control', False)
  ):
    process, oracle = _ffgg(1 / _oracle(name).smoothness), _oracle(name)
    near = oracle.root + 1e-9
    metrics = process.next(
        _at(process, near), [()] * 20, list(_task(name).train)
    )['metrics']
    operators = oracle.operators(near)
    squared = np.mean(np.sum(operators ** 2, axis=1))
    np.testing.assert_allclose(
        metrics['mean_squared_norm'], squared, rtol=1e-4, atol=1e-18
    )
    assert metrics['norm_of_mean'] <= 1e-7
    assert (metrics['mean_squared_norm'] <= 1e-14) == suits


def test_15_nothing_private_survives_a_round():
  process = _ffgg(1.0)
  assert not process.is_stateful
  update = process.parts.work.type_signature.result.member['update']
  assert [tuple(leaf.shape) for leaf in update['weights']] == [(10,)]
