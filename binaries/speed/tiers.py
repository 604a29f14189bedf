"""Local steps of FedHM's tiers, and the server's decompositions."""

import math
import statistics
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf

from binaries.speed import harness
from tff_pers.client_works import frobenius_decay
from tff_pers.client_works import local_sgd
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import tiered_model
from tff_pers.models import zoo

CLIENTS = 10  # Of a round.
_BATCH = 64
_STEPS_OF_A_CLIENT = math.ceil(2500 / _BATCH)
# Shape of x, rank ratios, steps per measurement.
SETTINGS = {
    'resnet18': ((32, 32, 3), (1.0, 0.5, 0.25, 0.125), 1),
    'mlp': ((784,), (1.0, 0.25, 0.125, 0.0625), 200),
}
_SERVER = 'decompose'

Calls = dict[Any, Callable[[], Any]]


def build(name: str) -> tuple[tiered_model.TieredModel, int, Calls]:
  """Returns a model of `SETTINGS`, its steps per measurement, and the calls.

  The calls take the steps of a tier, by its ratio, or decompose the model; they
  have been compiled.
  """
  shape, ratios, num_steps = SETTINGS[name]
  model = zoo.build(name, tf.TensorSpec([None, *shape], tf.float32), 10)
  tiered = tiered_model.TieredModel(model, ratios)
  server = tf.function(tiered.decompose)
  weights = model.initial_weights(0)
  calls: Calls = {
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


def of_a_round(
    costs: Mapping[Any, Sequence[harness.Cost]], ratios: Sequence[float],
    num_steps: int,
) -> tuple[float, float, float]:
  """Returns CPU seconds of the server and of all clients; the server's share.

  Args:
    costs: Of the calls, in every turn.
    ratios: Those of the tiers, which have equally many clients.
    num_steps: Steps per measurement.
  """
  server = [turn.cpu for turn in costs[_SERVER]]
  clients = [
      CLIENTS * _STEPS_OF_A_CLIENT / num_steps
      * statistics.mean(cost.cpu for cost in turn)
      for turn in zip(*(costs[ratio] for ratio in ratios))
  ]
  share = statistics.median(s / (s + c) for s, c in zip(server, clients))
  return statistics.median(server), statistics.median(clients), share
