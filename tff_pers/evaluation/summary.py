"""Summarises metrics per client into the numbers of a table."""

import math
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt


# Metrics of clients: of every run, of labels, of targets.
COMMON = ('accuracy', 'loss')
OF_LABELS = ('balanced_accuracy', 'auc', 'f1')
OF_TARGETS = ('mae', 'rmse', 'r2')
# Ours, and what Keras names its losses as metrics.
_LOWER = (
    'loss', 'calibration_error', 'mae', 'rmse', 'mse', 'mape', 'msle',
    'mean_squared_error', 'mean_absolute_error', 'root_mean_squared_error',
    'mean_absolute_percentage_error', 'mean_squared_logarithmic_error',
    'binary_crossentropy', 'categorical_crossentropy',
    'sparse_categorical_crossentropy', 'kullback_leibler_divergence',
    'kl_divergence', 'hinge', 'squared_hinge', 'categorical_hinge', 'poisson',
    'logcosh', 'log_cosh', 'huber',
)


def is_higher_better(metric: str) -> bool:
  """Returns whether larger values of a metric are better."""
  name = metric.lower()
  # Those of one of several outputs follow its name, as in `price_mae`.
  return not any(name == low or name.endswith(f'_{low}') for low in _LOWER)


class Summary(NamedTuple):
  """Statistics of one metric over clients; all NaN if there are no clients.

  Attributes:
    mean: Unweighted mean over clients.
    weighted_mean: Mean weighted by the clients' test examples.
    std: Standard deviation over clients (divided by N).
    worst_decile: Mean over the worst 10 % of the clients, at least one.
    best_decile: Mean over the best 10 % of the clients, at least one.
    worst: The worst client.
  """

  mean: float
  weighted_mean: float
  std: float
  worst_decile: float
  best_decile: float
  worst: float


def summarize(
    values: npt.ArrayLike, num_examples: npt.ArrayLike, *,
    higher_is_better: bool,
) -> Summary:
  """Summarises a metric over the clients that have test examples.

  Args:
    values: [N], the metric per client; NaN is worse than any number.
    num_examples: [N], test examples per client, >= 0.
    higher_is_better: True for accuracies, False for losses; determines which
      clients are the worst.

  Raises:
    ValueError: If the two do not have one entry per client.
  """
  values = np.asarray(values, np.float64)
  weights = np.asarray(num_examples, np.float64)
  if values.shape != weights.shape or values.ndim != 1:
    raise ValueError(
        '`values` and `num_examples` must have one entry per client, found'
        f' shapes {values.shape} and {weights.shape}.'
    )
  values, weights = values[weights > 0], weights[weights > 0]
  if not values.size:
    return Summary(*[math.nan] * len(Summary._fields))
  # Worst first. Sorting alone would put NaN after the best.
  ordered = values[np.lexsort(
      (values if higher_is_better else -values, ~np.isnan(values))
  )]
  tail = -(-values.size // 10)
  # Infinite losses make it NaN (infinity minus infinity) without a warning.
  with np.errstate(invalid='ignore'):
    std = float(np.std(values))
  return Summary(
      mean=float(np.mean(values)),
      weighted_mean=float(np.sum(values * weights) / np.sum(weights)),
      std=std,
      worst_decile=float(np.mean(ordered[:tail])),
      best_decile=float(np.mean(ordered[-tail:])),
      worst=float(ordered[0]),
  )


def share_hurt(
    values: npt.ArrayLike, reference: npt.ArrayLike, *, higher_is_better: bool
) -> Optional[float]:
  """Returns the share of clients that are worse off than under a reference.

  Both have the metric of the same clients, [N], NaN if a client has none. The
  share is among clients with both values; None if there are none.

  Raises:
    ValueError: If the two have different numbers of clients.
  """
  values = np.asarray(values, np.float64)
  reference = np.asarray(reference, np.float64)
  if values.shape != reference.shape:
    raise ValueError(
        '`values` and `reference` must be of the same clients, found'
        f' {values.size} and {reference.size}.'
    )
  both = ~(np.isnan(values) | np.isnan(reference))
  if not both.any():
    return None
  worse = values < reference if higher_is_better else values > reference
  return float(np.mean(worse[both]))
