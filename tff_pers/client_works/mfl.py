"""Mixed federated learning with shared weights: the mixture outside the loss.

    min over u, {a_c}, pi in the simplex of  sum_c pi_c f(u, a_c)   (MFL-WS)

This is the algorithm that FLoRAL's theory analyses: C models, each with its own
forward pass, and a router given by the exponential weights of their losses.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    FLoRAL, Sections 3 and 4, Appendix C.
"""

from typing import Any, Mapping

import tensorflow as tf

from tff_pers.client_works import joint_step
from tff_pers.client_works import local_step
from tff_pers.client_works import router_alone
from tff_pers.client_works import router_training
from tff_pers.data import client_data
from tff_pers.models import adaptors


def train(
    adapted: adaptors.AdaptedModel,
    pi: tf.Tensor,
    weights: Any,
    data: Mapping[str, Any],
    *,
    rates: router_training.Rates,
    seed: tf.Tensor,
    precondition: bool = True,
    local: local_step.LocalStep = local_step.PLAIN,
    **budget: Any,
) -> tuple[Any, tf.Tensor]:
  """Returns (weights, mean minibatch loss) after local SGD of all C models.

    u   <- u   - eta sum_c pi_c grad_u f(u, a_c; b)
    a_c <- a_c - eta_lora grad_a f(u, a_c; b)           for every c

  An adaptor's step does not depend on pi_c; pi_c counts when adaptors are
  averaged. The loss is sum_c pi_c f(u, a_c; b).

  Args:
    adapted: An `adaptors.AdaptedModel`, C >= 1.
    pi: float[C], fixed.
    weights: Initial <adaptors, base>.
    data: Dense client data or a dataset of batches.
    rates: Step sizes; the router's has no effect.
    seed: int64[2] key of the batches.
    precondition: See `router_training.train`.
    local: The step.
    **budget: `batch_size`, and `num_steps` or `num_epochs`, see `fold_batches`.
  """

  rate = rates._asdict()

  def step(states, batch):
    w = router_training.model_weights(states)
    # Persistent, because two gradients are taken from it.
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(w)
      losses = model_losses(adapted, w, batch)
      # The mixture is outside the loss: the base gets sum_c pi_c grad_u f.
      loss = tf.reduce_sum(pi * losses)
    zero = tf.UnconnectedGradients.ZERO
    g_base = tape.gradient(loss, w['base'], unconnected_gradients=zero)
    # The gradient of the sum of losses. Adaptor c occurs only in the loss of
    # model c, so this is grad_a f(u, a_c; b), without the factor pi_c.
    g_adaptors = tape.gradient(
        losses, w['adaptors'], unconnected_gradients=zero
    )
    if precondition:
      g_adaptors = adapted.bounded(
          w['adaptors'], adapted.precondition(w['adaptors'], g_adaptors),
          rates.adaptors,
      )
    found = dict(
        adaptors=g_adaptors,
        base=tf.nest.map_structure(tf.convert_to_tensor, g_base),
    )
    return joint_step.apply(local, states, found, rate), loss

  states, loss = client_data.fold_batches(
      data, step, joint_step.start(local, weights, rate), seed=seed,
      reports=True, **budget,
  )
  return router_training.model_weights(states), loss


def exponential_router(
    adapted: adaptors.AdaptedModel, weights: Any, data: Mapping[str, Any], *,
    rate: float,
) -> tf.Tensor:
  """Returns logits -rate * f(u, a_c) of pi_c ~ exp(-rate f(u, a_c)).

  Their softmax minimizes sum_c pi_c f(u, a_c) + sum_c pi_c log(pi_c) / rate
  over the simplex (Eq. 34). The paper's rate decays like eta_t; a constant one
  keeps the router from becoming uniform again.

  Args:
    adapted: An `adaptors.AdaptedModel`.
    weights: <adaptors, base>.
    data: Dense client data or a dataset of batches; all are used, no dropout.
    rate: > 0, constant.
  """
  dtype = adapted.base.dtype
  losses = router_alone.full_mean(
      adapted.base,
      lambda batch: model_losses(adapted, weights, batch, training=False),
      data, tf.zeros([adapted.num_adaptors], dtype),
  )
  # Logits, because exp would underflow; softmax does not.
  return -tf.constant(rate, dtype) * losses


def model_losses(
    adapted: adaptors.AdaptedModel, weights: Any, batch: Any,
    training: bool = True,
) -> tf.Tensor:
  """Returns f(u, a_c; b) for every c, float[C]: C forward passes."""
  dtype = adapted.base.dtype
  only = tf.eye(adapted.num_adaptors, dtype=dtype)
  return tf.stack([
      adapted.mixed(only[c]).batch_loss(weights, batch, training)
      for c in range(adapted.num_adaptors)
  ])
