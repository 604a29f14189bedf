"""Tells probabilities from logits by a model's outputs.

An untrained model's logits may lie in [0, 1] by chance, and all be 0 if it
starts at 0. So the model is tried with random weights, by which logits leave
[0, 1].
"""

from typing import Any, Callable, Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.models import keras_checks

_DRAWS = 8
_SPREAD = 3.0  # Of the weights.
_TOLERANCE = 1e-2  # Of sums, also in half precision.


def tried(
    predict: Callable[[Any, Any, bool, Any], Any], weights: Any, x_spec: Any,
    position: int = 0, moving: Optional[Sequence[bool]] = None,
) -> bool:
  """Returns whether an output is probabilities, whatever the weights are.

  All values are then in [0, 1], and those of several classes add up to 1.

  Args:
    predict: As in `functional.FunctionalModel`.
    weights: Structure of `tf.TensorSpec`s.
    x_spec: Spec of x.
    position: Of the output, in the order of `tf.nest.flatten`.
    moving: Whether each leaf is a moving statistic, which is never negative;
      None: none is.
  """
  rng = np.random.default_rng(0)
  x = tf.nest.map_structure(
      lambda spec: keras_checks.some_rows(spec, rng).numpy(), x_spec
  )
  # A graph, because a model that TFF made from Keras cannot be called eagerly.
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    given = tf.nest.map_structure(
        lambda spec: tf.compat.v1.placeholder(spec.dtype, spec.shape), weights
    )
    leaves = tf.nest.flatten(given)
    if not leaves:
      return False  # All draws would be one.
    seen = False
    try:
      output = tf.nest.flatten(predict(
          given, tf.nest.map_structure(tf.constant, x), False,
          tf.zeros([2], tf.int64),
      ))[position]
      for _ in range(_DRAWS):
        drawn = [
            _SPREAD * rng.standard_normal(leaf.shape, np.float32)
            for leaf in leaves
        ]
        values = session.run(output, {
            leaf: np.abs(value) if is_moving else value for
            leaf, value, is_moving in zip(
                leaves, drawn, moving or [False] * len(leaves)
            )
        })
        # Some weights may have no meaning, as a negative scale.
        if np.isfinite(values).all():
          seen = True
          if not _are_shares(values):
            return False
    except (ValueError, tf.errors.InvalidArgumentError):
      return False  # It may need x of other sizes than ours.
  return seen


def _are_shares(values):
  """Returns whether values are numbers in [0, 1], or rows of shares of 1."""
  if values.min() < -_TOLERANCE or values.max() > 1 + _TOLERANCE:
    return False
  return values.ndim == 1 or values.shape[-1] == 1 or np.allclose(
      values.sum(axis=-1), 1, atol=_TOLERANCE
  )
