"""A tiny task, and hyperparameters that make every method small."""

import dataclasses
from typing import Any, Sequence

import numpy as np
import tensorflow as tf

import baselines  # pylint: disable=unused-import  Registers its methods.
from tff_pers import algorithms  # pylint: disable=unused-import  As above.
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data import client_data
from tff_pers.data import task as task_lib
from tff_pers.models import functional
from tff_pers.models import zoo
from tff_pers.testing import margins

SMALL = dict(batch_size=4, learning_rate=0.1, local_epochs=0, local_steps=3)
# The second round already has visits; every round fills the buffer.
OVERRIDES = {'perm': dict(warmup_rounds=1), 'fedbuff': dict(buffer_size=4)}
SIZES = (5, 12, 7, 9)
# Ten times the difference of float32 weights that the contracts allow.
MARGIN = 1e-5


def clients(sizes: Sequence[int], seed: int) -> Any:
  """Returns two groups of two clients; labels are signs of a coordinate."""
  rng = np.random.default_rng(seed)
  made = []
  for i, size in enumerate(sizes):
    x = rng.normal(size=[size, 3]).astype(np.float32)
    made.append(
        client_data.dense(i, x, (x[:, i // 2] > 0).astype(np.int32))
    )
  return made


def with_margin(model: functional.FunctionalModel) -> Any:
  """Returns the model, which also reports how many examples are close."""
  def is_close(y, logits):
    del y  # Unused.
    return margins.is_close(logits, MARGIN)

  return dataclasses.replace(
      model, metrics=dict(model.metrics, is_close=is_close)
  )


def task(**fields: Any) -> 'Watched':
  """Returns the task: a network of two layers, four clients."""
  return Watched(
      name='tiny',
      model=with_margin(zoo.build('mlp_20', tf.TensorSpec([None, 3]), 2)),
      train=clients(SIZES, seed=0),
      test=clients((4, 3, 6, 5), seed=1),
      groups=np.array([0, 0, 1, 1], np.int32),
      num_classes=2,
      **fields,
  )


def wide_task(**fields: Any) -> 'Watched':
  """Returns the task with 16 features, more than the examples.

  Local SGD then holds the first kernel as factors, see `kernel_factors`.
  """
  narrow = task(**fields)
  return dataclasses.replace(
      narrow,
      model=with_margin(zoo.build('mlp_20', tf.TensorSpec([None, 16]), 2)),
      train=[_widened(data) for data in narrow.train],
      test=[_widened(data) for data in narrow.test],
  )


def _widened(data):
  """Returns dense data with 13 additional noise features."""
  x = data['examples']['x']
  noise = np.random.default_rng(int(data['index'])).normal(size=[len(x), 13])
  return client_data.dense(
      int(data['index']), np.concatenate([x, noise.astype(np.float32)], axis=1),
      data['examples']['y'],
  )


class Watched(task_lib.Task):
  """The task, which records what a builder reads.

  Attributes:
    asked: Whether the participation was read.
    weighed: Whether the clients' weighting was read.
  """

  asked = False
  weighed = False

  def __getattribute__(self, name: str) -> Any:
    if name == 'client_weighting':
      object.__setattr__(self, 'weighed', True)  # A task is frozen.
    return super().__getattribute__(name)

  @property
  def full_participation(self) -> bool:
    object.__setattr__(self, 'asked', True)
    return super().full_participation


def build(name: str, on_task: task_lib.Task, **values: Any) -> Any:
  """Returns the process of the method of that name.

  Args:
    name: The method.
    on_task: The task.
    **values: Hyperparameters besides those that make it small.
  """
  method = methods.get(name)
  if 'batch_norm' in method.needs:
    # In place, because the task records what is read.
    object.__setattr__(on_task, 'model', with_margin(
        zoo.build('mlp_bn', on_task.model.x_spec, 2)
    ))
  known = hp.as_dict(method.hyperparameters())
  small = {key: value for key, value in SMALL.items() if key in known}
  hyperparameters = hp.replace(
      method.hyperparameters(), **{**small, **OVERRIDES.get(name, {}), **values}
  )
  return method.build(on_task, hyperparameters)
