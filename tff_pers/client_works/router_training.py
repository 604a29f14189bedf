"""Joint SGD of a client's router, the base model and the adaptors.

The client uses the model base + sum_c pi_c adaptor_c and descends in all three
at once. A `mix` function turns a router into the weights of the adaptors: from
logits, or from these weights themselves if they are known.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    FLoRAL, Algorithm 1.
"""

import collections
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np
import tensorflow as tf

from tff_pers.client_works import joint_step
from tff_pers.client_works import local_step
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors

_NOISE_USE = -1  # Separates the noise from a step's other draws.
# Slopes of the loss below this are noise, not a preference for an adaptor: for
# smaller slopes the scale-free step shrinks to 0.
_FLAT = 1e-3


class Rates(NamedTuple):
  """Step sizes, floats or scalar tensors; the number 0 freezes a part.

  Attributes:
    base: eta.
    adaptors: eta_lora.
    router: eta_router.
  """

  base: Any
  adaptors: Any
  router: Any = 0.0

  def scheduled(
      self, hyperparameters: Any, message: Mapping[str, Any]
  ) -> 'Rates':
    """Returns the step sizes of a round."""
    return Rates(*(
        local_step.scheduled(hyperparameters, message, rate) for rate in self
    ))


def build_softmax_mix(
    noise: float = 0.0, minimum: float = 0.0
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
  """Returns `(logits, seed) -> mix`: float[C] and int64[2] to float[C].

    mix = max(minimum, softmax(logits + noise * U[0, 1)^C))

  Args:
    noise: Size of the exploration noise, >= 0.
    minimum: Lower bound of every weight; the other weights are not rescaled,
      and no gradient flows to a bounded one.
  """

  def mix(logits, seed):
    if noise:
      # U[0, 1) as in the authors' code; its mean is equal in all logits and has
      # no effect.
      draw = tf.random.stateless_uniform(
          tf.shape(logits), random.fold_in(seed, _NOISE_USE),
          dtype=logits.dtype,
      )
      logits += tf.constant(noise, logits.dtype) * draw
    pi = tf.nn.softmax(logits)
    return tf.maximum(pi, tf.constant(minimum, pi.dtype)) if minimum else pi

  return mix


def known_mix(router: Any, seed: tf.Tensor) -> tf.Tensor:
  """Returns the mix of a router that holds the weights, float[C]."""
  del seed  # No noise.
  return router


def oracle_mix(
    groups: np.ndarray, index: tf.Tensor, num_adaptors: int, dtype: tf.DType
) -> tf.Tensor:
  """Returns 1 at the client's true cluster, or 1/C each if it is unknown.

  Args:
    groups: int32[N], true clusters; those of further clients are unknown.
    index: int32 scalar, the client.
    num_adaptors: C.
    dtype: Dtype of the result, [C].
  """
  # The index is clipped, because `tf.where` computes both of its branches and a
  # gather out of range fails.
  known = tf.one_hot(
      tf.gather(groups, tf.minimum(index, len(groups) - 1)), num_adaptors,
      dtype=dtype,
  )
  return tf.where(
      index < len(groups), known, tf.ones_like(known) / num_adaptors
  )


def gradients(
    adapted: adaptors.AdaptedModel, router: Any, weights: Any, batch: Any,
    mix: Callable[..., tf.Tensor], received: Any = None,
) -> Any:
  """Returns the loss and its gradients.

    g_u = G,  g_{a_c} = pi_c <G, d L_c / d a_c>,  g_theta = d loss / d theta

  with G the gradient at the effective weights, all at the same point
  (Algorithm 1). If the mixture of `received` adaptors hurts,
  <G, sum_c pi_c L^0_c> > 0, then <G, L^0_c> takes the place of <G, L_c> in
  g_theta.

  Args:
    adapted: An `adaptors.AdaptedModel`.
    router: float[C].
    weights: <adaptors, base>.
    batch: A `client_data.Batch`.
    mix: `(router, seed) -> float[C]`.
    received: The adaptors before the client's steps. None: Algorithm 1.

  Returns:
    The loss, the gradient of the router, and that of the weights.
  """
  with tf.GradientTape() as router_tape:
    router_tape.watch(router)
    pi = mix(router, batch.seed)
  unused = tf.zeros_like(pi)
  with tf.GradientTape() as tape:
    tape.watch((pi, unused, weights))
    used, all_weights = pi, weights
    if received is not None:
      # Received adaptors have no weight in the mixture, only slopes.
      used = tf.concat([pi, unused], 0)
      all_weights = collections.OrderedDict(
          weights, adaptors=adapted.beside(weights['adaptors'], received)
      )
    # Changes of weights are mixed, not the factors of the adaptors.
    loss = adapted.mixed(used).batch_loss(all_weights, batch)
  slopes, at_received, g = tape.gradient(
      loss, (pi, unused, weights),
      unconnected_gradients=tf.UnconnectedGradients.ZERO,
  )
  if received is not None:
    hurts = tf.reduce_sum(pi * at_received) > 0
    slopes = tf.where(hurts, at_received, slopes)
  g_theta = router_tape.gradient(
      pi, router, slopes,
      unconnected_gradients=tf.UnconnectedGradients.ZERO,
  )
  # Embeddings have `IndexedSlices` gradients; steps and norms need tensors.
  return loss, *tf.nest.map_structure(tf.convert_to_tensor, (g_theta, g))


def scale_free(g_theta: tf.Tensor, pi: tf.Tensor) -> tf.Tensor:
  """Returns the scale-free direction of the router's step.

    h / (max_c |h_c| + 1e-3),   h_c = g_theta_c / pi_c

  h_c is the slope of the loss in pi_c, minus the mean slope. Dividing by pi_c
  lets an adaptor of small weight move as fast as others; dividing by the
  largest |h_c| limits a logit's step to the step size, for any loss, C and pi.
  Ours: the paper's step is g_theta, which is 0 at the start, when adaptors have
  no effect, and stays small for a long time.

  Args:
    g_theta: float[C], the gradient of the logits.
    pi: float[C], the weights of the adaptors at these logits.
  """
  # A weight that has underflowed to 0 also has gradient 0 and stays.
  h = tf.math.divide_no_nan(g_theta, pi)
  return h / (tf.reduce_max(tf.abs(h)) + tf.constant(_FLAT, h.dtype))


def train(
    adapted: adaptors.AdaptedModel,
    router: Any,
    weights: Any,
    data: Mapping[str, Any],
    *,
    rates: Rates,
    seed: tf.Tensor,
    mix: Callable[..., tf.Tensor],
    router_step: str = 'gradient',
    precondition: bool = True,
    local: local_step.LocalStep = local_step.PLAIN,
    **budget: Any,
) -> tuple[Any, Any, tf.Tensor]:
  """Returns (router, weights, mean minibatch loss) after joint SGD.

  Every step takes all gradients at the same point, before any part moves.
  Gradients are preconditioned, then clipped by their joint norm.

  Args:
    adapted: An `adaptors.AdaptedModel`.
    router: Initial router, float[C].
    weights: Initial <adaptors, base>.
    data: Dense client data or a dataset of batches.
    rates: Step sizes.
    seed: int64[2] key of the batches.
    mix: `(router, seed) -> float[C]`, e.g. `build_softmax_mix()`.
    router_step: `gradient` (Algorithm 1) or `scale_free`, which looks at the
      initial adaptors, too (see `gradients`), and is not clipped because its
      size is bounded.
    precondition: Whether the gradients of low-rank factors are preconditioned
      (Appendix D), and steps bounded, see `AdaptedModel.bounded`.
    local: The step; routers do not decay.
    **budget: `batch_size`, and `num_steps` or `num_epochs`, see `fold_batches`.
  """
  rate = rates._asdict()
  is_scale_free = router_step == 'scale_free'
  unclipped = ('router',) if is_scale_free else ()
  # A client's steps fit all adaptors to its own data, soonest those whose
  # random factors suit it, and hide that what it received does not. Clusters
  # of opposite labels would so agree on one adaptor, and average it away.
  received = None
  if is_scale_free and local_step.moves(rates.router):
    received = weights['adaptors']

  def step(states, batch):
    theta, w = states['router'].weights, model_weights(states)
    loss, g_theta, g = gradients(adapted, theta, w, batch, mix, received)
    if is_scale_free:
      # The weights of this forward pass, including noise.
      g_theta = scale_free(g_theta, mix(theta, batch.seed))
    g_adaptors = g['adaptors']
    if precondition:
      # With the old factors, each with the other's Gram matrix.
      g_adaptors = adapted.bounded(
          w['adaptors'], adapted.precondition(w['adaptors'], g_adaptors),
          rates.adaptors,
      )
    # A joint step, not alternating ones: theta, u and a_c move from the same
    # point (Algorithm 1).
    found = dict(adaptors=g_adaptors, base=g['base'], router=g_theta)
    return joint_step.apply(
        local, states, found, rate, undecayed=('router',), unclipped=unclipped
    ), loss

  parts = collections.OrderedDict(weights, router=router)
  states, loss = client_data.fold_batches(
      data, step, joint_step.start(local, parts, rate), seed=seed,
      reports=True, **budget,
  )
  return states['router'].weights, model_weights(states), loss


def model_weights(states: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns <adaptors, base> of the training states."""
  return collections.OrderedDict(
      (part, states[part].weights) for part in ('adaptors', 'base')
  )
