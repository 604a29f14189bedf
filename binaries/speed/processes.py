"""Rounds of the workloads as TFF computations on the current runtime."""

import itertools
from typing import Any, Callable, Iterator

import numpy as np
import tensorflow as tf

from baselines import fedavg
from binaries.speed import problems
from binaries.speed import workloads
from tff_pers.algorithms.perm import perm
from tff_pers.client_works import factored_sgd
from tff_pers.data import client_data
from tff_pers import tff


class Rounds:
  """Repeats a round.

  Attributes:
    state: The server state.
  """

  def __init__(
      self, step: Callable[[Any, Any], Any], state: Any, data: Iterator[Any],
      model: Callable[[Any], Any] = lambda state: state['weights'],
  ):
    """Prepares rounds.

    Args:
      step: `(state, data of a round) -> state`.
      state: The first state.
      data: Yields the data of each round.
      model: `state -> leaves of the global model`.
    """
    self.state, self._step, self._data, self._model = state, step, data, model

  def play(self) -> None:
    """Runs one round."""
    self.state = self._step(self.state, next(self._data))

  def weights(self) -> list[np.ndarray]:
    """Returns the leaves of the global model."""
    return [np.asarray(leaf) for leaf in self._model(self.state)]


def build(workload: workloads.Workload) -> Rounds:
  """Returns the rounds of a workload."""
  if workload.algorithm == 'tff_learning':
    return _tff_learning(workload)
  return _of_process(
      _process(workload), itertools.repeat(workloads.clients(workload))
  )


def soak(workload: workloads.Workload) -> Rounds:
  """Returns rounds with cohorts of varying clients, size and examples."""
  return _of_process(_process(workload), varying_cohorts(workload))


def _of_process(process, data: Iterator[Any]) -> Rounds:
  return Rounds(
      lambda state, cohort: process.next(
          state, [()] * len(cohort), cohort
      )['state'],
      process.initialize(), data,
  )


def _process(workload):
  training = _training(workload)
  # As in a program that knows the data.
  with factored_sgd.building(workload.num_examples):
    if workload.algorithm == 'perm':
      return perm.build_perm(
          workload.model(), workload.num_clients,
          perm_hyperparameters(workload),
      )
    return fedavg.build_fedavg(
        workload.model(), fedavg.FedAvgHyperparameters(**training)
    )


def perm_hyperparameters(
    workload: workloads.Workload
) -> perm.PermHyperparameters:
  """Returns those of the workload's PERM."""
  return problems.perm_hyperparameters('single_loop', **_training(workload))


def _training(workload):
  return dict(
      learning_rate=workloads.LEARNING_RATE, local_steps=0, local_epochs=1,
      batch_size=workload.batch_size,
  )


def _tff_learning(workload) -> Rounds:
  """Returns rounds of `tff.learning`'s weighted FedAvg, as users build it."""
  data = datasets(workload)
  spec = next(data)[0].element_spec

  def model_fn():
    return tff.learning.models.from_keras_model(
        workload.model(), input_spec=spec,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )

  process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_sgdm(workloads.LEARNING_RATE),
      tff.learning.optimizers.build_sgdm(1.0),
  )
  state = process.set_model_weights(
      process.initialize(),
      tff.learning.models.ModelWeights(initial_weights(workload), []),
  )
  return Rounds(
      lambda state, cohort: process.next(state, cohort).state, state, data,
      lambda state: process.get_model_weights(state).trainable,
  )


def datasets(workload: workloads.Workload) -> Iterator[list[tf.data.Dataset]]:
  """Yields the batches of every client of `tff_learning`, round after round."""
  arrays = workloads.arrays(workload)
  if not workload.pool:
    yield from itertools.repeat([
        tf.data.Dataset.from_tensor_slices(xy).batch(workload.batch_size)
        for xy in arrays
    ])
  for cohort in workloads.cohorts(workload):
    yield [
        tf.data.Dataset.from_tensor_slices(arrays[client])
        .shuffle(workload.num_examples).batch(workload.batch_size)
        for client in cohort
    ]


def initial_weights(workload: workloads.Workload) -> list[np.ndarray]:
  """Returns weights for a Keras model, the same in every process."""
  generator = np.random.default_rng(1)
  return [
      generator.uniform(-0.05, 0.05, v.shape).astype(np.float32)
      for v in workload.model().trainable_variables
  ]


def varying_cohorts(
    workload: workloads.Workload, pool: int = 100
) -> Iterator[list[Any]]:
  """Yields cohorts of a random size from a pool of clients of random sizes."""
  generator = np.random.default_rng(2)
  clients = [
      client_data.dense(i, *workload.examples(generator, int(size)))
      for i, size in enumerate(generator.integers(
          workload.num_examples // 2, workload.num_examples * 3 // 2, pool
      ))
  ]
  while True:
    size = generator.integers(1, 2 * workload.num_clients + 1)
    chosen = generator.choice(len(clients), size, replace=False)
    yield [clients[client] for client in chosen]


def sums(num_clients: int, is_ragged: bool) -> Rounds:
  """Returns sums of short vectors of many clients: the cost per client.

  Vectors have 5 entries; if they are ragged, 3 to 7.
  """
  generator = np.random.default_rng(3)
  sizes = [5] * num_clients
  if is_ragged:
    sizes = generator.integers(3, 8, num_clients).tolist()
  vector = tff.TensorType(np.float32, [None])

  @tff.tensorflow.computation(vector)
  def entries(x):
    return tf.reduce_sum(x)

  @tff.federated_computation(tff.FederatedType(vector, tff.CLIENTS))
  def total(vectors):
    return tff.federated_sum(tff.federated_map(entries, vectors))

  vectors = [np.ones([size], np.float32) for size in sizes]
  return Rounds(lambda _, data: total(data), None, itertools.repeat(vectors))
