"""Products with the Hessian of a client's loss, for meta-learning.

The Hessian itself is never formed: a product costs one or two gradients.
"""

from typing import Any

import tensorflow as tf

from tff_pers.models import functional

# Relative size of the step of the finite difference. Larger in float32, since
# the rounding error of the difference is divided by the step.
_RELATIVE_STEP = {tf.float32: 1e-2, tf.float64: 1e-4}


def hessian_product(
    model: functional.FunctionalModel, weights: Any, batch: Any, vector: Any
) -> Any:
  """Returns Hess f(weights; batch) vector, by differentiating the gradient.

  Args:
    model: The model; f is its mean loss over the batch.
    weights: Point of evaluation, a structure like `model.spec`.
    batch: A `client_data.Batch`.
    vector: A structure like `weights`.
  """
  with tf.GradientTape() as tape:
    tape.watch(weights)
    _, gradient = model.loss_and_gradient(weights, batch)
    # d/dw <grad f(w), v> is Hess f(w) v if v is held constant.
    along = tf.add_n([
        tf.reduce_sum(g * tf.stop_gradient(v))
        for g, v in zip(tf.nest.flatten(gradient), tf.nest.flatten(vector))
    ])
  return tape.gradient(
      along, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO
  )


def hessian_free_product(
    model: functional.FunctionalModel, weights: Any, batch: Any, vector: Any
) -> Any:
  """Returns approximately Hess f(weights; batch) vector, from two gradients.

    ( grad f(weights + e vector) - grad f(weights - e vector) ) / (2 e)

  with e = e0 / max(||vector||, 1e-12), e0 = 1e-2 in float32 and 1e-4 in
  float64; exact on quadratics for every e. Arguments: see `hessian_product`.
  """
  leaves = tf.nest.flatten(vector)
  norm = tf.linalg.global_norm(leaves)
  floor = tf.constant(1e-12, norm.dtype)
  # The step in the weights has length e0 for every length of the vector.
  e = tf.constant(_RELATIVE_STEP[norm.dtype], norm.dtype) / tf.maximum(
      norm, floor
  )

  def gradient(sign):
    moved = tf.nest.map_structure(
        lambda w, v: w + sign * e * v, weights, vector
    )
    return model.loss_and_gradient(moved, batch)[1]

  return tf.nest.map_structure(
      lambda plus, minus: (plus - minus) / (2 * e), gradient(1), gradient(-1)
  )
