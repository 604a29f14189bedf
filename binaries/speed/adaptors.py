"""Compares a local step of FLoRAL to one of the model without adaptors.

The models, batches and minibatches of W1 and W2 of `benchmark_runtime`; 4
adaptors, each of 1 % and of 10 % of the model. One process measures all calls
in turn, so that machine load affects all of them alike. Seconds are medians; a
ratio is the median of the ratios within a turn; CPU seconds sum over threads.

  python -m binaries.benchmark_adaptors --repetitions=15
"""

import collections
import os
import statistics
import time
from typing import Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app  # pylint: disable=g-import-not-at-top
from absl import flags
import tensorflow as tf

from binaries.speed.runtime_benchmark import workloads
from tff_pers.client_works import local_sgd
from tff_pers.client_works import router_training
from tff_pers.core import random
from tff_pers.models import adaptors

_REPETITIONS = flags.DEFINE_integer(
    'repetitions', 15, 'Number of measured turns.', lower_bound=1
)
_EPOCHS = flags.DEFINE_integer(
    'epochs', 8, 'Local epochs per measurement.', lower_bound=1
)
_PREDICTIONS = 50  # Per measurement.
_ADAPTORS = 4
_BUDGETS = (0.01, 0.1)
_RATE = workloads.LEARNING_RATE
_RATES = router_training.Rates(base=_RATE, adaptors=_RATE, router=_RATE)


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'No positional arguments, found {argv[1]!r}.')
  print(
      '| workload | call | operations | wall ms | CPU ms | wall vs plain |'
      ' CPU vs plain |'
  )
  print('|---|---|---|---|---|---|---|')
  for name in ('W1', 'W2'):
    workload = workloads.WORKLOADS[name]
    model = workload.model()
    adapted = {
        f'{budget:.0%}': adaptors.floral(model, _ADAPTORS, budget)
        for budget in _BUDGETS
    }
    data = tf.nest.map_structure(tf.constant, workloads.clients(workload)[0])
    num_steps = (
        _EPOCHS.value * workload.num_examples // workload.batch_size
    )
    _print(name, _measure(_steps(workload, model, adapted, data)), num_steps)
    x = data['examples']['x'][:workload.batch_size]
    _print(name, _measure(_inference(model, adapted, x)), _PREDICTIONS)


def _steps(workload, model, adapted, data):
  """Returns (function, argument) for each way to take local steps."""
  budget = dict(batch_size=workload.batch_size, num_epochs=_EPOCHS.value)
  base = model.initial_weights(0)

  @tf.function
  def plain(weights):
    return local_sgd.train(
        model, weights, data, learning_rate=_RATE, seed=random.key(0), **budget
    )

  calls = collections.OrderedDict({'plain step': (plain, base)})
  for size, one in adapted.items():
    weights = collections.OrderedDict(
        adaptors=one.initial_adaptors(0), base=base
    )
    calls[f'FLoRAL step, {size}'] = (_floral(one, data, budget), weights)
  return calls


def _floral(adapted, data, budget):
  """Returns local training of router, base and adaptors."""

  @tf.function
  def train(weights):
    return router_training.train(
        adapted, tf.zeros([_ADAPTORS]), weights, data, rates=_RATES,
        seed=random.key(0), mix=router_training.build_softmax_mix(), **budget
    )

  return train


def _inference(model, adapted, x):
  """Returns (function, argument) for each way to predict a batch."""

  def build(predicting):
    @tf.function
    def predict(weights):
      return predicting.predict(weights, x, False, random.key(0))
    def repeat(weights):
      for _ in range(_PREDICTIONS):
        predictions = predict(weights)
      return predictions
    # `_measure` counts operations in this graph: those of one prediction.
    setattr(repeat, 'get_concrete_function', predict.get_concrete_function)
    return repeat

  calls = collections.OrderedDict(
      {'plain inference': (build(model), model.initial_weights(0))}
  )
  for size, one in adapted.items():
    as_model = one.as_model()
    weights = as_model.initial_weights(0)
    merged = one.merge(weights, weights['router'])
    calls[f'merged inference, {size}'] = (build(model), merged)
    calls[f'inference not merged, {size}'] = (build(as_model), weights)
  return calls


def _measure(calls):
  """Returns (operations, [(wall, CPU) seconds per turn]) by call."""
  operations, turns = {}, collections.defaultdict(list)
  for name, (function, argument) in calls.items():
    definition = function.get_concrete_function(argument).graph.as_graph_def()
    operations[name] = len(definition.node) + sum(
        len(inner.node_def) for inner in definition.library.function
    )
    _wait(function(argument))  # Compiles.
  # All calls in turn, so that a change in the machine's load affects all of
  # them and cancels in the ratios.
  for _ in range(_REPETITIONS.value):
    for name, (function, argument) in calls.items():
      start, start_cpu = time.perf_counter(), time.process_time()
      _wait(function(argument))
      turns[name].append(
          (time.perf_counter() - start, time.process_time() - start_cpu)
      )
  return {name: (operations[name], turns[name]) for name in calls}


def _wait(result):
  """Waits for all tensors of a result."""
  for tensor in tf.nest.flatten(result):
    tensor.numpy()


def _print(workload, measured, count):
  """Prints a row per call, which made `count` steps or predictions."""
  _, plain = next(iter(measured.values()))  # The first one.
  for name, (operations, turns) in measured.items():
    milliseconds = [
        1e3 * statistics.median(column) / count for column in zip(*turns)
    ]
    ratios = [
        statistics.median(own[i] / base[i] for own, base in zip(turns, plain))
        for i in range(2)
    ]
    print(
        f'| {workload} | {name} | {operations} | {milliseconds[0]:.3f} |'
        f' {milliseconds[1]:.3f} | {ratios[0]:.2f} | {ratios[1]:.2f} |',
        flush=True,
    )


def run() -> None:
  app.run(main)


if __name__ == '__main__':
  run()
