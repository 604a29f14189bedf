"""Measures seconds per round by strategy, the basis of `auto`'s rule.

    python -m binaries.runtime_benchmark.strategies [W1 W3]

Without names: cohorts of small clients, gradient steps on a linear model.
"""

import collections
import sys

import numpy as np
import tensorflow as tf

from binaries.speed import harness
from binaries.speed import processes
from binaries.speed import workloads
from tff_pers.runtime import fused
from tff_pers import tff

_STRATEGIES = ('loop', 'vectorized', 'measured')
_EXAMPLES_AND_FEATURES = ((10, 10), (20, 100), (100, 784))
_CLIENTS = (20, 100, 1000)
_STEPS = 20
_MOST_NUMBERS = 10**7  # Per cohort.
_ROUNDS = 7


def main() -> None:
  print('round: ' + ', '.join(f'{name} s' for name in _STRATEGIES))
  for name in sys.argv[1:]:
    _compare(name, lambda n=name: processes.build(workloads.WORKLOADS[n]).play)
  if not sys.argv[1:]:
    for clients in _CLIENTS:
      for examples, features in _EXAMPLES_AND_FEATURES:
        if clients * examples * features < _MOST_NUMBERS:
          _compare(
              f'{clients} clients of {4 * examples * features / 1000:g} KB',
              lambda c=clients, e=examples, f=features: _linear(c, e, f),
          )


def _compare(title: str, build) -> None:
  """Prints the fastest of several rounds with each strategy."""
  seconds = []
  for strategy in _STRATEGIES:
    with fused.use('cpu', strategy=strategy):
      play = build()
      rounds = [harness.timed(play).wall for _ in range(3 + _ROUNDS)]
    seconds.append(min(rounds[3:]))  # The first rounds trace and cache data.
  print(f'{title}: ' + ', '.join(f'{s:.4f}' for s in seconds), flush=True)


def _linear(num_clients: int, num_examples: int, num_features: int):
  """Returns a round of FedAvg on a linear model."""
  data_type = tff.to_type(collections.OrderedDict(
      x=tff.TensorType(np.float32, [num_examples, num_features]),
      y=tff.TensorType(np.float32, [num_examples]),
  ))
  weights_type = tff.TensorType(np.float32, [num_features])

  @tff.tensorflow.computation(weights_type, data_type)
  def train(weights, data):
    def step(k, w):
      residual = tf.linalg.matvec(data['x'], w) - data['y']
      gradient = tf.linalg.matvec(data['x'], residual, transpose_a=True)
      return k + 1, w - 0.01 * gradient
    return tf.while_loop(lambda k, _: k < _STEPS, step, (0, weights))[1]

  @tff.federated_computation(
      tff.FederatedType(weights_type, tff.SERVER),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def average(weights, data):
    sent = tff.federated_broadcast(weights)
    return tff.federated_mean(tff.federated_map(train, (sent, data)))

  generator = np.random.default_rng(0)
  cohort = [
      collections.OrderedDict(
          x=_constant(generator, num_examples, num_features),
          y=_constant(generator, num_examples),
      )
      for _ in range(num_clients)
  ]
  start = np.zeros([num_features], np.float32)
  return lambda: average(start, cohort)


def _constant(generator, *shape: int) -> np.ndarray:
  """Returns random numbers that the runtime may keep on its device."""
  numbers = generator.normal(size=shape).astype(np.float32)
  numbers.flags.writeable = False
  return numbers


if __name__ == '__main__':
  main()
