"""Measures what moves between host and GPU in a round; needs no GPU.

    python -m binaries.speed.gpu_edges NAME

A second logical CPU acts as the GPU, and `memories` reads the traces. Prints a
row as JSON, for `gpu_check`.
"""

import dataclasses
import json
import sys
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from binaries.speed import gpu_check_child
from tff_pers.data import client_data
from tff_pers.models import keras
from tff_pers.models import zoo
from tff_pers.runtime.fused import choices as choices_lib
from tff_pers.runtime.fused import compiled
from tff_pers.runtime.fused.values import arguments
from tff_pers.testing import memories
from tff_pers.testing import rounds
from tff_pers.testing import tiny

COLUMNS = (
    'name', 'vectorized', 'stages', 'edges_up', 'edges_down', 'repeated_up',
    'repeated_down', 'new_up', 'new_down', 'without_kernel',
)
_PLAYER = 'CPU:1'
_POPULATION, _COHORT, _EXAMPLES, _CLASSES = 12, 6, 24, 10
_TOKENS, _LENGTH = 20, 8


def _mlp():
  """12 KB of weights."""
  return zoo.build('mlp_50', tf.TensorSpec([None, 48]), _CLASSES)


def _cnn():
  return zoo.build('emnist_cnn', tf.TensorSpec([None, 12, 12]), _CLASSES)


def _lstm():
  layers = tf.keras.layers
  return keras.from_keras(
      lambda: tf.keras.Sequential([
          layers.InputLayer([_LENGTH], dtype=tf.int32),
          layers.Embedding(_TOKENS, 8), layers.LSTM(16, return_sequences=True),
          layers.Dense(_TOKENS),
      ]),
      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      y_spec=tf.TensorSpec([None, _LENGTH], tf.int32), metrics={},
  )


CASES: dict[str, tuple[str, Callable[[], Any]]] = {
    'PERM': ('perm', _mlp), 'FLoRAL': ('floral', _mlp),
    'FedAvg, MLP': ('fedavg', _mlp), 'FedAvg, CNN': ('fedavg', _cnn),
    'FedAvg, LSTM': ('fedavg', _lstm), 'Ditto': ('ditto', _mlp),
    'FFGG': ('ffgg', _mlp),
}


def main() -> None:
  [name] = sys.argv[1:]
  choices = choices_lib.Choices()
  gpu_check_child.use(gpu_check_child.STAND_IN, choices)
  print(json.dumps(dict(measure(*CASES[name]), name=name)))


def measure(method: str, make_model: Callable[[], Any]) -> dict[str, Any]:
  """Returns the row of a method's later rounds on the stand-in device."""
  task = _task(make_model())
  process = tiny.build(method, task)
  watch = _Watch()
  snapshot = rounds.Snapshot(process.initialize_seeded(rounds.SEED), {})
  half = _COHORT // 2
  # Two cohorts, three times each; then a cohort that mixes both.
  seen = {}
  for first in (0, _COHORT, 0, _COHORT, 0, _COHORT, half):
    snapshot, _ = rounds.play(
        process, snapshot, range(first, first + _COHORT), task.train
    )
    name = 'new' if first == half else 'repeated'
    seen[f'{name}_up'], seen[f'{name}_down'] = watch.num_bytes()
  schedules, moves = watch.trace.schedules, watch.moves()
  return dict(
      seen, stages=len(schedules),
      vectorized=sum(each.strategy == 'vectorized' for each in schedules),
      edges_up=moves.up, edges_down=moves.down,
      without_kernel=', '.join(sorted(moves.without_kernel)),
  )


def _task(model) -> tiny.Watched:
  """Returns a task of clients of one size."""
  rng = np.random.default_rng(0)

  def client(index):
    x, y = (
        _drawn(rng, spec) for spec in (model.x_spec, model.y_spec)
    )
    return client_data.dense(index, x, y)

  return dataclasses.replace(
      tiny.task(), model=model, num_classes=_CLASSES,
      train=[client(i) for i in range(_POPULATION)],
      test=[client(i) for i in range(_POPULATION)],
      groups=np.arange(_POPULATION, dtype=np.int32) % 2,
      clients_per_round=_COHORT,
  )


def _drawn(rng, spec):
  shape = [_EXAMPLES, *spec.shape[1:]]
  if spec.dtype.is_integer:
    return rng.integers(0, _CLASSES, shape).astype(np.int32)
  return rng.normal(size=shape).astype(np.float32)


class _Watch:
  """Records what the last call of a computation sent to and fetched.

  Attributes:
    trace: The trace that was called.
  """

  def __init__(self):
    self.trace: Any = None
    self._sent: list[int] = []
    self._tensors: Any = ()
    self._outputs: Any = ()
    self._moves: dict[int, Any] = {}
    # pylint: disable=protected-access
    run, call = compiled.Compiled._run, compiled.Compiled._call
    send = arguments.Converter._tensor
    # pylint: enable=protected-access

    def calling(owner, argument):
      self._sent = []
      return call(owner, argument)

    def sending(owner, array, on_host=False):
      tensor = send(owner, array, on_host)
      self._sent.append(0 if on_host else _num_bytes(tensor))
      return tensor

    def running(owner, layout, has_clients, tensors):
      outputs, result = run(owner, layout, has_clients, tensors)
      # pylint: disable-next=protected-access
      self.trace = owner._traces[layout, has_clients]
      self._tensors, self._outputs = tensors, outputs
      return outputs, result

    setattr(compiled.Compiled, '_call', calling)
    setattr(arguments.Converter, '_tensor', sending)
    setattr(compiled.Compiled, '_run', running)

  def moves(self) -> memories.Moves:
    """Returns the moves within the trace."""
    key = id(self.trace.function)
    if key not in self._moves:
      self._moves[key] = memories.count(self.trace.function, _PLAYER)
    return self._moves[key]

  def num_bytes(self) -> tuple[int, int]:
    """Returns the bytes moved to the device and back."""
    # Arguments that stay on the host are sent in every call.
    waiting = [self._tensors[k] for k in self.moves().arguments_up]
    up = sum(self._sent) + sum(t.numpy().nbytes for t in waiting)
    return up, sum(map(_num_bytes, self._outputs))


def _num_bytes(tensor) -> int:
  """Returns the bytes of a tensor if a GPU would hold it, else 0."""
  on_host = tensor.dtype in (tf.int32, tf.string)
  return 0 if on_host else tensor.numpy().nbytes


if __name__ == '__main__':
  main()
