"""Costs of a method on a model: parameters, multiply-accumulates, bytes.

It trains nothing and reads no data. The method is built for a few clients with
a stand-in of the model, which has its weights but computes next to nothing; the
traffic that a round reports is then known in seconds, even if a round with the
model itself would take minutes.
"""

import collections
import dataclasses
import math
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tff_pers.config import methods
from tff_pers.core import interception
from tff_pers.core import process as process_lib
from tff_pers.core import structures
from tff_pers.data import client_data
from tff_pers.data import task as task_lib
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import functional
from tff_pers.models import layers
from tff_pers.models import macs
from tff_pers.numerics import low_rank
from tff_pers import tff

COLUMNS = (
    'algo', 'model', 'tier', 'parameters', 'macs', 'bytes_down', 'bytes_up'
)
LAYER_COLUMNS = ('algo', 'model', 'tier', 'layer', 'parameters', 'macs')
# The name of the whole model in the column `tier`.
WHOLE = '1'
NUM_CLIENTS = 4
# Numbers of models that need at least one more client.
_COUNTS = ('num_models', 'models', 'row_nonzeros')
# A round after all warm-ups and first stages.
LATE_ROUND = 10**6


class Traffic(NamedTuple):
  """Bytes of one round per client, means over the cohort."""

  down: float
  up: float


def build(
    method: methods.Method, hyperparameters: Any, task: task_lib.Task
) -> process_lib.PersonalizedProcess:
  """Returns the process of a method on a task, see `tiny_task`.

  Args:
    method: The method.
    hyperparameters: Its hyperparameters.
    task: The task.

  Raises:
    ValueError: If the method needs what the task lacks.
  """
  for need in methods.missing_needs(method, task.traits, hyperparameters):
    raise ValueError(
        f'{method.name} needs {need.sentence}, found the model'
        f' {task.model.name}. Tip: {need.tip}.'
    )
  return method.build(task, hyperparameters)


def rows(
    variant: str,
    process: process_lib.PersonalizedProcess,
    hyperparameters: Any,
    task: task_lib.Task,
) -> list[dict[str, Any]]:
  """Returns the rows of `cost.csv` of one method: `COLUMNS`.

  One row, of tier '1', or one for each capacity tier of the method. Parameters
  and MACs are those of the model that a client deploys, MACs of one example in
  the forward pass (None if they cannot be counted). Bytes are per client and
  round, after all warm-ups, as the round itself reports them.

  Args:
    variant: The name of the rows.
    process: The method's process, see `build`.
    hyperparameters: Its hyperparameters.
    task: See `tiny_task`.
  """
  sent = traffic(process, task, LATE_ROUND)
  deployed = models(process)
  clients = _clients(deployed, hyperparameters, task)
  return [
      dict(
          algo=variant, model=task.model.name, tier=tier,
          parameters=model.num_parameters, macs=count_macs(model),
          bytes_down=round(sent[client].down), bytes_up=round(sent[client].up),
      )
      for (tier, model), client in zip(deployed.items(), clients)
  ]


def layer_rows(
    variant: str, process: process_lib.PersonalizedProcess, task: task_lib.Task
) -> list[dict[str, Any]]:
  """Returns the rows of `layers.csv` of one method: `LAYER_COLUMNS`.

  Args:
    variant: See `rows`, also for what follows.
    process: The method's process.
    task: See `tiny_task`.
  """
  found = []
  for tier, model in models(process).items():
    sizes: collections.Counter[str] = collections.Counter()
    for weight in layers.describe(model):
      sizes[weight.layer] += math.prod(weight.shape)
    counted = count_macs_by_layer(model)
    found += [
        dict(zip(LAYER_COLUMNS, (
            variant, task.model.name, tier, layer, size,
            None if counted is None else counted.get(layer, 0),
        ))) for layer, size in _with_products(sizes, counted).items()
    ]
  return found


def _with_products(sizes, counted):
  """Returns `sizes` with layer '' if activations are multiplied (attention)."""
  return {**dict.fromkeys(counted or (), 0), **sizes}


def tiny_task(
    model: functional.FunctionalModel,
    num_classes: int,
    clients: int = NUM_CLIENTS,
) -> task_lib.Task:
  """Returns a task of clients with two examples of zeros, in two groups.

  Args:
    model: The model; clients train its `stand_in`.
    num_classes: Number of labels, 0 for regression.
    clients: Their number, see `num_clients`.
  """
  shapes = (model.x_spec, model.y_spec)

  def data(index):
    return client_data.dense(index, *tf.nest.map_structure(
        lambda spec: np.zeros([2, *spec.shape[1:]], spec.dtype.as_numpy_dtype),
        shapes,
    ))

  dense = [data(index) for index in range(clients)]
  return task_lib.Task(
      name='cost', model=stand_in(model), train=dense, test=dense,
      groups=np.arange(clients, dtype=np.int32) % 2,
      num_classes=num_classes,
  )


def num_clients(hyperparameters: Any) -> int:
  """Returns the number of clients of a tiny task.

  There is at least one per tier, and one more than the models asked for.
  """
  tiers = getattr(hyperparameters, 'ratios', lambda of_task: ())
  return max(
      NUM_CLIENTS, len(tiers(task_lib.Task.rank_ratios)),
      *(getattr(hyperparameters, name, 0) + 1 for name in _COUNTS),
  )


def stand_in(model: functional.FunctionalModel) -> functional.FunctionalModel:
  """Returns a model with the same weights, which start at 0.

  It predicts the sum of its weights for any x; within `interception.computing`
  it predicts what `model` does.
  """
  spec = model.spec
  outputs = tf.function(model.predict, autograph=False).get_concrete_function(
      spec, model.x_spec, False, tf.TensorSpec([2], tf.int64)
  ).structured_outputs

  def init(seed):
    del seed  # Always the same.
    return tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), spec)

  def predict(weights, x, training, seed):
    # All weights take part, so that their gradients exist.
    total = tf.add_n([tf.reduce_sum(leaf) for leaf in _tensors(weights)])
    constant = tf.nest.map_structure(
        lambda spec: tf.fill(
            [structures.num_rows(x), *spec.shape[1:]],
            tf.cast(total, spec.dtype),
        ), outputs,
    )
    return interception.changed(
        'prediction', constant,
        lambda: model.predict(weights, x, training, seed),
    )

  return dataclasses.replace(model, init=init, predict=predict)


def count_macs(model: functional.FunctionalModel) -> Optional[int]:
  """Returns the MACs of a forward pass of one example, or None."""
  counted = count_macs_by_layer(model)
  return None if counted is None else sum(counted.values())


def count_macs_by_layer(
    model: functional.FunctionalModel
) -> Optional[dict[str, int]]:
  """Returns the MACs of each layer, see `macs.count`, or None."""
  with interception.computing():
    try:
      return macs.count(model)
    except ValueError:
      return None


def traffic(
    process: process_lib.PersonalizedProcess,
    task: task_lib.Task,
    round_num: int = 0,
) -> list[Traffic]:
  """Returns what each client receives and sends, as reported by the round.

  Only the inputs of the traffic metrics are computed, if the runtime prunes
  unused results, as the fused one does. All clients take part.

  Args:
    process: The method on the task.
    task: The task.
    round_num: The round; otherwise the server state is the initial one.
  """
  if process.parts is None:
    return _traffic_of_next(process, task, round_num)
  work = process.parts.work
  message_type, client_type, _ = (
      placed.member for placed in work.type_signature.parameter
  )

  @tff.tensorflow.computation(work.type_signature.result.member)
  def pick(output):
    return output['metrics']['bytes_down'], output['metrics']['bytes_up']

  @tff.federated_computation(*work.type_signature.parameter)
  def work_traffic(messages, client_states, data):
    return tff.federated_map(pick, work(messages, client_states, data))

  # Traffic does not depend on the values of weights, so no round has to be
  # dispatched.
  message = {**_zeros(message_type), 'round': np.int32(round_num)}
  states = [_zeros(client_type)] * task.num_clients
  sent = work_traffic([message] * task.num_clients, states, list(task.train))
  return [Traffic(*map(float, pair)) for pair in sent]


def _traffic_of_next(process, task, round_num: int) -> list[Traffic]:
  """Returns mean traffic for a method with its own `next`."""

  @tff.tensorflow.computation(
      process.next.type_signature.result['metrics'].member
  )
  def pick(metrics):
    return metrics['bytes_down'], metrics['bytes_up']

  @tff.federated_computation(*process.next.type_signature.parameter)
  def next_traffic(state, client_states, data):
    return tff.federated_map(
        pick, process.next(state, client_states, data).metrics
    )

  state = process.initialize_seeded(0)
  states = [
      process.initialize_client(state, index)
      for index in range(task.num_clients)
  ]
  state['round'] = np.int32(round_num)
  sent = next_traffic(state, states, list(task.train))
  return [Traffic(*map(float, sent))] * task.num_clients


def _zeros(types):
  """Returns a value of the types: zeros."""
  if isinstance(types, tff.StructType):
    members = [_zeros(member) for member in types]
    names = tff.structure.name_list(types)
    return (
        collections.OrderedDict(zip(names, members)) if names
        else tuple(members)
    )
  return np.zeros(types.shape, types.dtype)


def models(
    process: process_lib.PersonalizedProcess,
) -> dict[str, functional.FunctionalModel]:
  """Returns the models that clients deploy, by capacity tier.

  A method without tiers has one model, of tier '1'.
  """
  if set(process.tiers) <= {WHOLE}:
    return {WHOLE: process.deployed}
  return {name: tier.model for name, tier in process.tiers.items()}


def macs_of_clients(
    process: process_lib.PersonalizedProcess, hyperparameters: Any,
    task: task_lib.Task,
) -> Optional[list[float]]:
  """Returns the MACs of each client's model, their mean if tiers are drawn.

  None if those of a model cannot be counted.
  """
  counts = {}
  for name, model in models(process).items():
    count = count_macs(model)
    if count is None:
      return None
    counts[name] = float(count)
  if len(counts) == 1 or task.tier_assignment == 'dynamic':
    return [float(np.mean(list(counts.values())))] * task.num_clients
  return [counts[name] for name in _tiers(hyperparameters, task)]


def _clients(names, hyperparameters, task) -> list[int]:
  """Returns a client of each tier."""
  if len(names) == 1:
    return [0]
  tiers = _tiers(hyperparameters, task)
  return [tiers.index(name) for name in names]


def _tiers(hyperparameters, task) -> list[str]:
  """Returns the tier of each client that trains, if tiers are fixed."""
  ratios, dealt = hyperparameters.ratios(task.rank_ratios), task.tiers
  if dealt is None:
    dealt = tier_assignment.fixed(task.num_clients, len(ratios))
  return [f'{ratios[k]:g}' for k in dealt[:task.num_clients]]


def _tensors(weights) -> list[Any]:
  """Returns all tensors in weights, including those of unformed products."""
  tensors = []
  for leaf in tf.nest.flatten(weights):
    is_sum = isinstance(leaf, low_rank.UpdatedMatrix)
    tensors += [leaf.matrix, leaf.v, leaf.u] if is_sum else [leaf]
  return tensors
