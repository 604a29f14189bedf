"""Speed and accuracy of local steps: checks 12 and 13 of the sheet.

Slow: thousands of rounds of clients that take local steps.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import built
from tff_pers.algorithms.local_update import local_update
from tff_pers.composition import server_optimizers
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import loss_functions
from tff_pers.numerics import thetas

pytestmark = pytest.mark.slow


def _softmax(logits):
  exponentials = np.exp(logits - logits.max(-1, keepdims=True))
  return exponentials / exponentials.sum(-1, keepdims=True)


# Check 12: logistic regression, 20 clients, full batches, all in every round.


@functools.lru_cache(maxsize=None)
def _regression():
  """Returns (x[20, 50, 15], y[20, 50]); clients have weights of their own."""
  rng = np.random.default_rng(0)
  std = 3 / np.arange(1, 16)
  x = rng.standard_normal((20, 50, 15)) * std
  common = rng.standard_normal((15, 4))
  own = common + 0.3 * rng.standard_normal((20, 15, 4))
  logits = x @ (own / np.sqrt(std)[:, None])
  return x, np.argmax(logits + rng.gumbel(size=logits.shape), -1)


def _regression_loss(w):
  x, y = _regression()
  correct = np.take_along_axis(_softmax(x @ w), y[..., None], -1)
  return -np.mean(np.log(correct)) + 0.5e-3 * np.sum(w**2)


def _regression_losses(gamma, eta, beta, num_rounds):
  """Returns the loss after each round."""
  model = functional.FunctionalModel(
      init=lambda seed: (tf.zeros([15, 4], tf.float64),),
      predict=lambda weights, x, training, seed: tf.matmul(x, weights[0]),
      example_loss=loss_functions.sparse_categorical_crossentropy,
      x_spec=tf.TensorSpec([None, 15], tf.float64),
      y_spec=tf.TensorSpec([None], tf.int32),
      penalty=lambda weights: 0.5e-3 * tf.reduce_sum(weights[0] ** 2),
  )
  process = local_update.build_local_update(
      # At gamma = 0 all gradients of a full batch are the same one.
      model, gamma=gamma,
      theta=thetas.FirstGradients(20).theta if gamma else (20.0,),
      batch_size=0, server_optimizer=server_optimizers.build_heavy_ball(
          eta, beta, tf.float64
      ),
  )
  clients = [
      client_data.dense(i, x, y.astype(np.int32))
      for i, (x, y) in enumerate(zip(*_regression()))
  ]
  state, losses = process.initialize_seeded(0), []
  for _ in range(num_rounds):
    state = process.next(state, [()] * 20, clients)['state']
    losses.append(_regression_loss(np.asarray(state['weights'][0])))
  return losses


def test_local_steps_are_fast_at_first_and_end_higher():
  """Check 12; eta as NumPy has found it, tuned over quarter-decades."""
  plain = _regression_losses(0.0, 10**-1.25, 0.0, 100)
  local = _regression_losses(0.1, 10**-0.75, 0.0, 30)
  assert local[29] < plain[29] - 0.02
  momentum = {
      gamma: _regression_losses(gamma, eta, 0.9, 300)
      for gamma, eta in ((0.0, 10**-1.25), (0.1, 10**-1.75), (0.3, 10**-1.75))
  }
  assert momentum[0.0][99] < plain[99] - 0.008
  floors = [losses[-1] for losses in momentum.values()]
  assert floors[0] + 2e-4 < floors[1] < floors[2] - 1e-3
  without = _regression_losses(0.3, 10**-0.75, 0.0, 300)
  assert abs(without[-1] - floors[2]) < 5e-4


# Check 13: the digits, cohorts of 10, K = 10 batches of 20, three seeds.


@functools.lru_cache(maxsize=None)
def _digits():
  return built.task('digits', partition='iid')


def _curves(**member):
  """Returns (training losses, accuracies), each [3 seeds, num_rounds]."""
  task = _digits()
  process = local_update.build_local_update(
      task.model, theta=thetas.FirstGradients(10).theta, batch_size=20, **member
  )
  curves = []
  for seed in range(3):
    # The same cohorts and batches for every member.
    rng, state = np.random.default_rng(seed), process.initialize_seeded(seed)
    curve = []
    for _ in range(40):
      cohort = rng.choice(task.num_clients, 10, replace=False)
      data = [task.train[i] for i in cohort]
      state = process.next(state, [()] * 10, data)['state']
      curve.append((
          _mean(process, state, task.train, 'loss'),
          _mean(process, state, task.test, 'accuracy'),
      ))
    curves.append(curve)
  return np.moveaxis(np.array(curves), 2, 0)


def _mean(process, state, clients, name):
  """Returns the mean of a metric over all examples of the clients."""
  del process  # The model of the server is evaluated as it is.
  x, y = (
      np.concatenate([np.asarray(data['examples'][part]) for data in clients])
      for part in 'xy'
  )
  model = _digits().model
  predictions = model.predict(
      tf.nest.map_structure(tf.constant, state['weights']), x, False,
      tf.zeros([2], tf.int64),
  )
  value = model.example_loss if name == 'loss' else model.metrics[name]
  return float(np.mean(value(y, predictions)))


def _first(reached):
  """Returns the first round of each seed in which it is true."""
  assert np.all(np.any(reached, axis=1))
  return np.argmax(reached, axis=1) + 1


def test_local_steps_reach_a_training_loss_in_fewer_rounds():
  """Check 13 (a): both at the best eta of 0.3, 1, 3."""
  none, some = (
      _first(_curves(gamma=gamma, eta=eta)[0] < 0.25)
      for gamma, eta in ((0.0, 1.0), (3.0, 3.0))
  )
  assert np.all(some < none)


def test_momentum_reaches_an_accuracy_in_no_more_rounds():
  """Check 13 (b): all at their best eta of 0.1, 0.3, 1.

  Rounds to 0.93, mean over seeds: 7.3 by GD, 6.0 by the heavy ball, 4.0 by
  Nesterov. With eta = 3 GD takes 5.3: momentum gains where a large step cannot.
  """
  plain = _first(_curves(gamma=0.3, eta=1.0)[1] >= 0.93)
  for optimizer in (
      server_optimizers.build_heavy_ball(1.0, 0.9, tf.float32),
      server_optimizers.build_nesterov(1.0, 0.9),
  ):
    found = _first(_curves(gamma=0.3, server_optimizer=optimizer)[1] >= 0.93)
    assert np.mean(found) <= np.mean(plain)


def test_a_pull_hardly_changes_the_accuracy():
  """Check 13 (c): less than a point, as seeds do."""
  finals = [
      _curves(gamma=0.3, eta=0.3, alpha=alpha)[1][:, -1]
      for alpha in (0.0, 0.01, 0.1)
  ]
  assert np.max(np.ptp(np.mean(finals, axis=1))) < 0.01
