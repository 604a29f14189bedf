"""Rounds of a process on the tiny task, with partial participation."""

import collections
import functools
import types

import numpy as np
import tensorflow as tf

import baselines  # pylint: disable=unused-import  Registers the methods.
from tests import acting
from tests import problems
from tff_pers.config import methods

# Cohorts of three rounds, smaller than the five clients; client 4 never trains.
COHORTS = ((0, 2), (3, 1), (2, 0))
SEED = 7


def train(process, cohorts=COHORTS, clients=None):
  """Returns (server states, client states, metrics) after the rounds.

  Server states and metrics are lists, one entry per round; client states are
  a dictionary by client of everyone who took part.
  """
  clients = problems.tiny_clients() if clients is None else clients
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


def distances_to_shared_optimum(process, num_rounds, cohort_size=6):
  """Returns ||theta - theta*|| after each round on `split_least_squares`.

  Args:
    process: A method on that problem.
    num_rounds: Number of rounds.
    cohort_size: Clients per round, drawn by NumPy under the seed 0 if not all.
  """
  _, clients, optimum = problems.split_least_squares()
  rng, cohorts = np.random.default_rng(0), [range(6)] * num_rounds
  if cohort_size < 6:
    cohorts = [rng.choice(6, cohort_size, replace=False) for _ in cohorts]
  cohorts = [list(map(int, cohort)) for cohort in cohorts]
  states, _, _ = train(process, cohorts, clients)
  return [
      np.linalg.norm(leaves(state['weights'])[0] - optimum) for state in states
  ]


def leaves(structure):
  """Returns the arrays of a structure, in order."""
  return [np.asarray(leaf) for leaf in tf.nest.flatten(structure)]


def assert_identical(actual, expected):
  """Checks that two structures are bit-identical."""
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


def run(name: str, **hyperparameters):
  """Returns (process, *train(process)) of a method on the tiny task.

  Args:
    name: The name of the method.
    **hyperparameters: Beside 5 local steps of 2 examples and step size 0.1.
  """
  return run_weighted(name, 'examples', **hyperparameters)


@functools.lru_cache(maxsize=None)
def run_weighted(name: str, client_weighting: str, **hyperparameters):
  """Returns what `run` does, with another weighting of the task."""
  method = methods.get(name)
  values = acting.hyperparameters(
      method.hyperparameters,
      dict(
          local_steps=5, local_epochs=0, batch_size=2, learning_rate=0.1,
          buffer_size=2, tiers='1:0.5',
      ), **hyperparameters
  )
  task = types.SimpleNamespace(
      model=problems.tiny_model(), client_weighting=client_weighting,
      num_clients=5, has_groups=False, train=problems.tiny_clients(),
      rank_ratios=(1.0,), tier_assignment='fixed', tiers=None,
  )
  process = method.build(task, values)
  return (process, *train(process))


def whole_batch(data):
  """Returns all examples of a client as one batch."""
  return problems.batch(*map(data['examples'].get, 'xy'))


def gradient(weights, data):
  """Returns (loss, gradient) of the tiny model on all examples of a client."""
  model, examples = problems.tiny_model(), data['examples']
  weights = tuple(map(tf.convert_to_tensor, weights))
  with tf.GradientTape() as tape:
    tape.watch(weights)
    logits = model.predict(weights, examples['x'], True, None)
    loss = tf.reduce_mean(model.example_loss(examples['y'], logits))
  return loss, tape.gradient(loss, weights)


def loss(weights, data):
  """Returns the mean loss of the tiny model on all examples of a client."""
  model, (x, y) = problems.tiny_model(), map(data['examples'].get, 'xy')
  return np.mean(model.example_loss(y, model.predict(weights, x, False, None)))


def evaluated(process, state, client_state, data, test=None):
  """Returns the metrics of one client; without `test`, of what it adapts to."""
  both = dict(adapt=data, test=data if test is None else test)
  [found] = process.evaluate(state, [client_state], [both])
  return found


def message(weights, seed=0, round_num=0):
  """Returns the message `<seed, round, weights>` of a round."""
  return collections.OrderedDict(
      seed=tf.constant(seed, tf.int64), round=tf.constant(round_num, tf.int32),
      weights=weights,
  )


def tensors(data):
  """Returns one client's data as tensors, as a computation sees them."""
  return tf.nest.map_structure(tf.constant, data)
