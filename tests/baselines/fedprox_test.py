"""FedProx: what it reduces to, its rounds in closed form, and stragglers."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedprox
from tests import problems
from tests import surrogates
from tests.baselines import rounds


def test_rounds_are_those_of_the_family():
  """Theta_1:K with alpha = mu and eta = eta_g gamma, by examples."""
  problem = problems.q6()
  process = fedprox.build_fedprox(
      problem.model, fedprox.FedProxHyperparameters(
          local_steps=4, batch_size=50, learning_rate=0.1, mu=1.5,
          server_learning_rate=0.7,
      ),
  )
  big, small = surrogates.server_recursion(
      problem, [1] * 4, 0.1, 1.5, problem.shares('examples')
  )
  states, _, _ = rounds.train(process, [range(6)] * 3, problem.clients())
  x = problem.start
  for state in states:
    x = x - 0.07 * (big @ x - small)
    np.testing.assert_allclose(state['weights'][0], x, rtol=0, atol=1e-12)


def test_the_pull_is_in_the_gradient_before_clipping_decay_and_momentum():
  """g + mu (u - w), clipped, then L2, then the heavy ball; full batches."""
  problem = problems.q6()
  process = fedprox.build_fedprox(
      problem.model, fedprox.FedProxHyperparameters(
          local_steps=4, batch_size=50, learning_rate=0.1, mu=1.5,
          momentum=0.5, weight_decay=0.2, clip_norm=1.0,
      ),
  )
  states, _, _ = rounds.train(process, [(2,)] * 2, problem.clients())
  curvature, center = problem.curvatures[2], problem.centers[2]
  w, norms = problem.start, []
  for state in states:
    u, m = w, 0.0
    for _ in range(4):
      g = curvature @ (u - center) + 1.5 * (u - w)
      norms.append(np.linalg.norm(g))
      m = 0.5 * m + g * min(1.0, 1.0 / norms[-1]) + 0.2 * u
      u = u - 0.1 * m
    w = u
    np.testing.assert_allclose(state['weights'][0], w, rtol=0, atol=1e-12)
  assert max(norms) > 1.0


def _epochs(fewest, most):
  """Returns how many epochs each client does in each round.

  f(w) = (w - c)^2 / 2 and three batches: (1 - gamma)^K tells K.
  """
  problem = problems.Quadratics(
      np.ones([3, 1, 1]), np.ones([3, 1]), [6, 6, 5], np.zeros(1)
  )
  work = fedprox.build_fedprox_work(
      problem.model, fedprox.FedProxHyperparameters(
          epochs_range=f'{fewest}:{most}', batch_size=2, learning_rate=0.1,
          mu=0.0,
      ), 'uniform',
  )

  @tf.function(autograph=False)
  def update(round_num, data):
    message = collections.OrderedDict(
        rounds.message((tf.zeros([1], tf.float64),)), round=round_num
    )
    return work.update(message, (), data).update[0][0]

  sums = np.array([
      [
          update(tf.constant(t), rounds.tensors(data))
          for data in problem.clients()
      ]
      for t in range(8)
  ])
  return np.log1p(0.1 * sums) / np.log(0.9) / 3


def test_epochs_are_drawn_for_every_client_and_round():
  """Within the range, both ends included; 24 draws of three values."""
  epochs = _epochs(2, 4)
  np.testing.assert_allclose(epochs, np.round(epochs), atol=1e-9)
  assert set(np.round(epochs).ravel()) == {2, 3, 4}
  # Not the same for all clients of a round, nor for a client in all rounds.
  assert np.any(np.ptp(np.round(epochs), axis=0) > 0)
  assert np.any(np.ptp(np.round(epochs), axis=1) > 0)


def test_a_range_of_epochs_is_two_numbers_instead_of_steps():
  """Examples that are visited are those of its mean."""
  for text in ('3', '0:2', '4:3', '1:2:3', 'few:many'):
    with pytest.raises(ValueError, match='`epochs_range` must be off, or two'):
      fedprox.FedProxHyperparameters(epochs_range=text)
  with pytest.raises(ValueError, match='`local_steps` must be left at 20'):
    fedprox.FedProxHyperparameters(epochs_range='1:2', local_steps=5)
  drawn = fedprox.FedProxHyperparameters(epochs_range='1:2')
  assert drawn.num_visited(34) == 51
