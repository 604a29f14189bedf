"""The rounds of `benchmark_round`."""

from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from baselines import fedavg
from binaries.speed import floor
from binaries.speed import harness
from binaries.speed import problems
from tff_pers.algorithms.perm import perm
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.models import zoo

EXAMPLES = 100
_FEW_MODELS = 20
_WARM_UP = 2  # The first rounds trace and compile.
_RATE, _BATCH, _STEPS = 0.05, 20, 20


class _Setting:
  """Methods by name, and the clients of their rounds.

  Attributes:
    model: The model.
    processes: The methods.
  """

  model: Any
  processes: dict[str, Any]

  def _cohorts(self) -> Iterator[list[Any]]:
    """Yields the data of the clients of a round."""
    raise NotImplementedError

  def play(self, process: Any, num_rounds: int) -> harness.Cost:
    """Returns the median cost of a round."""
    state, costs = process.initialize(), []

    def step():
      nonlocal state
      state = process.next(state, [()] * len(data), data)['state']

    for _, data in zip(range(_WARM_UP + num_rounds), self._cohorts()):
      costs.append(harness.timed(step))
    return harness.median(costs[_WARM_UP:])


class Everybody(_Setting):
  """All clients take part in each round of FedAvg and of both PERMs."""

  def __init__(self, num_clients: int):
    """Builds the methods."""
    training: dict[str, Any] = dict(
        local_steps=_STEPS, batch_size=_BATCH, learning_rate=_RATE
    )
    self.model = zoo.build('mlp', tf.TensorSpec([None, 784]), problems.CLASSES)
    self._data = problems.clients(num_clients, EXAMPLES, 784)
    self.processes = dict(fedavg=fedavg.build_fedavg(
        self.model, fedavg.FedAvgHyperparameters(**training)
    ))
    for variant in ('two_stage', 'single_loop'):
      self.processes[f'perm_{variant}'] = perm.build_perm(
          self.model, num_clients,
          problems.perm_hyperparameters(variant, **training),
      )

  def _cohorts(self):
    while True:
      yield self._data

  def tensorflow_seconds(self, name: str) -> float:
    """Returns CPU seconds of a round's client work in plain `tf.function`s."""
    weights = self.model.initial_weights(0)
    message = dict(seed=tf.constant(0, tf.int64), round=tf.constant(0))
    tensors = tf.nest.map_structure(tf.constant, self._data)

    @tf.function
    def work(client):
      seed = client_work.key(message, client)
      trained = local_sgd.train(
          self.model, weights, client, learning_rate=_RATE, seed=seed,
          batch_size=_BATCH, num_steps=_STEPS,
      )
      if name != 'perm_single_loop':
        return trained
      return trained, local_gradient.compute(
          self.model, weights, client, seed=seed
      )

    work(tensors[0])  # Traces.
    costs = [
        harness.timed(lambda: [work(client) for client in tensors])
        for _ in range(3)
    ]
    return harness.median(costs).cpu

  def mixing_seconds(self) -> float:
    """Returns CPU seconds of PERM's (b): distances, lambda, all rows of A."""
    number = len(self._data)
    vectors = tf.constant(np.random.default_rng(0).standard_normal(
        (number, self.model.num_parameters), np.float32
    ))
    update = tf.function(lambda: floor.mixing(
        tf.eye(number), vectors, tf.ones([number]), EXAMPLES,
        perm.PermHyperparameters(lambda_scale=10.0),
    ))
    update()  # Traces.
    return harness.timed(lambda: [update() for _ in range(5)]).cpu / 5


class Cohorts(_Setting):
  """A few of many clients take part in each round."""

  def __init__(self, num_clients: int, cohort_size: int):
    """Builds FedAvg, PERM with a few models, and with one for each client."""
    training: dict[str, Any] = dict(
        local_epochs=0, local_steps=5, batch_size=_BATCH, learning_rate=_RATE
    )
    self.model = zoo.build(
        'logistic_regression', tf.TensorSpec([None, 64]), problems.CLASSES
    )
    self._data, self._size = problems.clients(num_clients, 20, 64), cohort_size
    self._rng = np.random.default_rng(0)
    few = min(_FEW_MODELS, num_clients)

    def build(**values):
      return perm.build_perm(
          self.model, num_clients,
          problems.perm_hyperparameters('single_loop', **training, **values),
          full_participation=False,
      )

    self.processes = {
        'fedavg': fedavg.build_fedavg(
            self.model, fedavg.FedAvgHyperparameters(**training)
        ),
        f'perm[models={few}]': build(models=few),
        'perm': build(),
    }

  def _cohorts(self):
    while True:
      chosen = self._rng.choice(len(self._data), self._size, replace=False)
      yield [self._data[client] for client in chosen]
