"""Adaptive local aggregation: learns how much of a received model to take.

    h = v + (w - v) * W
    W <- clip(W - eta_W grad f_i(h; b) * (w - v), 0, 1)

All products are elementwise: v is a client's own part of a model, w the
received part, W the learned weights.

FedALA: Adaptive Local Aggregation for Personalized Federated Learning
    Zhang, Hua, Wang, Song, Xue, Ma, Guan. AAAI 2023.
"""

from typing import Any, Mapping

import tensorflow as tf

from tff_pers.client_works import local_sgd
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import functional

# W has converged when the losses of so many passes differ by less than this.
_WINDOW, _SPREAD = 10, 0.01


def mix(own: Any, received: Any, mixing: Any) -> Any:
  """Returns h = v + (w - v) * W, leaf by leaf."""
  return tf.nest.map_structure(
      lambda v, w, share: v + (w - v) * share, own, received, mixing
  )


def next_mixing(mixing: Any, gradient: Any, gap: Any, rate: float) -> Any:
  """Returns clip(W - eta_W * gradient * (w - v), 0, 1), leaf by leaf."""
  return tf.nest.map_structure(
      # The chain rule: d h / d W = w - v.
      lambda share, g, d: tf.clip_by_value(share - rate * g * d, 0, 1),
      mixing, gradient, gap,
  )


def learn(
    model: functional.FunctionalModel, own: Any, received: Any, mixing: Any,
    data: Mapping[str, Any], *, learning_rate: float, batch_size: int,
    most_passes: tf.Tensor, seed: tf.Tensor,
) -> tuple[Any, tf.Tensor]:
  """Returns (W, number of passes over the data in which it was learned).

  Passes continue until the standard deviation of the mean losses of the last 10
  is below 0.01. If v = w there are none, because the gradient of W is 0.

  Args:
    model: The model over that part of the weights, the rest being constant.
    own: v.
    received: w.
    mixing: Initial W.
    data: Dense client data.
    learning_rate: eta_W.
    batch_size: Examples per minibatch.
    most_passes: Maximum number of passes, int32.
    seed: int64[2] key of the minibatches.
  """
  gap = local_sgd.difference(received, own)
  differs = tf.reduce_any([tf.reduce_any(tf.not_equal(d, 0)) for d in gap])
  most_passes = tf.where(differs, most_passes, 0)

  def step(mixing, batch):
    loss, gradient = model.loss_and_gradient(mix(own, received, mixing), batch)
    return next_mixing(mixing, gradient, gap, learning_rate), loss

  def one_pass(number, mixing, losses):
    mixing, loss = client_data.fold_batches(
        data, step, mixing, seed=random.fold_in(seed, number),
        batch_size=batch_size, num_epochs=1, reports=True,
    )
    return number + 1, mixing, tf.concat([losses[1:], loss[None]], axis=0)

  def goes_on(number, mixing, losses):
    del mixing  # The losses decide.
    is_settled = (number >= _WINDOW) & (tf.math.reduce_std(losses) < _SPREAD)
    return (number < most_passes) & ~is_settled

  number, mixing, _ = tf.while_loop(
      goes_on, one_pass,
      (tf.constant(0), mixing, tf.zeros([_WINDOW], model.dtype)),
  )
  return mixing, number
