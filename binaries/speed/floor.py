"""Lower bound: rounds of the workloads as hand-written `tf.function`s.

Same maths and same numbers as the processes, but with everything known in
advance hard-coded: the cohort, its equal sizes, and the steps of an epoch; no
checks, measurements or placement. LSTM layers are Keras's own, as in any
hand-written loop.
"""

import itertools
from unittest import mock

import numpy as np
import tensorflow as tf

from binaries.speed import processes
from binaries.speed import workloads
from tff_pers.aggregators import shuffling
from tff_pers.algorithms.perm import own_rows
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.algorithms.perm import visits
from tff_pers.client_works import local_gradient
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import keras
from tff_pers.models import keras_recurrent
from tff_pers.numerics import distances

_SEED = 0  # Of `process.initialize`.
_PARALLEL = 4  # Clients in parallel; more is no faster on two cores.


def _rounds(step, state, data) -> processes.Rounds:
  """Returns rounds of `step`, a function of state, round and tensors."""
  numbers = itertools.count()
  return processes.Rounds(
      lambda state, tensors: step(
          state, tf.constant(next(numbers)), *tensors
      ),
      state, data, lambda state: state[0],
  )


def build(workload: workloads.Workload) -> processes.Rounds:
  """Returns the rounds of a workload."""
  with mock.patch.object(keras_recurrent, 'calls', lambda layers: []):
    return _build(workload)


def _build(workload):
  if workload.algorithm == 'tff_learning':
    return _tff_learning(workload)
  build_step = _perm if workload.algorithm == 'perm' else _fedavg
  leaves = zip(*workloads.arrays(workload))
  x, y = (tf.constant(np.stack(leaf)) for leaf in leaves)
  step, state = build_step(workload, workload.model())
  return _rounds(step, state, itertools.repeat((x, y)))


def _fedavg(workload, model):
  """Weights <- mean of the weights after an epoch at each client."""
  step = _averaging(workload, lambda weights, x, y, t, i: _train(
      workload, model, weights, x, y, random.key(_SEED, t, i, 0),
      workloads.LEARNING_RATE,
  ))
  return step, (model.initial_weights(_SEED),)


def _averaging(workload, train):
  """Returns a round: the mean of train(weights, x, y, t, i) over clients i."""

  @tf.function
  def step(state, t, x, y):
    [weights] = state

    def add(i, total):
      own = train(weights, x[i], y[i], t, i)
      return i + 1, tf.nest.map_structure(tf.add, total, own)

    _, total = tf.while_loop(
        lambda i, _: i < workload.num_clients, add,
        (0, tf.nest.map_structure(tf.zeros_like, weights)),
        parallel_iterations=_PARALLEL,
    )
    return (
        tf.nest.map_structure(lambda w: w / workload.num_clients, total),
    )

  return step


def _train(workload, model, weights, x, y, seed, learning_rate):
  """One epoch of SGD; `num_examples` is a multiple of `batch_size`."""
  rows, _ = client_data.batch_rows(
      workload.num_examples, workload.num_examples, seed=seed,
      batch_size=workload.batch_size, num_epochs=1,
  )
  for t in range(workload.num_examples // workload.batch_size):
    weights = _descend(
        model, weights, tf.gather(x, rows[t]), tf.gather(y, rows[t]),
        random.fold_in(seed, t), learning_rate,
    )
  return weights


def _descend(model, weights, x, y, seed, learning_rate):
  """One step of SGD."""
  with tf.GradientTape() as tape:
    tape.watch(weights)
    predictions = model.predict(weights, x, True, seed)
    loss = tf.reduce_mean(model.example_loss(y, predictions))
  gradient = tape.gradient(loss, weights)
  return tf.nest.map_structure(
      # An embedding's gradient is a `tf.IndexedSlices`.
      lambda w, g: w - learning_rate * tf.convert_to_tensor(g), weights,
      gradient,
  )


def _tff_learning(workload):
  """FedAvg over the batches of the datasets, which are read only once."""
  model = keras.from_keras(
      workload.model(),
      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  )

  def train(weights, x, y, t, i):
    for batch in range(x.shape[0]):
      weights = _descend(
          model, weights, x[batch], y[batch], random.key(_SEED, t, i, batch),
          workloads.LEARNING_RATE,
      )
    return weights

  initial = tuple(map(tf.constant, processes.initial_weights(workload)))
  return _rounds(
      _averaging(workload, train), (initial,), _batches(workload)
  )


def _batches(workload):
  """Yields x and y of every round, [clients, batches, batch_size, ...].

  With a pool, rounds have other clients, whose examples are reshuffled.
  """
  if not workload.pool:
    cohort = next(processes.datasets(workload))
    batches = [[*zip(*dataset)] for dataset in cohort]
    yield from itertools.repeat([tf.stack(leaf) for leaf in zip(*batches)])
  generator = np.random.default_rng()
  arrays = workloads.arrays(workload)
  for chosen in workloads.cohorts(workload):
    rows = [
        generator.permutation(workload.num_examples).reshape(
            -1, workload.batch_size
        )
        for _ in chosen
    ]
    yield [
        tf.constant(np.stack([
            arrays[client][leaf][own] for client, own in zip(chosen, rows)
        ]))
        for leaf in range(2)
    ]


def _perm(workload, model):
  """PERM's Algorithm 2 with visits in every round; see `perm.perm`."""
  n = workload.num_clients
  hyperparameters = processes.perm_hyperparameters(workload)
  initial = model.initial_weights(_SEED)
  specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, initial)

  def over_clients(function, signature):
    return tf.map_fn(
        function, tf.range(n), fn_output_signature=signature,
        parallel_iterations=_PARALLEL,
    )

  @tf.function
  def step(state, t, x, y):
    weights, models, rows, pending = state

    def gradient(i):
      found = local_gradient.compute(
          model, weights,
          dict(
              index=i, num_examples=workload.num_examples,
              examples=dict(x=x[i], y=y[i]),
          ),
          seed=random.key(_SEED, t, i, 1),
      )
      return distances.flatten(found.gradient), found.variance

    vectors, variances = over_clients(gradient, (tf.float32, tf.float32))  # (a)
    weights = _subtract(
        weights, hyperparameters.gamma * tf.reduce_mean(vectors, axis=0)
    )
    rows = mixing(
        rows, vectors, variances, workload.num_examples, hyperparameters
    )
    hosts = visit_schedule.next_owners(
        dict(round=t, seed=_SEED), rows, pending, tf.ones([n], tf.bool),
        hyperparameters,
    )
    owners, pending = hosts['owners'], hosts['pending']

    def visit(i):  # (c)
      owner = tf.maximum(owners[i], 0)
      rate = workloads.LEARNING_RATE * tf.cast(
          visits.step_multiplier(
              rows, owner, i, hyperparameters, matched=True
          ),
          tf.float32,
      )
      hosted = tf.nest.map_structure(lambda table: table[owner], models)
      train = lambda: _train(
          workload, model, hosted, x[i], y[i], random.key(_SEED, t, i, 0), rate
      )
      return tf.cond(owners[i] >= 0, train, lambda: hosted)

    is_host = owners >= 0
    models = shuffling.scatter(
        models, tf.boolean_mask(owners, is_host),
        tf.nest.map_structure(
            lambda leaf: tf.boolean_mask(leaf, is_host),
            over_clients(visit, specs),
        ),
    )
    return weights, models, rows, pending

  rows = perm_mixing.initial(_setting(n, hyperparameters))
  return step, (
      initial, own_rows.tile(initial, n), rows,
      visit_schedule.no_pending_visits(hyperparameters, rows, True),
  )


def _subtract(weights, vector):
  """Returns weights minus a vector that holds an entry for each of theirs."""
  pieces = tf.split(vector, [tf.size(w) for w in weights])
  return tuple(
      w - tf.reshape(piece, w.shape) for w, piece in zip(weights, pieces)
  )


def mixing(
    current: tf.Tensor, vectors: tf.Tensor, variances: tf.Tensor,
    num_examples: int, hyperparameters: perm.PermHyperparameters,
) -> tf.Tensor:
  """Returns (b) of PERM: the mixing weights from the gradients.

  `current` is A, float32[N, N]; gradients are `vectors`, float32[N, d], with
  their `variances`, float32[N].
  """
  n = vectors.shape[0]
  sizes = tf.fill([n], float(num_examples))
  table = dict(
      fingerprints=vectors, rows=sizes, sizes=sizes, variances=variances
  )
  lambda_ = perm_mixing.choose_lambda(
      table, hyperparameters.lambda_scale, hyperparameters
  )
  setting = _setting(n, hyperparameters)
  return perm_mixing.Problem(setting, table, lambda_).all_rows(current)


def _setting(num_clients, hyperparameters):
  """Returns a setting with whole gradients, which need no model."""
  return setting_lib.PermSetting(
      perm_devices.Devices(None),  # type: ignore[arg-type]
      hyperparameters, num_clients,
  )
