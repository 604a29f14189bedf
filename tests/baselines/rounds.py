"""A tiny float64 task, and rounds of a process with partial participation."""

import collections
import functools
import types

import numpy as np
import tensorflow as tf

import baselines  # pylint: disable=unused-import  Registers the methods.
from tff_pers import methods
from tff_pers.data import client_data
from tff_pers.models import functional

# Cohorts of three rounds, smaller than the five clients; client 4 never trains.
COHORTS = ((0, 2), (3, 1), (2, 0))
SEED = 7


def tiny_model() -> functional.FunctionalModel:
  """Softmax regression with a hidden layer, 3 features, 2 classes, float64."""

  def init(seed):
    shapes = ([3, 4], [4], [4, 2], [2])
    return tuple(
        tf.random.stateless_normal(shape, seed + i, dtype=tf.float64)
        for i, shape in enumerate(shapes)
    )

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    w1, b1, w2, b2 = weights
    return tf.matmul(tf.tanh(tf.matmul(x, w1) + b1), w2) + b2

  return functional.FunctionalModel(
      init=init,
      predict=predict,
      example_loss=functional.sparse_categorical_crossentropy,
      x_spec=tf.TensorSpec([None, 3], tf.float64),
      y_spec=tf.TensorSpec([None], tf.int32),
      metrics={'accuracy': functional.categorical_accuracy},
  )


def tiny_clients():
  """Returns five clients of 3 to 7 examples."""
  generator = np.random.default_rng(0)
  return [
      client_data.dense(
          i,
          generator.standard_normal([3 + i, 3]),
          generator.integers(0, 2, 3 + i).astype(np.int32),
      )
      for i in range(5)
  ]


def train(process, cohorts=COHORTS, clients=None):
  """Returns (server states, client states, metrics) after the rounds.

  Server states and metrics are lists, one entry per round; client states are
  a dictionary by client of everyone who took part.
  """
  clients = tiny_clients() if clients is None else clients
  state = process.initialize_seeded(SEED)
  states, client_states, metrics = [], {}, []
  for cohort in cohorts:
    for i in cohort:
      if i not in client_states:
        client_states[i] = process.initialize_client(state, i)
    output = process.next(
        state, [client_states[i] for i in cohort], [clients[i] for i in cohort]
    )
    state = output['state']
    client_states.update(zip(cohort, output['client_states']))
    states.append(state)
    metrics.append(output['metrics'])
  return states, client_states, metrics


def leaves(structure):
  """Returns the arrays of a structure, in order."""
  return [np.asarray(leaf) for leaf in tf.nest.flatten(structure)]


def assert_identical(actual, expected):
  """Checks that two structures hold the same bits."""
  actual, expected = leaves(actual), leaves(expected)
  assert len(actual) == len(expected) > 0
  for a, e in zip(actual, expected):
    assert a.dtype == e.dtype
    np.testing.assert_array_equal(a, e)


def assert_close(actual, expected, atol=1e-12):
  """Checks that two structures agree up to `atol`."""
  actual, expected = leaves(actual), leaves(expected)
  assert len(actual) == len(expected) > 0
  for a, e in zip(actual, expected):
    np.testing.assert_allclose(a, e, rtol=0, atol=atol)


@functools.lru_cache(maxsize=None)
def run(name: str, **hyperparameters):
  """Returns (process, *train(process)) of a method on the tiny task.

  Args:
    name: The name of the method.
    **hyperparameters: Beside 5 local steps of 2 examples and step size 0.1.
  """
  method = methods.get(name)
  values = dict(local_steps=5, batch_size=2, learning_rate=0.1)
  values.update(hyperparameters)
  task = types.SimpleNamespace(model=tiny_model(), client_weighting='examples')
  process = method.build(task, method.hyperparameters(**values))
  return (process, *train(process))


def message(weights, seed=0, round_num=0):
  """Returns the message `<seed, round, weights>` of a round."""
  return collections.OrderedDict(
      seed=tf.constant(seed, tf.int64), round=tf.constant(round_num, tf.int32),
      weights=weights,
  )


def tensors(data):
  """Returns one client's data as tensors, as a computation sees them."""
  return tf.nest.map_structure(tf.constant, data)
