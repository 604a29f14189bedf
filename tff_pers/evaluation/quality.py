"""How good predictions are, beside their accuracy or loss, by scikit-learn.

Where one class is rare, a model that never predicts it has a high accuracy; the
share of the most frequent class, recall and AUC tell.
"""

from typing import Mapping, NamedTuple, Optional, Sequence
import warnings

import numpy as np

_BINS = 10
# By so little an accuracy is not above the share of a class.
_LITTLE = 0.01
_NAMED = 5


class Predictions(NamedTuple):
  """What a model says of a client's examples.

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
  """Returns scikit-learn's metrics, half a second of imports, when asked."""
  from sklearn import metrics  # pylint: disable=g-import-not-at-top
  return metrics


def of_labels(found: Predictions) -> dict[str, float]:
  """Returns the metrics of a client's predicted labels; NaN where undefined.

  `majority`: the share of its most frequent class, which is the accuracy of
  always the same answer. `balanced_accuracy`: the mean recall of the classes
  that it has. `auc`: of two classes that of the second one, of several the mean
  of each against the rest; NaN if the client lacks one. `f1`: of the second of
  two classes, of several the mean over them. (The log loss is a run's loss.)
  `calibration_error`: the mean distance of confidence and accuracy over ten
  bins of the predicted label's probability, weighted by their examples (Guo et
  al., On Calibration of Modern Neural Networks, 2017, equation 3).

  Args:
    found: The predictions, of at least one example.
  """
  y, probabilities = found.y, found.outputs
  classes, predicted = np.arange(probabilities.shape[1]), found.labels
  counts = np.bincount(y, minlength=len(classes))
  recalls = _sklearn().recall_score(
      y, predicted, labels=classes, average=None, zero_division=0.0
  )
  return dict(
      majority=float(counts.max() / len(y)),
      balanced_accuracy=float(recalls[counts > 0].mean()),
      auc=_auc(y, probabilities, counts),
      f1=_f1(y, predicted, classes),
      calibration_error=_calibration_error(y, predicted, probabilities),
  )


def of_targets(found: Predictions) -> dict[str, float]:
  """Returns `mae`, `rmse` (in units of y) and `r2`, NaN where y is constant."""
  y, outputs = found.y, found.outputs
  return dict(
      mae=float(_sklearn().mean_absolute_error(y, outputs)),
      rmse=float(np.sqrt(_sklearn().mean_squared_error(y, outputs))),
      r2=float(_sklearn().r2_score(y, outputs)) if np.ptp(y) else np.nan,
  )


def of_clients(
    found: Sequence[Optional[Predictions]]
) -> list[dict[str, float]]:
  """Returns the metrics of each client.

  NaN of those without examples, or whose predictions are not finite.
  """
  rows = [
      (of_labels if each.outputs.ndim == 2 else of_targets)(each)
      if each is not None and np.isfinite(each.outputs).all() else {}
      for each in found
  ]
  names = list(next(filter(None, rows), {}))
  return [row or dict.fromkeys(names, np.nan) for row in rows]


def mean(found: Sequence[Optional[Predictions]], metric: str) -> float:
  """Returns the mean of a metric over the clients that have it."""
  values = [row.get(metric, np.nan) for row in of_clients(found)]
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
  """Says what accuracy hides: it is no more than the most frequent class gives.

  Args:
    table: See `confusion`.
    classes: Names of the classes.

  Returns:
    The sentence with what is found of the other classes; '' if the accuracy is
    more than .01 above the share of the most frequent class.
  """
  there, right, total = table.sum(axis=1), np.diag(table), table.sum()
  if np.count_nonzero(there) < 2 or (
      right.sum() > there.max() + _LITTLE * total
  ):
    return ''
  usual = int(there.argmax())
  return (
      f'The test accuracy over all rows, {right.sum() / total:.4f}, is hardly'
      f' above that of always answering {classes[usual]}'
      f' ({there[usual] / total:.4f}). {recognized_sentence(table, classes)}'
  )


def recognized_sentence(table: np.ndarray, classes: Sequence[str]) -> str:
  """Says how many rows of each class are predicted to be of it.

  Args:
    table: See `confusion`.
    classes: Names of the classes.
  """
  there, right = table.sum(axis=1), np.diag(table)
  found = [
      f'{right[c]} of {there[c]} of {classes[c]}' for c in np.flatnonzero(there)
  ]
  more = len(found) - _NAMED
  return (
      f'Recognized rows: {", ".join(found[:_NAMED])}'
      + (f' and {more} other classes' if more > 0 else '') + '.'
  )


def _auc(y, probabilities, counts) -> float:
  if not counts.all():
    return np.nan
  if len(counts) == 2:
    return float(_sklearn().roc_auc_score(y, probabilities[:, 1]))
  return float(_sklearn().roc_auc_score(y, probabilities, multi_class='ovr'))


def _f1(y, predicted, classes) -> float:
  how: Mapping[str, object] = dict(average='macro', labels=classes)
  if len(classes) == 2:
    how = dict(average='binary', pos_label=1)
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    return float(_sklearn().f1_score(y, predicted, zero_division=0.0, **how))


def _calibration_error(y, predicted, probabilities) -> float:
  confidence = probabilities.max(axis=1)
  gap = (predicted == y) - confidence
  bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
  return float(np.abs(np.bincount(bins, weights=gap)).sum() / len(y))
