"""Metrics of predictions beyond accuracy and loss, by scikit-learn.

If one class is rare, a model that never predicts it has a high accuracy; the
share of the most frequent class, recall and AUC reveal it.
"""

import types
from typing import Callable, Mapping, NamedTuple, Optional, Sequence

import numpy as np

# Metrics that a task brings, see `Task.metrics`.
Own = Mapping[str, Callable[[np.ndarray, np.ndarray], float]]
_BINS = 10
# Accuracies exceeding the most frequent class's share by less are suspect.
_LITTLE = 0.01
_NAMED = 5


class Predictions(NamedTuple):
  """A model's predictions on a client's examples.

  Attributes:
    y: int[n] labels 0..C-1, or float[n] targets.
    outputs: float[n, C] probabilities, or float[n].
  """

  y: np.ndarray
  outputs: np.ndarray

  @property
  def labels(self) -> np.ndarray:
    """The predicted labels, int[n]."""
    return self.outputs.argmax(axis=1)


def _sklearn():
  """Imports scikit-learn's metrics late, as this takes half a second."""
  from sklearn import metrics  # pylint: disable=g-import-not-at-top
  return metrics


def _balanced_accuracy(found: Predictions) -> float:
  """Returns the mean recall over the classes that the client has."""
  there = np.unique(found.y)
  return _sklearn().recall_score(
      found.y, found.labels, labels=there, average='macro', zero_division=0.0
  )


def _auc(found: Predictions) -> float:
  """Returns the AUC of the second of two classes, else mean one-against-rest.

  NaN if the client lacks a class.
  """
  probabilities = found.outputs
  number = probabilities.shape[1]
  if len(np.unique(found.y)) < number:
    return np.nan
  if number == 2:
    return _sklearn().roc_auc_score(found.y, probabilities[:, 1])
  return _sklearn().roc_auc_score(found.y, probabilities, multi_class='ovr')


def _f1(found: Predictions) -> float:
  """Returns F1 of the second of two classes, else the mean over classes.

  The classes are those of the client and of its predictions, because a client
  may lack most of them. NaN if the second of two is not among them.
  """
  there = np.union1d(found.y, found.labels)
  if found.outputs.shape[1] == 2:
    there = there[there == 1]
  if not there.size:
    return np.nan
  return _sklearn().f1_score(
      found.y, found.labels, labels=there, average='macro', zero_division=0.0
  )


def _calibration_error(found: Predictions) -> float:
  """Returns the mean distance of confidence and accuracy over ten bins.

  Bins are of the predicted label's probability, weighted by their examples (Guo
  et al., On Calibration of Modern Neural Networks, 2017, equation 3).
  """
  confidence = found.outputs.max(axis=1)
  gap = (found.labels == found.y) - confidence
  bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
  return np.abs(np.bincount(bins, weights=gap)).sum() / len(gap)


# (The log loss is a run's loss.)
_OF_LABELS: Mapping[str, Callable[[Predictions], float]] = dict(
    # Of always predicting the most frequent class.
    majority=lambda found: np.bincount(found.y).max() / len(found.y),
    balanced_accuracy=_balanced_accuracy, auc=_auc, f1=_f1,
    calibration_error=_calibration_error,
)
# MAE and RMSE are in units of y.
_OF_TARGETS: Mapping[str, Callable[[Predictions], float]] = dict(
    mae=lambda found: _sklearn().mean_absolute_error(*found),
    rmse=lambda found: np.sqrt(_sklearn().mean_squared_error(*found)),
    # NaN if y is constant.
    r2=lambda found: (
        _sklearn().r2_score(*found) if np.ptp(found.y) else np.nan
    ),
)
# All that a task's own metrics may not be called.
NAMES = (*_OF_LABELS, *_OF_TARGETS)


def of_clients(
    found: Sequence[Optional[Predictions]], metrics: Sequence[str] = (),
    own: Own = types.MappingProxyType({}),
) -> list[dict[str, float]]:
  """Returns the metrics of each client; all, or those that are named.

  NaN for clients without examples, or with non-finite predictions. Predictions
  are all of labels or all of targets; `own` are the metrics that the task
  brings.
  """
  ranks = {each.outputs.ndim for each in found if each is not None}
  known: dict[str, Callable[..., float]] = dict(
      _OF_LABELS if 2 in ranks else _OF_TARGETS if ranks else {}
  )
  for name, metric in own.items():
    known[name] = lambda each, metric=metric: metric(*each)
  return [
      {
          name: float(known[name](each))
          if each is not None and np.isfinite(each.outputs).all() else np.nan
          for name in metrics or known
      } for each in found
  ]


def mean(
    found: Sequence[Optional[Predictions]], metric: str,
    own: Own = types.MappingProxyType({}),
) -> float:
  """Returns the mean of a metric over the clients that have it."""
  values = [row[metric] for row in of_clients(found, (metric,), own)]
  values = [value for value in values if not np.isnan(value)]
  return float(np.mean(values)) if values else np.nan


def confusion(found: Sequence[Predictions]) -> np.ndarray:
  """Returns int[C, C], examples of all clients by class and predicted class."""
  classes = np.arange(found[0].outputs.shape[1])
  return sum(
      _sklearn().confusion_matrix(each.y, each.labels, labels=classes)
      for each in found
  )


def rarity_sentence(table: np.ndarray, classes: Sequence[str]) -> str:
  """Returns a sentence if accuracy is near the most frequent class's share.

  It has the recall of the other classes, and is '' if the accuracy is more than
  .01 above that share. The table is that of `confusion`.
  """
  there, right, total = table.sum(axis=1), np.diag(table), table.sum()
  if np.count_nonzero(there) < 2 or (
      right.sum() > there.max() + _LITTLE * total
  ):
    return ''
  usual = int(there.argmax())
  return (
      f'The test accuracy over all rows, {right.sum() / total:.4f}, is hardly'
      f' above that of always predicting {classes[usual]}'
      f' ({there[usual] / total:.4f}). {recognized_sentence(table, classes)}'
  )


def recognized_sentence(table: np.ndarray, classes: Sequence[str]) -> str:
  """Returns a sentence on the correctly predicted rows of each class."""
  there, right = table.sum(axis=1), np.diag(table)
  found = [
      f'{right[c]} of {there[c]} of {classes[c]}' for c in np.flatnonzero(there)
  ]
  more = len(found) - _NAMED
  return (
      f'Correctly predicted rows: {", ".join(found[:_NAMED])}'
      + (f' and {more} other classes' if more > 0 else '') + '.'
  )
