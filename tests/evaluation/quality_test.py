"""Metrics of predictions: by hand, and what accuracy hides."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from tff_pers.evaluation import quality


def _metrics(predictions):
  [row] = quality.of_clients([predictions])
  return row


def _of(y, second):
  """Returns predictions of two classes."""
  second = np.array(second)
  return quality.Predictions(np.array(y), np.stack([1 - second, second], 1))


def test_two_classes_by_hand():
  # Predicted: 0 1 0 1 1; the only mistakes are the second and the third.
  found = _metrics(_of([0, 0, 1, 1, 1], [0.1, 0.6, 0.4, 0.7, 0.95]))
  assert found['majority'] == pytest.approx(3 / 5)
  assert found['balanced_accuracy'] == pytest.approx((1 / 2 + 2 / 3) / 2)
  # Of the six pairs one is in the wrong order: .6 of a 0, .4 of a 1.
  assert found['auc'] == pytest.approx(5 / 6)
  # Precision and recall of 1 are 2/3.
  assert found['f1'] == pytest.approx(2 / 3)
  # Bins: {.6, .6: 1 of 2 wrong twice}, {.7: right}, {.9, .95: right}.
  gaps = [abs(0 + 0 - 1.2), 0.3, (1 - 0.9) + (1 - 0.95)]
  assert found['calibration_error'] == pytest.approx(sum(gaps) / 5)


def test_three_classes_by_hand():
  probabilities = np.eye(3)[[0, 1, 1, 2]] * 0.7 + 0.1
  found = _metrics(
      quality.Predictions(np.array([0, 1, 2, 2]), probabilities)
  )
  assert found['balanced_accuracy'] == pytest.approx((1 + 1 + 1 / 2) / 3)
  # f1: 1; 1 of 1 found, 1 of 2 right: 2/3; 1 of 2 found, all right: 2/3.
  assert found['f1'] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
  # Against the rest: 1; 2.5 of 3 pairs; 3 of 4, as one 2 is like the others.
  assert found['auc'] == pytest.approx((1 + 2.5 / 3 + 3 / 4) / 3)


def test_f1_is_over_the_classes_of_a_client():
  """A class that it neither has nor is predicted is no mistake."""
  y = np.array([3, 7, 7, 3])
  right = quality.Predictions(y, np.eye(10)[y])
  assert _metrics(right)['f1'] == 1.0
  wrong = np.array([3, 7, 5, 3])
  found = _metrics(quality.Predictions(y, np.eye(10)[wrong]))
  expected = sklearn_metrics.f1_score(y, wrong, average='macro')
  assert found['f1'] == pytest.approx(expected)


def test_f1_of_two_classes_is_of_the_second():
  negative, positive = _of([0, 0], [0.1, 0.2]), _of([1, 1], [0.9, 0.8])
  assert np.isnan(_metrics(negative)['f1']) and _metrics(positive)['f1'] == 1.0
  assert quality.mean([negative, positive], 'f1') == 1.0
  # Predicted, but not there; there, but not predicted.
  for one in (_of([0, 0], [0.1, 0.8]), _of([0, 1], [0.1, 0.2])):
    assert _metrics(one)['f1'] == 0.0


def test_a_client_of_one_class_has_no_auc_and_does_not_count():
  one = _of([0, 0], [0.2, 0.7])
  found = _metrics(one)
  assert np.isnan(found['auc']) and found['balanced_accuracy'] == 0.5
  both = _of([0, 1], [0.1, 0.9])
  assert quality.mean([one, None, both], 'auc') == 1.0
  assert quality.mean([one, None, both], 'balanced_accuracy') == 0.75
  assert np.isnan(quality.mean([one, None], 'auc'))
  rows = quality.of_clients([None, both])
  assert np.isnan(rows[0]['f1']) and rows[1]['f1'] == 1.0


def test_predictions_that_are_not_finite_are_worth_nothing():
  bad = quality.Predictions(np.ones(2), np.array([np.nan, 1.0]))
  assert np.isnan(quality.mean([bad], 'rmse'))
  good = quality.Predictions(np.ones(2), np.ones(2))
  assert np.isnan(quality.of_clients([bad, good])[0]['rmse'])


def test_targets_by_hand():
  found = _metrics(
      quality.Predictions(np.array([1.0, 2.0, 6.0]), np.array([1.0, 4.0, 5.0]))
  )
  assert found['mae'] == pytest.approx(1.0)
  assert found['rmse'] == pytest.approx(np.sqrt(5 / 3))
  assert found['r2'] == pytest.approx(1 - 5 / 14)
  assert np.isnan(_metrics(
      quality.Predictions(np.ones(2), np.zeros(2))
  )['r2'])


def test_what_accuracy_hides_is_said():
  names = ['no', 'yes']
  nobody = quality.confusion([_of([0] * 29 + [1], [0.1] * 30)] * 2)
  assert nobody.tolist() == [[58, 0], [2, 0]]
  assert quality.rarity_sentence(nobody, names) == (
      'The test accuracy over all rows, 0.9667, is hardly above that of always'
      ' predicting no (0.9667). Correctly predicted rows: 58 of 58 of no, 0 of'
      ' 2 of yes.'
  )
  some = np.array([[58, 0], [1, 1]])  # .983 against .967.
  assert quality.rarity_sentence(some, names) == ''
  assert quality.rarity_sentence(np.array([[5, 1], [0, 0]]), names) == ''
