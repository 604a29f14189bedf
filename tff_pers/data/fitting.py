"""Fits the features of a task to the training data of training clients."""

import dataclasses
import math
from typing import Sequence

import numpy as np
import tensorflow as tf

from tff_pers.data import client_data
from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import holdout
from tff_pers.data import task as task_lib
from tff_pers.models import target_units
from tff_pers.models import zoo

_CURVATURE = 4.0
_FAR = 100
_POWERS = 20


def fit(
    task: task_lib.Task, num_held_out: int, seed: int
) -> task_lib.Task:
  """Returns the task with `features` by its `recipe`; unchanged without one.

  The recipe is fitted to the training rows, without validation rows, of clients
  that the run does not hold out. It is then applied to all rows of all clients.

  Raises:
    ValueError: If all clients would be held out.
  """
  if task.recipe is None:
    return task
  recipe = task.recipe
  held_out = holdout.choose(
      task.num_clients, num_held_out, seed, task.client_keys
  )
  in_training = lambda clients: [
      data['examples'] for client, data in enumerate(clients)
      if client not in held_out
  ]
  rows = in_training(task.train)
  fitted = features.fit(
      [examples['x'] for examples in rows], recipe,
      None if task.num_classes else [examples['y'] for examples in rows],
  )
  def made(clients):
    return [
        client_data.dense(
            int(data['index']),
            fitted.apply(data['examples']['x'], recipe.columns),
            data['examples']['y'],
        )
        for data in clients
    ]
  train = made(task.train)
  model, shape = task.model, train[0]['examples']['x'].shape
  if list(shape[1:]) != model.x_spec.shape[1:].as_list():
    spec = tf.TensorSpec([None, *shape[1:]], tf.float32)
    model = zoo.build(model.name, spec, task.num_classes)
  if fitted.y_mean is not None:
    fitted = dataclasses.replace(fitted, x_scale=_x_scale(
        [examples['x'] for examples in in_training(train)]
    ))
    model = target_units.in_units(
        model, fitted.y_mean or 0.0, fitted.y_scale, fitted.x_scale
    )
  return dataclasses.replace(
      task, train=train, test=made(task.test),
      validation=task.validation and made(task.validation),
      model=model, recipe=None,
      features=fitted,
      about=f'{task.about} {_sentence(fitted, recipe)}'.strip(),
  )


def _x_scale(parts: Sequence[np.ndarray]) -> float:
  """Returns a divisor that makes the default rate 0.1 safe for regression.

  The mean squared error of client c, with an intercept, has curvature at most
  2 (l_c + 1), where l_c is the largest eigenvalue of x'x / n_c. If l_c <= 4 at
  all clients, the rate is at most 1 / curvature. Columns that are mostly 0 have
  large values once they are standardized, and a client at which such a column
  is constant has a large l_c: without this, every method diverges there.
  """
  found = np.array([_largest_eigenvalue(x) for x in parts])
  # Clients far beyond the others have bad data: they diverge, and are named.
  scale = math.sqrt(
      np.max(found[found <= _FAR * np.median(found)], initial=0) / _CURVATURE
  )
  # Rounded up to two digits: later ones depend on the number of cores.
  digit = 10.0 ** (math.floor(math.log10(max(scale, 1.0))) - 1)
  return max(1.0, round(math.ceil(scale / digit) * digit, 10))


def _largest_eigenvalue(x: np.ndarray) -> float:
  """Returns the largest eigenvalue of x'x / n, by the power method."""
  x = x.reshape(len(x), int(np.prod(x.shape[1:]))).astype(np.float64)
  vector = np.random.default_rng(0).standard_normal(x.shape[1])
  value = 0.0
  for _ in range(_POWERS):
    vector = x.T @ (x @ (vector / np.linalg.norm(vector))) / max(len(x), 1)
    value = float(np.linalg.norm(vector))
    if not value:
      break
  return value


def _sentence(fitted: features.Features, recipe: features.Recipe) -> str:
  """Returns a sentence about what was made of the columns."""
  scaled = (
      'scaled to mean 0 and variance 1 over the training examples'
      if fitted.standardize else 'left as they are'
  )
  width, before = len(fitted.outputs), len(recipe.columns)
  of_y = more = lost = ''
  rounded = [
      column.name for column, feature in zip(recipe.columns, fitted.features)
      if column.offset and feature.is_rounded
  ]
  if rounded and not fitted.standardize:
    lost = (
        f' Float32 rounds the differences of {errors.listed(rounded)}, which'
        ' --standardize keeps.'
    )
  if width != before:
    more = (
        f'; with texts and missing values as zeros and ones they are {width}'
        ' numbers'
    )
  if fitted.y_mean is not None:
    begin = 'So is y in training' if fitted.standardize else 'Training scales y'
    of_y = (
        f' {begin}: losses are of scaled y, predictions, MAE and RMSE are in'
        ' its units.'
    )
  if fitted.x_scale > 1:
    of_y += (
        f' The model divides features by {fitted.x_scale:g}, because at some'
        ' client they are too large for gradient steps of 0.1.'
    )
    if not fitted.standardize:
      of_y += ' Tip: --standardize scales each feature separately.'
  return f'Features are {scaled}{more}.{lost}{of_y}'
