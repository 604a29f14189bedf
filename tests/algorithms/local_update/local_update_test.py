"""The family as TFF processes: checks 3 and 6 of its sheet, metrics, errors."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import problems
from tests import surrogates
from tests.baselines import rounds
from tests.conformance import agree as agree_lib
from tff_pers.algorithms.local_update import local_update
from tff_pers.client_works import local_update as work_lib
from tff_pers.composition import server_optimizers
from tff_pers.config import methods
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.numerics import thetas

_EXACT = functools.partial(agree_lib.agree, rtol=1e-12, atol=1e-12)


def _random_member():
  """Returns (problem, arguments of the family): gamma (L + alpha) < 1."""
  problem = surrogates.random_quadratics(4, 3, seed=1)
  theta = surrogates.random_theta(np.random.default_rng(1), 4)
  return problem, dict(theta=theta, gamma=0.05, alpha=0.5, batch_size=2)


@functools.lru_cache(maxsize=None)
def _process(client_weighting):
  problem, options = _random_member()
  return local_update.build_local_update(
      problem.model, eta=0.03, client_weighting=client_weighting, **options
  )


def _recursion(problem, options, shares):
  """Returns (H, h) of a member."""
  return surrogates.server_recursion(
      problem, options['theta'], options['gamma'], options['alpha'], shares
  )


@pytest.mark.parametrize('client_weighting', ['uniform', 'examples'])
def test_rounds_are_a_linear_recursion(client_weighting):
  """Check 3 (S3): x <- x - eta (H x - h), 20 rounds with all clients."""
  problem, options = _random_member()
  process = _process(client_weighting)
  big, small = _recursion(problem, options, problem.shares(client_weighting))
  clients, x = problem.clients(), problem.start
  state = process.initialize_seeded(0)
  for _ in range(20):
    state = process.next(state, [()] * 4, clients)['state']
    x = x - 0.03 * (big @ x - small)
    np.testing.assert_allclose(state['weights'][0], x, rtol=0, atol=1e-12)


def test_native_equals_fused_to_the_last_digits():
  process, clients = _process('uniform'), _random_member()[0].clients()
  state = _EXACT(process.initialize_seeded, 0)
  for _ in range(2):
    state = _EXACT(process.next, state, [()] * 4, clients)['state']


def test_the_server_optimizer_does_not_move_the_fixed_point():
  """Check 3, Lemma 11: it is H^-1 h, which is not the minimizer."""
  problem, options = _random_member()
  process = local_update.build_local_update(
      problem.model, **options, client_weighting='uniform',
      server_optimizer=server_optimizers.build_nesterov(0.04, 0.9),
  )
  state = process.initialize_seeded(0)
  for _ in range(200):
    state = process.next(state, [()] * 4, problem.clients())['state']
  fixed = np.linalg.solve(
      *_recursion(problem, options, problem.shares('uniform'))
  )
  np.testing.assert_allclose(state['weights'][0], fixed, rtol=0, atol=1e-5)
  assert np.linalg.norm(fixed - problem.minimizer()) > 1e-2


def _assert_same_weights(states, expected, atol=1e-12):
  rounds.assert_close(
      [state['weights'] for state in states],
      [state['weights'] for state in expected], atol=atol,
  )


def _member(**options):
  """Returns the states of a member of the family on the tiny task."""
  options = dict(
      theta=thetas.FirstGradients(5).theta, gamma=0.1, batch_size=2, **options
  )
  process = local_update.build_local_update(problems.tiny_model(), **options)
  return rounds.train(process)[0]


def test_the_sum_of_all_gradients_with_eta_gamma_is_fedavg():
  """Check 6: minibatches, cohorts of two, three rounds."""
  _assert_same_weights(_member(), rounds.run('fedavg')[1])


@pytest.mark.parametrize('client_weighting', ['examples', 'uniform'])
def test_with_default_flags_it_is_fedavg(client_weighting):
  """Clients of unequal size, the rate and the steps that suit the digits."""
  table = flags.all_flags(flags.own_flag('algo', '', ''))
  found, expected = (
      rounds.train(
          built.method.build(built.task, built.hyperparameters),
          clients=built.task.train,
      )[0]
      for built in (
          experiment.build(
              dict(
                  algo=algo, task='digits', partition='dirichlet[alpha=0.3]',
                  num_clients=5, client_weighting=client_weighting,
              ),
              table,
          )
          for algo in ('local_update', 'fedavg')
      )
  )
  _assert_same_weights(found, expected, atol=1e-6)  # float32.


def test_momentum_on_differences_of_models_is_momentum_on_sums():
  """Check 6 (S14): eta = eta_s gamma."""
  expected = rounds.run('fedavgm', server_learning_rate=0.7, nesterov=True)[1]
  found = _member(
      server_optimizer=server_optimizers.build_nesterov(0.7 * 0.1, 0.9)
  )
  _assert_same_weights(found, expected)


def _trajectory(optimizer, gradients):
  """Returns the weights after each of the gradients."""
  weights = tf.zeros([3], tf.float64)
  state, after = optimizer.initialize(tf.TensorSpec([3], tf.float64)), []
  for gradient in gradients:
    state, weights = optimizer.next(state, weights, tf.constant(gradient))
    after.append(weights.numpy())
  return np.array(after)


@pytest.mark.parametrize('build, on_sums, on_differences', [
    (
        lambda rate: server_optimizers.build_heavy_ball(rate, 0.9, tf.float64),
        dict(rate=0.07), dict(rate=0.7),
    ),
    (server_optimizers.build_nesterov, dict(rate=0.07), dict(rate=0.7)),
    # Section 1.4: epsilon on sums is that on differences over gamma.
    (
        lambda rate, epsilon: server_optimizers.build_fedadam(
            rate, epsilon=epsilon
        ),
        dict(rate=0.7, epsilon=0.1), dict(rate=0.7, epsilon=0.01),
    ),
])
def test_optimizers_on_differences_and_on_sums(build, on_sums, on_differences):
  """Check 6 (S14): what clients send differs by the factor gamma = 0.1."""
  sums = np.random.default_rng(0).standard_normal((5, 3))
  found = _trajectory(build(*on_sums.values()), sums)
  expected = _trajectory(build(*on_differences.values()), 0.1 * sums)
  np.testing.assert_allclose(found, expected, rtol=1e-12)
  unscaled = _trajectory(build(*on_differences.values()), sums)
  assert np.max(np.abs(unscaled - expected)) > 1e-3


def test_metrics_are_those_of_the_messages():
  """Drift, dispersion and ||q|| of a round, weighted by examples, by hand."""
  problem, options = _random_member()
  process = _process('examples')
  metrics = process.next(
      process.initialize_seeded(0), [()] * 4, problem.clients()
  )['metrics']
  theta, gamma, alpha = (options[key] for key in ('theta', 'gamma', 'alpha'))
  p, x = problem.shares('examples'), problem.start
  pairs = list(zip(problem.curvatures, problem.centers))
  sent = [surrogates.hessian(a, theta, gamma, alpha) @ (x - c) for a, c in pairs]
  mean = p @ sent
  np.testing.assert_allclose(
      metrics['pseudo_gradient_norm'], np.linalg.norm(mean), rtol=1e-12
  )
  np.testing.assert_allclose(
      metrics['aggregator']['dispersion'],
      p @ [np.sum((q - mean) ** 2) for q in sent], rtol=1e-6,
  )
  # The way after K steps is gamma times the plain sum of K gradients.
  ways = [
      gamma * np.linalg.norm(
          surrogates.hessian(a, [1] * len(theta), gamma, alpha) @ (x - c)
      )
      for a, c in pairs
  ]
  np.testing.assert_allclose(metrics['drift'], p @ ways, rtol=1e-6)


def test_takes_any_aggregator():
  """A sum instead of the mean."""
  problem, options = _random_member()
  process = local_update.build_local_update(
      problem.model, eta=0.03, **options,
      model_aggregator=tff.aggregators.SumFactory(),
  )
  output = process.next(
      process.initialize_seeded(0), [()] * 4, problem.clients()
  )
  big, small = _recursion(problem, options, np.ones(4))
  expected = problem.start - 0.03 * (big @ problem.start - small)
  np.testing.assert_allclose(output['state']['weights'][0], expected)
  assert 'aggregator' not in output['metrics']


@pytest.mark.parametrize('options, message', [
    (dict(gamma=0.0), '`eta` must be > 0, found 0.0. Tip: with gamma=0'),
    (dict(eta=-1.0), '`eta` must be > 0, found -1.0'),
    (
        dict(eta=0.1, server_optimizer=tff.learning.optimizers.build_sgdm(0.1)),
        'Exactly one of `eta` and `server_optimizer` must be given',
    ),
    (dict(theta=(0.0,)), '`theta` must have a weight > 0'),
])
def test_raises_on_parameters_that_do_not_fit(options, message):
  options = {'theta': (1.0,), 'gamma': 0.1, **options}
  with pytest.raises(ValueError, match=message):
    local_update.build_local_update(problems.tiny_model(), **options)


def test_compose_raises_without_a_step_of_the_server():
  model = problems.tiny_model()
  work = work_lib.build_local_update(
      model, gamma=0.1, theta=(1.0,), batch_size=2
  )
  with pytest.raises(ValueError, match='Exactly one of `eta` and `server_opt'):
    local_update.compose(model, work)


def _arguments(monkeypatch, **flags):
  """Returns what `--algo=local_update` builds the member from."""
  given = {}
  monkeypatch.setattr(
      local_update, 'build_local_update',
      lambda model, **arguments: given.update(arguments),
  )
  method = methods.get('local_update')
  method.build(
      problems.quadratic_task(problems.s2()), method.hyperparameters(**flags)
  )
  return given


@pytest.mark.parametrize('flags, theta', [
    (dict(num_steps=3), (1, 1, 1)),
    (dict(num_steps=3, theta='last'), (0, 0, 1)),
    (dict(theta='0.5:0:2:0'), (0.5, 0, 2)),
])
def test_flags_give_theta(monkeypatch, flags, theta):
  assert _arguments(monkeypatch, **flags)['theta'] == theta


@pytest.mark.parametrize('name, expected', [
    ('nesterov', server_optimizers.build_nesterov(0.3, 0.5)),
    ('heavy_ball', server_optimizers.build_heavy_ball(0.3, 0.5, tf.float64)),
])
def test_flags_give_the_server_optimizer(monkeypatch, name, expected):
  found = _arguments(monkeypatch, server_optimizer=name, eta=0.3, beta=0.5)
  assert found['eta'] is None
  gradients = np.random.default_rng(0).standard_normal((3, 3))
  np.testing.assert_array_equal(
      _trajectory(found['server_optimizer'], gradients),
      _trajectory(expected, gradients),
  )


@pytest.mark.parametrize('theta, message', [
    ('first', '`theta` must be sum, last, or numbers with colons'),
    ('1::2', '`theta` must be sum, last, or numbers with colons'),
    ('0:0', '`theta` must have a weight > 0'),
])
def test_raises_on_a_theta_that_is_none(theta, message):
  with pytest.raises(ValueError, match=message):
    methods.get('local_update').hyperparameters(theta=theta)
