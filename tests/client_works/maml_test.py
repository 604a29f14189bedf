"""MAML's gradient: check 4 of the sheet of local update methods."""

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tests import surrogates
from tests.baselines import rounds
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_update
from tff_pers.client_works import maml
from tff_pers.data import client_data
from tff_pers.numerics import thetas

_GAMMA = 0.05  # Below 1 / L, L = 10.


def _quadratic():
  """Returns (problem, message, data of client 1, A, x - c)."""
  problem = surrogates.random_quadratics(2, 4, seed=7)
  message = rounds.message(problem.model.initial_weights(0))
  data = rounds.tensors(problem.clients()[1])
  return (
      problem, message, data, problem.curvatures[1],
      problem.start - problem.centers[1],
  )


def _update(num_steps, **options):
  problem, message, data, _, _ = _quadratic()
  work = maml.build_maml_work(
      problem.model, num_adaptation_steps=num_steps, gamma=_GAMMA,
      batch_size=2, **options
  )
  return work.update(message, (), data).update[0]


@pytest.mark.parametrize('num_steps', [1, 2, 3, 4])
def test_on_quadratics_it_is_a_gradient_of_the_path(num_steps):
  """Theorem 2: Theta_{2J+1} of the family, taken by its own client work."""
  problem, message, data, _, _ = _quadratic()
  work = local_update.build_local_update(
      problem.model, gamma=_GAMMA, batch_size=2,
      theta=thetas.LastGradient(2 * num_steps + 1).theta,
  )
  expected = work.update(message, (), data).update[0]
  np.testing.assert_allclose(_update(num_steps), expected, rtol=1e-10)


@pytest.mark.parametrize('num_steps', [1, 3])
@pytest.mark.parametrize('anchor, outer', [
    (True, True), (False, False), (False, True),
])
def test_the_three_ways_to_differentiate_the_pull(num_steps, anchor, outer):
  """Section 1.5, with R = I - gamma (A + alpha I)."""
  alpha = 0.8
  _, _, _, a, distance = _quadratic()
  eye = np.eye(4)
  r = np.linalg.matrix_power(eye - _GAMMA * (a + alpha * eye), num_steps)
  m = r + alpha * np.linalg.solve(a + alpha * eye, eye - r)
  expected = {
      (True, True): r @ r @ a,
      (False, False): m @ m @ a,
      (False, True): m @ m @ a + alpha * (m - eye) @ (m - eye),
  }[anchor, outer] @ distance
  found = _update(
      num_steps, alpha=alpha, stop_gradient_anchor=anchor, proximal_outer=outer
  )
  np.testing.assert_allclose(found, expected, rtol=1e-10)


def _network():
  model = problems.tiny_model()
  return model, model.init(tf.constant([1, 2], tf.int64))


def _rows_of_use(data, use, batch_size):
  """Returns the first batch that the key of this use draws."""
  size = int(data['num_examples'])
  rows, mask = client_data.batch_rows(
      size, size, seed=client_work.key(rounds.message(()), data, use),
      batch_size=batch_size, num_steps=1,
  )
  return client_data.Batch(
      tf.gather(data['examples']['x'], rows[0]),
      tf.gather(data['examples']['y'], rows[0]), mask[0],
      tf.zeros([2], tf.int64),
  )


def test_gradient_is_that_of_the_loss_after_the_steps():
  """By central differences, with minibatches: all J + 1 of them independent.

  So a batch that is drawn twice, or a query that the steps have seen, fails.
  """
  model, weights = _network()
  data, num_steps = rounds.tensors(problems.tiny_clients()[4]), 3
  uses = [*maml.support_uses(num_steps), 1]
  assert sorted(uses) == [0, 1, 2, 3]
  *support, query = [_rows_of_use(data, use, 2) for use in uses]
  work = maml.build_maml_work(
      model, num_adaptation_steps=num_steps, gamma=0.5, batch_size=2
  )
  output = work.update(rounds.message(weights), (), data)

  def after(w):
    for batch in support:
      w = local_sgd.descend(w, model.loss_and_gradient(w, batch)[1], 0.5)
    return w, float(model.batch_loss(w, query))

  adapted, loss = after(weights)
  np.testing.assert_allclose(output.loss, loss, rtol=1e-12)
  way = np.concatenate([
      leaf.ravel()
      for leaf in rounds.leaves(local_sgd.difference(weights, adapted))
  ])
  np.testing.assert_allclose(
      output.metrics['drift'], np.linalg.norm(way), rtol=1e-12
  )
  rng, h = np.random.default_rng(0), 1e-5
  for _ in range(3):
    along = [rng.standard_normal(leaf.shape) for leaf in weights]
    plus, minus = (
        after(tuple(w + sign * h * v for w, v in zip(weights, along)))[1]
        for sign in (1, -1)
    )
    found = sum(
        np.sum(u * v) for u, v in zip(rounds.leaves(output.update), along)
    )
    # Central differences: an error of h^2, and rounding 1e-16 / h.
    np.testing.assert_allclose(found, (plus - minus) / (2 * h), atol=1e-8)


def test_takes_batches_of_tf_data():
  """As many batches as are needed, in turn; one is for the query."""
  problem, message, data, _, _ = _quadratic()
  dataset = tf.data.Dataset.from_tensor_slices(data['examples']).batch(1)
  work = maml.build_maml_work(
      problem.model, num_adaptation_steps=2, gamma=_GAMMA, batch_size=1
  )
  found = work.update(message, (), dataset).update[0]
  np.testing.assert_allclose(found, _update(2), rtol=1e-12)
