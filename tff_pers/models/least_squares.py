"""A model of least squares whose weights are a shared and a personal vector.

See `data/least_squares.py` for the paper.
"""

import functools

import tensorflow as tf

from tff_pers.models import functional


# Cached, so that the same arguments give the same model, as in `zoo.build`.
@functools.lru_cache(maxsize=4)
def build(
    theta_dim: int, w_dim: int, num_rows: int
) -> functional.FunctionalModel:
  """Returns the model with weights (theta, w), float64, zero at first.

    f(theta, w) = 1/2 ||C theta + D w - y||^2 = mean_k num_rows / 2 r_k^2

  where row k of x is (C_k, D_k), and r_k is its residual. Methods train the
  mean over examples, the paper uses the sum: so the loss of an example has the
  factor `num_rows`, the examples of every client, and step sizes are those of
  the paper. The split `output_layer` makes w private, `input_layer` theta.
  """

  def init(seed):
    del seed  # Nothing is drawn.
    return (
        tf.zeros([theta_dim], tf.float64), tf.zeros([w_dim], tf.float64)
    )

  def predict(weights, x, training, seed):
    del training, seed  # No dropout.
    # One product instead of two, so that x is read once.
    return tf.linalg.matvec(x, tf.concat(weights, axis=0))

  return functional.FunctionalModel(
      init, predict,
      example_loss=lambda y, predictions: (
          num_rows / 2 * tf.square(predictions - y)
      ),
      x_spec=tf.TensorSpec([None, theta_dim + w_dim], tf.float64),
      y_spec=tf.TensorSpec([None], tf.float64),
      name='least_squares',
      layers=tuple(
          functional.LayerWeight(f'{layer}/kernel', layer, 'vector', (size,))
          for layer, size in (('theta', theta_dim), ('w', w_dim))
      ),
  )
