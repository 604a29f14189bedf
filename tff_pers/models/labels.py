"""The labels for which a model has outputs."""

import itertools
from typing import Callable, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tff_pers.models import functional


class Labels(NamedTuple):
  """The labels 0..C-1, and others that the loss skips.

  Attributes:
    num_classes: C.
    is_skipped: `(label) -> bool`, whether the loss accepts a label outside of
      0..C-1, e.g. one that marks padding.
  """

  num_classes: int
  is_skipped: Callable[[int], bool] = lambda label: False

  def first_wrong(self, y: np.ndarray) -> Optional[tuple[int, int]]:
    """Returns the first invalid label and its row, or None.

    y are integers or whole floats, [num_examples, ...].
    """
    if y.dtype.kind == 'f':
      outside = ~((y >= 0) & (y < self.num_classes) & (y == np.floor(y)))
    else:
      # As unsigned, negative numbers are large, so one pass over y suffices.
      unsigned = y.view(f'u{y.dtype.itemsize}')
      if not y.size or np.maximum.reduce(unsigned, None) < self.num_classes:
        return None
      outside = unsigned >= self.num_classes
    skipped = [
        label for label in np.unique(y[outside]).tolist()
        if float(label).is_integer() and self.is_skipped(label)
    ]
    places = np.argwhere(outside & ~np.isin(y, skipped))
    return (y[tuple(places[0])], places[0][0]) if len(places) else None


def num_directions(model: functional.FunctionalModel) -> int:
  """Returns d: gradients of a layer's kernel have at most about this rank.

  That is the dimension of the gradients of the predictions: with a softmax of m
  classes m - 1, because they sum to 0, otherwise the number of outputs. The
  largest, if a model predicts several things; 1 if nothing is known.
  """
  outputs = model.labels if isinstance(model.labels, list) else [model.labels]
  specs = tf.nest.flatten(model.y_spec)
  return max(1, *(
      spec.shape[-1] or 1 if own is None and spec.shape.rank > 1
      else 1 if own is None else own.num_classes - 1
      for own, spec in itertools.zip_longest(outputs, specs)
  ))
