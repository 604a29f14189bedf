"""Computes predictions of clients' models, for metrics of the task."""

from typing import Any, Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.evaluation import quality
from tff_pers.models import functional

_ROWS_AT_ONCE = 4096


def of_clients(
    model: functional.FunctionalModel, weights: Sequence[Any],
    data: Sequence[Any],
) -> list[Optional[quality.Predictions]]:
  """Returns the predictions of each client's model; None without examples.

  The model that clients deploy, with weights and dense data of each, has y that
  are labels, or one target each.
  """
  found: list[Optional[quality.Predictions]] = []
  for own, client in zip(weights, data):
    x, y = client['examples']['x'], np.asarray(client['examples']['y'])
    if not len(y):
      found.append(None)
      continue
    outputs = np.concatenate([
        model.predict(
            own, x[first:first + _ROWS_AT_ONCE], False, functional.init_key(0)
        )
        for first in range(0, len(y), _ROWS_AT_ONCE)
    ]).astype(np.float64)
    if model.y_spec.dtype.is_integer:
      outputs = _probabilities(outputs, model.probabilities)
    else:
      outputs = outputs.reshape(-1)
    found.append(quality.Predictions(y, outputs))
  return found


def _probabilities(outputs: np.ndarray, are_probabilities: bool) -> np.ndarray:
  """Returns float64[n, C]; a single output is that of the second class."""
  if outputs.ndim == 1 or outputs.shape[1] == 1:
    second = outputs.reshape(-1)
    if not are_probabilities:
      second = tf.math.sigmoid(second).numpy()
    return np.stack([1.0 - second, second], 1)
  if not are_probabilities:
    outputs = tf.nn.softmax(outputs).numpy()
  return outputs / outputs.sum(axis=1, keepdims=True)
