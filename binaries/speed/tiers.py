"""Compares a local step of each FedHM tier to one of the full model.

Measures ResNet-18 on 32x32 images at the ratios 1, 1/2, 1/4, 1/8, and an MLP at
1, 1/4, 1/8, 1/16. Also measures the server's decompositions per round, relative
to a round of 10 clients of these tiers with 2,500 examples each, 1 epoch,
batches of 64 (measured steps times their number). One process measures all
calls in turn, so that machine load affects all alike. CPU seconds sum over
threads, medians over turns; a ratio is the median of those within a turn.

  python -m binaries.benchmark_tiers --repetitions=5
"""

import math
import os
import statistics
import time
from typing import Any, Callable, Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app  # pylint: disable=g-import-not-at-top
from absl import flags
import tensorflow as tf

from tff_pers.client_works import frobenius_decay
from tff_pers.client_works import local_sgd
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import macs
from tff_pers.models import tiers
from tff_pers.models import zoo

_REPETITIONS = flags.DEFINE_integer(
    'repetitions', 5, 'Number of measured turns.', lower_bound=1
)
_MODELS = flags.DEFINE_list(
    'models', ['resnet18', 'mlp'], 'Models to measure.'
)
_BATCH = 64
_STEPS_OF_A_CLIENT, _CLIENTS = math.ceil(2500 / _BATCH), 10
# Shape of x, rank ratios, steps per measurement.
_SETTINGS = {
    'resnet18': ((32, 32, 3), (1.0, 0.5, 0.25, 0.125), 1),
    'mlp': ((784,), (1.0, 0.25, 0.125, 0.0625), 200),
}


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'No positional arguments, found {argv[1]!r}.')
  for name in _MODELS.value:
    if name not in _SETTINGS:
      raise app.UsageError(
          f'`--models` must be of {", ".join(_SETTINGS)}, found {name!r}.'
      )
  print(
      '| model | ratio | parameters | MACs of an example | CPU ms of a step |'
      ' parameters vs 1 | MACs vs 1 | CPU vs 1 |'
  )
  print('|---|---|---|---|---|---|---|---|')
  for name in _MODELS.value:
    shape, ratios, num_steps = _SETTINGS[name]
    model = zoo.build(name, tf.TensorSpec([None, *shape], tf.float32), 10)
    tiered = tiers.TieredModel(model, ratios)
    server = tf.function(tiered.decompose)
    weights = model.initial_weights(0)
    calls: dict[Any, Callable[[], Any]] = {
        **{ratio: _steps(tiered, k, weights, shape, num_steps)
           for k, ratio in enumerate(ratios)},
        'decompose': lambda: server(weights, random.key(0)),
    }
    _print(name, tiered, _measure(calls), num_steps)


def _steps(tiered, tier: int, weights, shape, num_steps: int):
  """Returns a function that takes local steps of a tier on one batch."""
  generator = tf.random.Generator.from_seed(0)
  data = tf.nest.map_structure(tf.constant, client_data.dense(
      0, generator.normal([_BATCH, *shape]).numpy(),
      generator.uniform([_BATCH], 0, 10, tf.int32).numpy(),
  ))
  own = tiered.tiers[tier].factorized(weights, random.key(0))
  local = frobenius_decay.FactorizedStep(
      momentum=0.9, weight_decay=1e-4, frobenius_decay=1e-4
  )
  return tf.function(lambda: local_sgd.train(
      tiered.tiers[tier].model, own, data, learning_rate=0.01,
      seed=tf.zeros([2], tf.int64), local=local, batch_size=_BATCH,
      num_steps=num_steps,
  ))


def _measure(calls):
  """Returns the CPU seconds of each call in every turn."""
  for call in calls.values():
    call()  # Traced and warm.
  seconds: dict[Any, list[float]] = {name: [] for name in calls}
  for _ in range(_REPETITIONS.value):
    for name, call in calls.items():
      start = time.process_time()
      call()
      seconds[name].append(time.process_time() - start)
  return seconds


def _print(name: str, tiered, seconds, num_steps: int) -> None:
  full, counts = seconds[tiered.ratios[0]], []
  for tier, ratio in zip(tiered.tiers, tiered.ratios):
    counts.append((tier.num_parameters, macs.total(tier.model)))
    (parameters, products), own = counts[-1], seconds[ratio]
    against = statistics.median(a / b for a, b in zip(own, full))
    print(
        f'| {name} | {ratio:g} | {parameters} | {products} |'
        f' {1000 * statistics.median(own) / num_steps:.3g} |'
        f' {parameters / counts[0][0]:.3f} | {products / counts[0][1]:.3f} |'
        f' {against:.3f} |'
    )
  of_clients = [
      _CLIENTS * _STEPS_OF_A_CLIENT / num_steps * statistics.mean(turn)
      for turn in zip(*(seconds[ratio] for ratio in tiered.ratios))
  ]
  share = statistics.median(
      server / (server + clients)
      for server, clients in zip(seconds['decompose'], of_clients)
  )
  print(
      f'\n{name}: the decompositions of a round take'
      f' {statistics.median(seconds["decompose"]):.3g} CPU seconds, the steps'
      f' of {_CLIENTS} clients {statistics.median(of_clients):.4g}: a share of'
      f' {share:.2%}.\n'
  )


def run() -> None:
  app.run(main)


if __name__ == '__main__':
  run()
