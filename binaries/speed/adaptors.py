"""Compares a local step of FLoRAL to one of the model without adaptors.

    python -m binaries.benchmark_adaptors --repetitions=15

The models, batches and minibatches of W1 and W2 of benchmark_runtime; 4
adaptors, each of 1 % and of 10 % of the model. One process measures all calls
in turn, so that machine load affects all of them alike. Seconds are medians; a
ratio is the median of the ratios within a turn; CPU seconds sum over threads.
"""

import dataclasses
from typing import Any, Iterator

import tensorflow as tf

from binaries.speed import harness
from binaries.speed import workloads
from tff_pers.client_works import local_sgd
from tff_pers.client_works import router_training
from tff_pers.core import random
from tff_pers.experiments import flags
from tff_pers.models import adaptors

_PREDICTIONS = 50  # Per measurement.
_ADAPTORS = 4
_BUDGETS = (0.01, 0.1)
_RATE = workloads.LEARNING_RATE
_RATES = router_training.Rates(base=_RATE, adaptors=_RATE, router=_RATE)


@dataclasses.dataclass(frozen=True)
class Call:
  """A function and its argument, called `repeat` times per measurement.

  Attributes:
    function: A `tf.function`.
    argument: Its argument.
    number: Number of steps or predictions per measurement.
    repeat: Number of calls.
  """

  function: Any
  argument: Any
  number: int
  repeat: int = 1

  def __call__(self) -> None:
    for _ in range(self.repeat):
      result = self.function(self.argument)
    for tensor in tf.nest.flatten(result):
      tensor.numpy()  # Waits.

  def operations(self) -> int:
    """Returns the operations of the graph, after a call that compiles it."""
    self()
    traced = self.function.get_concrete_function(self.argument)
    definition = traced.graph.as_graph_def()
    return len(definition.node) + sum(
        len(inner.node_def) for inner in definition.library.function
    )


def _run(given: dict[str, Any]) -> None:
  harness.print_header(
      'workload', 'call', 'operations', 'wall ms', 'CPU ms', 'wall vs plain',
      'CPU vs plain',
  )
  for name in ('W1', 'W2'):
    for calls in groups(name, given['epochs']):
      operations = {call: own.operations() for call, own in calls.items()}
      costs = harness.in_turn(calls, given['repetitions'])
      plain = next(iter(costs.values()))  # The first one.
      for call, own in costs.items():
        seconds, ratio = harness.median(own), harness.median_ratio(own, plain)
        number = calls[call].number
        harness.print_row(
            name, call, operations[call], f'{1e3 * seconds.wall / number:.3f}',
            f'{1e3 * seconds.cpu / number:.3f}', f'{ratio.wall:.2f}',
            f'{ratio.cpu:.2f}',
        )


def groups(name: str, num_epochs: int) -> Iterator[dict[str, Call]]:
  """Yields the local steps on a workload by name, then the predictions."""
  workload = workloads.WORKLOADS[name]
  model = workload.model()
  adapted = {
      f'{budget:.0%}': adaptors.floral(model, _ADAPTORS, budget)
      for budget in _BUDGETS
  }
  data = tf.nest.map_structure(tf.constant, workloads.clients(workload)[0])
  yield _steps(workload, model, adapted, data, num_epochs)
  x = data['examples']['x'][:workload.batch_size]
  yield _predictions(model, adapted, x)


def _steps(workload, model, adapted, data, num_epochs) -> dict[str, Call]:
  """Returns the ways to take local steps."""
  budget = dict(batch_size=workload.batch_size, num_epochs=num_epochs)
  count = num_epochs * workload.num_examples // workload.batch_size
  base = model.initial_weights(0)

  def floral(one):
    return tf.function(lambda weights: router_training.train(
        one, tf.zeros([_ADAPTORS]), weights, data, rates=_RATES,
        seed=random.key(0), mix=router_training.build_softmax_mix(), **budget
    ))

  plain = tf.function(lambda weights: local_sgd.train(
      model, weights, data, learning_rate=_RATE, seed=random.key(0), **budget
  ))
  calls = {'plain step': Call(plain, base, count)}
  for size, one in adapted.items():
    weights = dict(adaptors=one.initial_adaptors(0), base=base)
    calls[f'FLoRAL step, {size}'] = Call(floral(one), weights, count)
  return calls


def _predictions(model, adapted, x) -> dict[str, Call]:
  """Returns the ways to predict a batch."""
  def call(predicting, weights):
    function = tf.function(
        lambda weights: predicting.predict(weights, x, False, random.key(0))
    )
    return Call(function, weights, _PREDICTIONS, repeat=_PREDICTIONS)

  calls = {'plain inference': call(model, model.initial_weights(0))}
  for size, one in adapted.items():
    weights = one.as_model().initial_weights(0)
    merged = one.merge(weights, weights['router'])
    calls[f'merged inference, {size}'] = call(model, merged)
    calls[f'inference not merged, {size}'] = call(one.as_model(), weights)
  return calls


main = flags.Program(
    'benchmark_adaptors', __doc__, _run,
    flags.own_flag('repetitions', 15, 'Number of measured turns.', minimum=1),
    flags.own_flag('epochs', 8, 'Local epochs per measurement.', minimum=1),
)
