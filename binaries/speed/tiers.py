"""Compares a local step of each FedHM tier to one of the full model.

    python -m binaries.benchmark_tiers --repetitions=5

Measures ResNet-18 on 32x32 images at the ratios 1, 1/2, 1/4, 1/8, and an MLP at
1, 1/4, 1/8, 1/16. Also measures the server's decompositions per round, relative
to a round of 10 clients of these tiers with 2,500 examples each, 1 epoch,
batches of 64 (measured steps times their number). One process measures all
calls in turn, so that machine load affects all alike. CPU seconds sum over
threads, medians over turns; a ratio is the median of those within a turn.
"""

import math
import statistics
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf

from binaries.speed import harness
from tff_pers.client_works import frobenius_decay
from tff_pers.client_works import local_sgd
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.experiments import flags
from tff_pers.models import macs
from tff_pers.models import tiered_model
from tff_pers.models import zoo

_CLIENTS = 10  # Of a round.
_BATCH = 64
_STEPS_OF_A_CLIENT = math.ceil(2500 / _BATCH)
# Shape of x, rank ratios, steps per measurement.
SETTINGS = {
    'resnet18': ((32, 32, 3), (1.0, 0.5, 0.25, 0.125), 1),
    'mlp': ((784,), (1.0, 0.25, 0.125, 0.0625), 200),
}
_SERVER = 'decompose'

_Calls = dict[Any, Callable[[], Any]]


def _run(given: dict[str, Any]) -> None:
  names = flags.chosen('models', given['models'], list(SETTINGS))
  harness.print_header(
      'model', 'ratio', 'parameters', 'MACs of an example', 'CPU ms of a step',
      'parameters vs 1', 'MACs vs 1', 'CPU vs 1',
  )
  for name in names:
    tiered, num_steps, calls = _build(name)
    costs = harness.in_turn(calls, given['repetitions'])
    full = tiered.tiers[0]
    for tier, ratio in zip(tiered.tiers, tiered.ratios):
      own, products = costs[ratio], macs.total(tier.model)
      against = harness.median_ratio(own, costs[tiered.ratios[0]]).cpu
      harness.print_row(
          name, f'{ratio:g}', tier.num_parameters, products,
          f'{1000 * harness.median(own).cpu / num_steps:.3g}',
          f'{tier.num_parameters / full.num_parameters:.3f}',
          f'{products / macs.total(full.model):.3f}', f'{against:.3f}',
      )
    server, clients, share = _of_a_round(costs, tiered.ratios, num_steps)
    print(
        f'\n{name}: the decompositions of a round take {server:.3g} CPU'
        f' seconds, the steps of {_CLIENTS} clients {clients:.4g}: a share of'
        f' {share:.2%}.\n'
    )


def _build(name: str) -> tuple[tiered_model.TieredModel, int, _Calls]:
  """Returns a model of `SETTINGS`, its steps per measurement, and the calls.

  The calls take the steps of a tier, by its ratio, or decompose the model; they
  have been compiled.
  """
  shape, ratios, num_steps = SETTINGS[name]
  model = zoo.build(name, tf.TensorSpec([None, *shape], tf.float32), 10)
  tiered = tiered_model.TieredModel(model, ratios)
  server = tf.function(tiered.decompose)
  weights = model.initial_weights(0)
  calls: _Calls = {
      ratio: _steps(tier, weights, shape, num_steps)
      for tier, ratio in zip(tiered.tiers, ratios)
  }
  calls[_SERVER] = lambda: server(weights, random.key(0))
  for call in calls.values():
    call()
  return tiered, num_steps, calls


def _steps(tier, weights, shape, num_steps: int) -> Callable[[], Any]:
  """Returns a function that takes local steps of a tier on one batch."""
  generator = tf.random.Generator.from_seed(0)
  data = tf.nest.map_structure(tf.constant, client_data.dense(
      0, generator.normal([_BATCH, *shape]).numpy(),
      generator.uniform([_BATCH], 0, 10, tf.int32).numpy(),
  ))
  own = tier.factorized(weights, random.key(0))
  local = frobenius_decay.FactorizedStep(
      momentum=0.9, weight_decay=1e-4, frobenius_decay=1e-4
  )
  return tf.function(lambda: local_sgd.train(
      tier.model, own, data, learning_rate=0.01, seed=tf.zeros([2], tf.int64),
      local=local, batch_size=_BATCH, num_steps=num_steps,
  ))


def _of_a_round(
    costs: Mapping[Any, Sequence[harness.Cost]], ratios: Sequence[float],
    num_steps: int,
) -> tuple[float, float, float]:
  """Returns CPU seconds of the server and of all clients; the server's share.

  Costs are of the calls, in every turn; ratios are those of the tiers, which
  have equally many clients; `num_steps` were taken per measurement.
  """
  server = [turn.cpu for turn in costs[_SERVER]]
  clients = [
      _CLIENTS * _STEPS_OF_A_CLIENT / num_steps
      * statistics.mean(cost.cpu for cost in turn)
      for turn in zip(*(costs[ratio] for ratio in ratios))
  ]
  share = statistics.median(s / (s + c) for s, c in zip(server, clients))
  return statistics.median(server), statistics.median(clients), share


main = flags.Program(
    'benchmark_tiers', __doc__, _run,
    flags.own_flag('repetitions', 5, 'Number of measured turns.', minimum=1),
    flags.own_flag(
        'models', ','.join(SETTINGS), 'Models to measure.'
    ),
)
