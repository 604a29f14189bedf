"""Rounds of the workloads as TFF computations on the current runtime."""

import itertools
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from baselines import fedavg
from binaries.speed import problems
from binaries.speed import workloads
from tff_pers.algorithms.perm import perm
from tff_pers.client_works import factored_sgd
from tff_pers.core import process as process_lib
from tff_pers.data import client_data
from tff_pers import tff


class Rounds:
  """The rounds of a process of this project.

  Attributes:
    state: The server state.
  """

  def __init__(self, process: process_lib.PersonalizedProcess, data: Any):
    self.state = process.initialize()
    self._process, self._data = process, data

  def play(self) -> None:
    """Runs one round."""
    self._run(self._data)

  def _run(self, data):
    output = self._process.next(self.state, [()] * len(data), data)
    self.state = output['state']

  def weights(self) -> list[np.ndarray]:
    """Returns the leaves of the global model."""
    return [np.asarray(w) for w in self.state['weights']]


def build(workload: workloads.Workload) -> Any:
  """Returns an object whose `play` runs a round, with `weights`."""
  if workload.algorithm == 'tff_learning':
    return _LearningRounds(workload)
  return Rounds(_process(workload), workloads.clients(workload))


def _process(workload):
  # As in a program that knows the data.
  with factored_sgd.building(workload.num_examples):
    return _built(workload)


def _built(workload):
  if workload.algorithm == 'perm':
    return perm.build_perm(
        workload.model(), workload.num_clients, perm_hyperparameters(workload)
    )
  return fedavg.build_fedavg(
      workload.model(), fedavg.FedAvgHyperparameters(**_training(workload))
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


class _LearningRounds:
  """Rounds of `tff.learning`'s weighted FedAvg, as users build it."""

  def __init__(self, workload):
    self._rounds = datasets(workload)
    spec = next(self._rounds)[0].element_spec

    def model_fn():
      return tff.learning.models.from_keras_model(
          workload.model(), input_spec=spec,
          loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      )

    self._process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        tff.learning.optimizers.build_sgdm(workloads.LEARNING_RATE),
        tff.learning.optimizers.build_sgdm(1.0),
    )
    self._state = self._process.set_model_weights(
        self._process.initialize(),
        tff.learning.models.ModelWeights(initial_weights(workload), []),
    )

  def play(self):
    data = next(self._rounds)
    self._state = self._process.next(self._state, data).state

  def weights(self):
    model = self._process.get_model_weights(self._state)
    return [np.asarray(w) for w in model.trainable]


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


class VaryingCohorts(Rounds):
  """Rounds of FedAvg with cohorts of varying clients, size and examples."""

  def __init__(self, workload: workloads.Workload, pool: int = 100):
    generator = np.random.default_rng(2)
    clients = [
        client_data.dense(i, *workload.examples(generator, int(size)))
        for i, size in enumerate(generator.integers(
            workload.num_examples // 2, workload.num_examples * 3 // 2, pool
        ))
    ]
    super().__init__(_process(workload), clients)
    self._generator, self._most = generator, 2 * workload.num_clients

  def play(self) -> None:
    size = self._generator.integers(1, self._most + 1)
    chosen = self._generator.choice(len(self._data), size, replace=False)
    self._run([self._data[client] for client in chosen])


class Sums:
  """Sums short vectors of many clients, to measure the cost per client."""

  def __init__(self, num_clients: int, is_ragged: bool):
    """Draws the vectors, of 5 entries or of 3 to 7."""
    generator = np.random.default_rng(3)
    sizes = [5] * num_clients
    if is_ragged:
      sizes = generator.integers(3, 8, num_clients).tolist()
    self._vectors = [np.ones([size], np.float32) for size in sizes]
    vector = tff.TensorType(np.float32, [None])

    @tff.tensorflow.computation(vector)
    def entries(x):
      return tf.reduce_sum(x)

    @tff.federated_computation(tff.FederatedType(vector, tff.CLIENTS))
    def total(vectors):
      return tff.federated_sum(tff.federated_map(entries, vectors))

    self._total = total

  def play(self) -> float:
    """Returns the sum of all entries."""
    return self._total(self._vectors)
