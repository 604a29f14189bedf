"""Rounds of sub-models in NumPy, on a network of one hidden layer.

Weights are (w1 [3, C], b1 [C], w2 [C, 2], b2 [2]), as of `problems.tiny_model`.
"""

import numpy as np
import tensorflow as tf

from tests import problems
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import submodels

HIDDEN = 6
WIDTHS = (1.0, 0.5, 1 / 3)
COUNTS = (6, 3, 2)
SEED = 7
# Clients of all tiers, of two, and one alone.
COHORTS = ((0, 1, 2), (4, 2), (1,), (3, 4, 0))
STEP = dict(
    local_epochs=0, local_steps=4, batch_size=2, learning_rate=0.2,
    momentum=0.5, weight_decay=0.1,
)


def parts(widths=WIDTHS, hidden: int = HIDDEN) -> submodels.Submodels:
  """Returns the sub-models of the network."""
  return submodels.Submodels(problems.tiny_model(hidden), widths)


def tier_of(index: int) -> int:
  """Client i is in tier i mod 3."""
  return index % 3


def assign(seed, round_num, index):
  """As `tier_of`, for the methods."""
  del seed, round_num  # Fixed.
  return index % 3


def batches(client, round_num):
  """Returns the minibatches that a client sees in a round, (x, y, seed)."""
  found = []

  def step(count, batch):
    rows = batch.mask.numpy()
    found.append((batch.x.numpy()[rows], batch.y.numpy()[rows], batch.seed))
    return count + 1

  client_data.fold_batches(
      tf.nest.map_structure(tf.constant, client), step, tf.constant(0),
      seed=random.key(SEED, round_num, client['index'], 0),
      batch_size=2, num_steps=4,
  )
  assert len(found) == 4
  return found


def cut(weights, units):
  """Returns the weights of these hidden units."""
  w1, b1, w2, b2 = weights
  return [w1[:, units], b1[units], w2[units], b2]


def put(weights, own, units):
  """Returns the weights with those of the units replaced."""
  w1, b1, w2, b2 = (np.array(leaf) for leaf in weights)
  w1[:, units], b1[units], w2[units], b2[:] = own
  return [w1, b1, w2, b2]


def gradient(weights, x, y, rate=1.0, owned=(1, 1)):
  """Returns that of the mean cross-entropy.

  Args:
    weights: As the module says.
    x: [batch, 3].
    y: int[batch].
    rate: What the hidden layer is divided by.
    owned: 0 for the classes whose logits are 0.
  """
  w1, b1, w2, b2 = weights
  hidden = np.tanh((x @ w1 + b1) / rate)
  logits = (hidden @ w2 + b2) * owned
  shares = np.exp(logits)
  shares /= shares.sum(axis=1, keepdims=True)
  of_logits = (shares - np.eye(2)[y]) / len(y) * owned
  of_hidden = of_logits @ w2.T * (1 - hidden**2) / rate
  return [
      x.T @ of_hidden, of_hidden.sum(axis=0), hidden.T @ of_logits,
      of_logits.sum(axis=0),
  ]


def train(weights, seen, **options):
  """Returns the weights after the steps of `STEP`, see `gradient`."""
  momentum = [np.zeros_like(leaf) for leaf in weights]
  for x, y, _ in seen:
    direction = gradient(weights, x, y, **options)
    weights, momentum = step(weights, momentum, direction)
  return weights


def step(weights, momentum, direction):
  """Returns (weights, momentum) after a step of `STEP`."""
  momentum = [
      0.5 * m + g + 0.1 * w for m, g, w in zip(momentum, direction, weights)
  ]
  return [w - 0.2 * m for w, m in zip(weights, momentum)], momentum


def average(weights, trained, shares, owned=None):
  """Returns the mean of each coordinate over the clients that have it.

  Args:
    weights: Where all began.
    trained: For each client (its units, its weights).
    shares: q_i.
    owned: For each client 0 for the classes whose rows it does not send.
  """
  totals = [np.zeros_like(leaf) for leaf in weights]
  counts = [np.zeros_like(leaf) for leaf in weights]
  zeros = [np.zeros_like(leaf) for leaf in weights]
  for number, (units, own) in enumerate(trained):
    ones = [np.ones_like(leaf) for leaf in own]
    has, whole = put(zeros, ones, units), put(zeros, own, units)
    if owned is not None:
      has[2:] = [leaf * owned[number] for leaf in has[2:]]
    for total, count, h, w in zip(totals, counts, has, whole):
      total += shares[number] * h * w
      count += shares[number] * h
  return [
      np.where(count > 0, total / np.where(count > 0, count, 1), leaf)
      for total, count, leaf in zip(totals, counts, weights)
  ]


def start(process):
  """Returns (state, its weights as arrays) of the seed of these rounds."""
  state = process.initialize_seeded(SEED)
  return state, [np.asarray(leaf) for leaf in state['weights']]


def play(process, state, cohort, clients=None):
  """Returns (state, metrics) after a round."""
  clients = problems.tiny_clients() if clients is None else clients
  output = process.next(
      state, [()] * len(cohort), [clients[i] for i in cohort]
  )
  return output['state'], output['metrics']


def assert_rounds(process, expected_round, client_weighting, cohorts=COHORTS):
  """Checks rounds of a process against NumPy.

  Args:
    process: The method, with clients as `tier_of` says.
    expected_round: `(weights, round, client) -> (units, weights of them)`.
    client_weighting: `uniform` or `examples`.
    cohorts: The clients of each round.
  """
  clients = problems.tiny_clients()
  state, weights = start(process)
  for round_num, cohort in enumerate(cohorts):
    state, _ = play(process, state, cohort)
    shares = [
        float(clients[i]['num_examples'])
        if client_weighting == 'examples' else 1.0 for i in cohort
    ]
    weights = average(weights, [
        expected_round(weights, round_num, clients[i]) for i in cohort
    ], shares)
    for actual, leaf in zip(state['weights'], weights):
      np.testing.assert_allclose(actual, leaf, rtol=1e-10, atol=1e-12)


def assert_masked_rounds(process, units):
  """Checks rounds, by examples, in which only client 1 has both classes.

  Decay would move the row of class 0 at who lacks it.

  Args:
    process: The method, with a masked loss.
    units: The units of clients 0 to 2.
  """
  state, weights = start(process)
  clients = [of_class(0, 1), problems.tiny_clients()[1], of_class(2, 1)]
  owned = [(0, 1), (1, 1), (0, 1)]
  assert set(clients[1]['examples']['y']) == {0, 1}
  expected = average(weights, [
      (own, train(cut(weights, own), batches(client, 0), owned=classes))
      for own, client, classes in zip(units, clients, owned)
  ], [float(client['num_examples']) for client in clients], owned)
  after, _ = play(process, state, (0, 1, 2), clients)
  for actual, leaf in zip(after['weights'], expected):
    np.testing.assert_allclose(actual, leaf, rtol=1e-10, atol=1e-12)
  # Nobody has class 0.
  after, _ = play(process, state, (0, 2), clients)
  np.testing.assert_array_equal(after['weights'][2][:, 0], weights[2][:, 0])
  assert after['weights'][3][0] == weights[3][0]
  assert after['weights'][3][1] != weights[3][1]


def moved(before, after):
  """Returns the hidden units whose weights differ, a list."""
  differs = [
      np.asarray(a) != np.asarray(b)
      for a, b in zip(before['weights'], after['weights'])
  ]
  return np.flatnonzero(
      differs[0].any(axis=0) | differs[1] | differs[2].any(axis=1)
  ).tolist()


def without_examples(index: int):
  """Returns a client that takes no step, and is absent."""
  return client_data.dense(
      index, np.zeros([0, 3]), np.zeros([0], np.int32)
  )


def of_class(index: int, label: int):
  """Returns a client whose examples are all of one class."""
  client = problems.tiny_clients()[index]
  y = np.full_like(client['examples']['y'], label)
  return client_data.dense(index, client['examples']['x'], y)


def vector_parts(widths=(1.0, 0.5)) -> submodels.Submodels:
  """Returns the sub-models of a 4-vector w, of loss 1/2 ||w - x||^2.

  x is one number for all entries, so that a step of size 1 takes every entry to
  it that takes part.
  """
  return submodels.Submodels(_vector(4), widths)


def vector_clients():
  """Returns three clients of 1, 3 and 2 examples, all 4, all 1 and all 2."""
  return [
      client_data.dense(i, np.full([n, 1], value), np.zeros([n], np.int32))
      for i, (n, value) in enumerate([(1, 4.0), (3, 1.0), (2, 2.0)])
  ]


def _vector(units):

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    return tf.reduce_sum((weights[0] - x)**2, axis=1) / 2

  return functional.FunctionalModel(
      init=lambda seed: (tf.fill([units], tf.constant(10.0, tf.float64)),),
      predict=predict, example_loss=lambda y, predictions: predictions,
      x_spec=tf.TensorSpec([None, 1], tf.float64),
      y_spec=tf.TensorSpec([None], tf.int32),
      slim=lambda width, rounding='round': _vector(
          submodels.num_kept(units, width, rounding)
      ),
      units=((functional.Units('entries', units),),),
  )


def first_whole_then_halves(seed, round_num, index):
  """Client 0 of `vector_clients` has the whole vector, the others half."""
  del seed, round_num  # Fixed.
  return tf.minimum(index, 1)
