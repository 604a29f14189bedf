"""Inputs and outputs of an exported model: columns of a file, classes.

Everything here is TensorFlow, so that it can be part of a SavedModel; it
converts rows as `columnar.read` and `features.Features.apply` do.
"""

import functools
from typing import Mapping

import numpy as np
import tensorflow as tf

from tff_pers.data import cells
from tff_pers.data import client_names
from tff_pers.data import features
from tff_pers.data import task as task_lib
from tff_pers.models import export
from tff_pers.models import functional

# 2024-01-31, optionally followed by T23:59:59.5+01:00. Zones are ignored.
_DATE = (
    r'^(\d{4})-(\d{2})-(\d{2})'
    r'(?:[T ](\d{2})(?::(\d{2})(?::(\d{2}(?:\.\d+)?))?)?)?'
    r'(?:Z|[+-]\d{2}:?\d{2})?$'
)


def of_task(
    task: task_lib.Task, model: functional.FunctionalModel
) -> export.Serving:
  """Returns the inputs and outputs of a task's exported model.

  It takes a tensor [n] for each column of a table: float64, NaN for no value,
  or for texts and dates strings as in the file, `''` for no value. If the task
  has no named columns, it takes `x`, float32[n, ...]. It returns `label`
  (names, [n]) and `probabilities` (float64[n, C]), or `y`, one target each.
  """
  spec = model.x_spec
  inputs = {'x': tf.TensorSpec(spec.shape, spec.dtype)}
  to_x = lambda raw: raw['x']
  fitted = task.features
  if fitted is not None and fitted.is_named:
    dates = client_names.parse(fitted.reading.get('dates', ''))
    inputs = _columns(fitted, dates)
    to_x = functools.partial(_of_columns, fitted, dates)
  elif fitted is not None:
    to_x = lambda raw: _scaled(fitted, raw['x'])
  classes = task.class_names
  answers = functools.partial(_answers, classes, model.probabilities)
  return export.Serving(inputs, to_x, answers, classes)


def _columns(
    fitted: features.Features, dates: list[str]
) -> dict[str, tf.TensorSpec]:
  """Returns the specs of the columns of a table by name."""
  parts = {part: name for name in dates for part in cells.names_of_date(name)}
  specs = {}
  for feature in fitted.features:
    name = parts.get(feature.name, feature.name)
    is_text = name in dates or feature.categories is not None
    specs[name] = tf.TensorSpec([None], tf.string if is_text else tf.float64)
  return specs


def _of_columns(
    fitted: features.Features, dates: list[str], raw: Mapping[str, tf.Tensor]
) -> tf.Tensor:
  """Returns the model's inputs, float32[n, len(fitted.outputs)]."""
  values = dict(raw)
  for name in dates:
    if name in raw:
      values.update(zip(cells.names_of_date(name), _parts_of_date(raw[name])))
  made = []
  codes = client_names.parse(fitted.reading.get('categorical', ''))
  for feature in fitted.features:
    column = values[feature.name]
    if feature.categories is None:
      missing = tf.math.is_nan(column)
      mean = tf.constant(feature.mean, tf.float64)
      column = tf.where(missing, mean, column)
      if fitted.standardize:
        column = (column - mean) / (feature.scale or np.inf)
      made.append(column[:, None])
    else:
      text = tf.strings.strip(column)
      if feature.name in codes:
        text = tf.strings.regex_replace(text, cells.WHOLE, r'\1')
      missing = _is_missing(text)
      is_it = text[:, None] == tf.constant(feature.categories, tf.string)
      made.append(tf.cast(is_it & ~missing[:, None], tf.float64))
    if feature.indicator:
      made.append(tf.cast(missing[:, None], tf.float64))
  return tf.cast(tf.concat(made, 1), tf.float32)


def _scaled(fitted: features.Features, x: tf.Tensor) -> tf.Tensor:
  """Returns unnamed numbers as the model's inputs, [n, ...]."""
  if not fitted.standardize:
    return x
  flat = tf.cast(tf.reshape(x, [-1, len(fitted.features)]), tf.float64)
  flat -= [feature.mean for feature in fitted.features]
  flat /= [feature.scale or np.inf for feature in fitted.features]
  return tf.reshape(tf.cast(flat, tf.float32), tf.shape(x))


def _is_missing(text: tf.Tensor) -> tf.Tensor:
  """Returns whether each text means "no value", bool[n]."""
  lower = tf.strings.lower(text)[:, None]
  return tf.reduce_any(lower == tf.constant(sorted(cells.MISSING)), 1)


def _parts_of_date(column: tf.Tensor) -> list[tf.Tensor]:
  """Returns year, month, weekday and days since 1970, like `cells.dates`.

  A text that is not a date causes an error at run time.
  """
  text = tf.strings.strip(column)
  missing = _is_missing(text)
  text = tf.strings.regex_replace(text, cells.DAY_FIRST, r'\3-\2-\1')
  text = tf.where(missing, '1970-01-01', text)
  year, month, day, hours, minutes, seconds = (
      # If the time is left out, only this 0 remains.
      tf.strings.to_number(
          tf.strings.regex_replace(text, _DATE, f'0\\{group}'), tf.float64
      ) for group in range(1, 7)
  )
  # Years begin in March, so that February 29 is the last day.
  late = tf.cast(month <= 2, tf.float64)
  of_march = year - late
  days = (
      365 * of_march + of_march // 4 - of_march // 100 + of_march // 400
      + (153 * (month - 3 + 12 * late) + 2) // 5 + day - 719469
  )
  found = [
      year, month, (days + 3) % 7,
      days + (hours + (minutes + seconds / 60) / 60) / 24,
  ]
  nan = tf.constant(np.nan, tf.float64)
  return [tf.where(missing, nan, part) for part in found]


def _answers(
    classes: list[str], are_probabilities: bool, predictions: tf.Tensor
) -> dict[str, tf.Tensor]:
  """Returns names and probabilities of classes, or targets."""
  outputs = tf.cast(predictions, tf.float64)
  if not classes:
    return dict(y=tf.reshape(outputs, [-1]))
  if outputs.shape.rank == 1 or outputs.shape[1] == 1:
    second = tf.reshape(outputs, [-1])  # The second of two classes.
    first = 1 - second if are_probabilities else tf.zeros_like(second)
    outputs = tf.stack([first, second], 1)
  if not are_probabilities:
    outputs = tf.nn.softmax(outputs)
  label = tf.gather(tf.constant(classes), tf.argmax(outputs, 1))
  return dict(label=label, probabilities=outputs)
