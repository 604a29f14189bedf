"""Check 14 of papers/partial_personalization.md 8: a shared representation.

    y = X Theta_o^T w_m, with Theta_o [k, d] of orthonormal rows: f_m is not
    convex in (Theta, w), and a client has fewer examples than features.
"""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.algorithms.ffgg import ffgg
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import partition

_D, _K = 20, 3


def _model():
  """Returns x Theta^T w with half the squared error; Theta ~ N(0, 1/d)."""

  def init(seed):
    theta = tf.random.stateless_normal([_K, _D], seed, dtype=tf.float64)
    return theta / np.sqrt(_D), tf.zeros([_K], tf.float64)

  return functional.FunctionalModel(
      init=init,
      predict=lambda weights, x, training, seed: tf.linalg.matvec(
          tf.matmul(x, weights[0], transpose_b=True), weights[1]
      ),
      example_loss=lambda y, guess: tf.square(guess - y) / 2,
      x_spec=tf.TensorSpec([None, _D], tf.float64),
      y_spec=tf.TensorSpec([None], tf.float64),
  )


class _Problem:
  """Clients that share Theta_o."""

  def __init__(self):
    self._rng = np.random.default_rng(0)
    self._theta = np.linalg.qr(self._rng.normal(size=[_D, _K]))[0]

  def client(self, index, sizes):
    """Returns data sets of these sizes of one client, with the same w."""
    own = self._rng.normal(size=_K)
    made = []
    for size in sizes:
      x = self._rng.normal(size=[size, _D])
      made.append(client_data.dense(index, x, x @ self._theta @ own))
    return made


def _trained(num_rounds, **options):
  """Returns (problem, process, state, losses of the rounds)."""
  problem = _Problem()
  clients = [problem.client(i, [15])[0] for i in range(30)]
  process = ffgg.build_ffgg(
      partition.Partition(_model(), (False, True)),
      ffgg_hp.FFGGHyperparameters(
          private_init='zeros', server_learning_rate=0.3, **options
      ),
  )
  state, losses = process.initialize_seeded(0), []
  for _ in range(num_rounds):
    output = process.next(state, [()] * 30, clients)
    state = output['state']
    losses.append(float(output['metrics']['train_loss']))
  return problem, process, state, losses


@pytest.mark.slow
def test_14_clients_find_the_representation_that_new_ones_fit_in():
  problem, process, state, losses = _trained(400, tuner='exact')
  assert 0.8 <= losses[0] <= 2.0
  assert losses[-1] <= 1e-12
  new = [problem.client(30 + i, [8, 100]) for i in range(20)]
  found = process.evaluate(
      state, [()] * 20, [dict(adapt=a, test=t) for a, t in new]
  )
  # The loss is half the squared error.
  assert np.mean([2 * one['loss'] for one in found]) <= 1e-8
  alone = [
      np.mean((
          t['examples']['x'] @ np.linalg.lstsq(
              a['examples']['x'], a['examples']['y'], rcond=None
          )[0] - t['examples']['y']
      ) ** 2)
      for a, t in new
  ]
  assert np.mean(alone) > 1.0  # 8 examples do not determine 20 numbers.


@pytest.mark.slow
@pytest.mark.parametrize('tau, low, high', [(5, 1e-3, 2e-2), (50, 0, 1e-6)])
def test_14_short_fine_tuning_leaves_an_error(tau, low, high):
  _, _, _, losses = _trained(
      2000, local_steps=tau, local_epochs=0, learning_rate=0.3, batch_size=15
  )
  assert low <= losses[-1] <= high
