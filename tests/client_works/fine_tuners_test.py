"""Fine-tuners (papers/partial_personalization.md 2.2)."""

import numpy as np
import pytest
from scipy.sparse import linalg
import tensorflow as tf
import tensorflow_federated as tff

from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import fine_tuners
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import partition
from tff_pers.models import zoo

_KEY = tf.constant([1, 2], tf.int64)


def _linear(num_features):
  """Returns the linear model x w in float64 with half the squared error."""
  return functional.FunctionalModel(
      init=lambda seed: tf.zeros([num_features], tf.float64),
      predict=lambda w, x, training, seed: tf.linalg.matvec(x, w),
      example_loss=lambda y, guess: tf.square(guess - y) / 2,
      x_spec=tf.TensorSpec([None, num_features], tf.float64),
      y_spec=tf.TensorSpec([None], tf.float64),
  )


def _examples(rank=4):
  """Returns 12 examples of 4 features in a space of this rank, and a start."""
  rng = np.random.default_rng(0)
  x = rng.normal(size=[12, rank]) @ rng.normal(size=[rank, 4])
  return x, rng.normal(size=12), rng.normal(size=4)


def _tune(tuner, x, y, start, **options):
  data = rounds.tensors(client_data.dense(0, x, y))
  options = {'learning_rate': 0.1, 'seed': _KEY, **options}
  return tf.function(
      lambda w: tuner(_linear(x.shape[1]), w, data, **options)
  )(tf.constant(start)).numpy()


@pytest.mark.parametrize('tau', [1, 2, 3])
def test_conjugate_gradient_is_that_of_scipy(tau):
  x, y, start = _examples()
  expected, _ = linalg.cg(
      x.T @ x / 12, x.T @ y / 12, x0=start, maxiter=tau, tol=0
  )
  actual = _tune(
      fine_tuners.conjugate_gradient(), x, y, start, num_steps=tau
  )
  np.testing.assert_allclose(actual, expected, rtol=1e-10)


@pytest.mark.parametrize('tau', [4, 9])
def test_conjugate_gradient_stays_at_the_solution(tau):
  x, y, start = _examples()
  actual = _tune(
      fine_tuners.conjugate_gradient(), x, y, start, num_steps=tau
  )
  expected = np.linalg.lstsq(x, y, rcond=None)[0]
  np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_conjugate_gradient_from_the_solution_does_not_move():
  x, _, start = _examples()
  actual = _tune(
      fine_tuners.conjugate_gradient(), x, x @ start, start, num_steps=3
  )
  np.testing.assert_allclose(actual, start, rtol=1e-10)


@pytest.mark.parametrize('rank', [4, 2])
def test_exact_solution_is_the_nearest_minimizer(rank):
  x, y, start = _examples(rank)
  expected = start + np.linalg.pinv(x) @ (y - x @ start)
  actual = _tune(fine_tuners.exact(), x, y, start)
  np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_padding_does_not_move_the_solution():
  x, y, start = _examples()
  padded = client_data.pad(client_data.dense(0, x, y), 30)
  # Rows of zeros would not move it even if they counted.
  padded['examples']['x'][12:] = 7.0
  padded['examples']['y'][12:] = 1.0
  padded = rounds.tensors(padded)
  for tuner in (fine_tuners.exact(), fine_tuners.conjugate_gradient()):
    moved = tuner(
        _linear(4), tf.constant(start), padded, seed=_KEY, num_steps=4
    )
    np.testing.assert_allclose(
        moved, np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-10
    )


def test_sgd_is_local_sgd_bit_for_bit():
  x, y, start = _examples()
  local = local_step.LocalStep(momentum=0.5, weight_decay=0.1, clip_norm=1.0)
  budget = dict(batch_size=5, num_epochs=2)
  expected, _ = local_sgd.train(
      _linear(4), tf.constant(start),
      rounds.tensors(client_data.dense(0, x, y)), learning_rate=0.1, seed=_KEY,
      local=local, **budget,
  )
  actual = _tune(fine_tuners.sgd(local), x, y, start, **budget)
  np.testing.assert_allclose(actual, expected, rtol=1e-14)


def test_optimizer_takes_the_step_size_and_the_local_step():
  """Adam's first step is one of +- the step size in every coordinate."""
  x, y, start = _examples()
  tuner = fine_tuners.optimizer(tff.learning.optimizers.build_adam(
      *map(np.float64, (1.0, 0.9, 0.999, 1e-12))
  ))
  gradient = x.T @ (x @ start - y)
  once = _tune(tuner, x, y, start, num_steps=1, learning_rate=0.03)
  np.testing.assert_allclose(
      once, start - 0.03 * np.sign(gradient), rtol=1e-9
  )
  twice = _tune(tuner, x, y, start, num_steps=2, learning_rate=0.03)
  assert np.all(np.abs(twice - once) > 1e-3)
  decayed = fine_tuners.optimizer(
      tff.learning.optimizers.build_sgdm(np.float64(1.0)),
      local_step.LocalStep(weight_decay=0.5),
  )
  np.testing.assert_allclose(
      _tune(decayed, x, y, start, num_steps=1),
      start - 0.1 * (gradient / 12 + 0.5 * start), rtol=1e-12,
  )


@pytest.mark.parametrize('name', ['exact', 'cg'])
def test_a_loss_that_is_not_quadratic_is_refused(name):
  parts = partition.from_scheme(problems.tiny_model(), 'output_layer')
  theta, own = parts.initial_weights(0)
  with pytest.raises(ValueError, match=f'is not quadratic.*found {name}'):
    fine_tuners.check_quadratic(parts.private_model(theta), own, name)


def _network():
  return zoo.build('mlp_20', tf.TensorSpec([None, 5]), 0, num_targets=2)


def test_squared_error_is_quadratic_in_a_linear_head_alone():
  parts = partition.from_scheme(_network(), 'output_layer')
  theta, own = parts.initial_weights(0)
  fine_tuners.check_quadratic(parts.private_model(theta), own, 'exact')
  parts = partition.from_scheme(_network(), 'input_layer')
  theta, own = parts.initial_weights(0)
  with pytest.raises(ValueError, match='is not quadratic'):
    fine_tuners.check_quadratic(parts.private_model(theta), own, 'exact')


def test_too_many_private_weights_to_solve_for_are_refused():
  model = _linear(5001)
  with pytest.raises(ValueError, match='5000 private.*found 5001.*tuner=cg'):
    fine_tuners.check_quadratic(model, tf.zeros([5001], tf.float64), 'exact')
  fine_tuners.check_quadratic(model, tf.zeros([5001], tf.float64), 'cg')
