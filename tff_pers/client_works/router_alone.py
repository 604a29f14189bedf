"""Learns a client's router in full-batch steps with all else frozen.

Clients that keep no router, or have none yet, find one this way before their
local steps and for deployment. See `router_training` for joint training.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    FLoRAL, Algorithm 1.
"""

from typing import Any, Callable, Mapping

import tensorflow as tf

from tff_pers.client_works import local_sgd
from tff_pers.client_works import router_training
from tff_pers.core import structures
from tff_pers.data import client_data
from tff_pers.models import adaptors
from tff_pers.models import functional

# Rows per pass of full gradients. It bounds the memory and does not change a
# mean over all rows.
_CHUNK = 256


def learn_router(
    adapted: adaptors.AdaptedModel, logits: tf.Tensor, weights: Any,
    data: Mapping[str, Any], **options: Any,
) -> tf.Tensor:
  """Returns a FLoRAL client's logits learned by `learn_logits`.

  Args:
    adapted: An `adaptors.AdaptedModel`.
    logits: float[C], initial logits.
    weights: <adaptors, base>, frozen.
    data: Dense client data or a dataset of batches.
    **options: See `learn_logits`.
  """
  return learn_logits(
      adapted.base,
      lambda pi, batch: adapted.mixed(pi).batch_loss(
          weights, batch, training=False
      ),
      logits, data, **options,
  )


def learn_logits(
    model: functional.FunctionalModel, loss: Callable[..., tf.Tensor],
    logits: tf.Tensor, data: Mapping[str, Any], *, num_steps: int,
    learning_rate: float, router_step: str = 'gradient',
) -> tf.Tensor:
  """Returns logits after full-batch gradient descent with all else frozen.

  Args:
    model: The mixed model; it determines the weight of a batch.
    loss: `(pi, Batch) -> scalar`, the mean loss of a mixture, without dropout.
    logits: float[C], initial logits.
    data: Dense client data or a dataset of batches, all used in every step.
    num_steps: Steps, an int or an int32 scalar; 0 returns `logits`.
    learning_rate: Step size.
    router_step: See `router_training.train`.
  """

  def body(t, theta):
    pi = tf.nn.softmax(theta)

    def gradient(batch):
      with tf.GradientTape() as tape:
        tape.watch(theta)
        value = loss(tf.nn.softmax(theta), batch)
      return tape.gradient(
          value, theta, unconnected_gradients=tf.UnconnectedGradients.ZERO
      )
    g_theta = full_mean(model, gradient, data, tf.zeros_like(theta))
    if router_step == 'scale_free':
      g_theta = router_training.scale_free(g_theta, pi)
    return t + 1, local_sgd.descend(theta, g_theta, learning_rate)

  # A TensorFlow loop, because the number of steps may depend on the client.
  return tf.while_loop(
      lambda t, _: t < num_steps, body, (tf.constant(0), logits)
  )[1]


def full_mean(
    model: functional.FunctionalModel, value: Callable[[Any], tf.Tensor],
    data: Mapping[str, Any], zero: tf.Tensor,
) -> tf.Tensor:
  """Returns the mean of `value(batch)` over all of a client's examples.

  Args:
    model: The model, which determines the weight of a batch.
    value: `(Batch) -> tensor`, a mean like the model's loss of the batch.
    data: Dense client data or a dataset of batches.
    zero: Zeros like a value; the result without examples.
  """

  def add(sums, batch):
    total, count = sums
    # Weighted by rows or tokens, because the last batch may be short.
    weight = model.batch_weight(batch, zero.dtype)
    return total + weight * value(batch), count + weight

  size = None  # A dataset has its own batches.
  if not isinstance(data, tf.data.Dataset):
    capacity = structures.num_rows(data['examples'])
    size = tf.minimum(tf.maximum(capacity, 1), _CHUNK)
  total, count = client_data.fold_batches(
      data, add, (zero, tf.zeros([], zero.dtype)),
      seed=tf.zeros([2], tf.int64), batch_size=size, num_epochs=1,
      shuffle=False,
  )
  return total / tf.maximum(count, 1)
