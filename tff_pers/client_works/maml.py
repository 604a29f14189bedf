"""MAML's client: the gradient of a loss after local steps, through the steps.

    a = x_1 = x;  k = 1, ..., J:
      x_{k+1} = x_k - gamma (grad f_i(x_k; S_k) + alpha (x_k - a))
    send  d/dx [ f_i(x_{J+1}; b) + alpha / 2 ||x_{J+1} - a||^2 ]

S_1, ..., S_J and b are drawn independently. On quadratics with full batches and
alpha = 0 the result is (I - gamma A)^(2J) A (x - c): gradient 2J + 1 on the
path of local steps, which is Theta_{2J+1} of the local update methods.

Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks
    Finn, Abbeel, Levine. ICML 2017.
Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Charles, Konecny. AISTATS 2021. Theorem 2.
"""

from typing import Any, Mapping

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_update
from tff_pers.data import client_data
from tff_pers.models import functional

# Uses of the key of (seed, round, client). The first support batch and the
# query batch are b and b' of Per-FedAvg.
_QUERY = 1


def support_uses(num_steps: int) -> list[int]:
  """Returns the uses of the key for S_1, ..., S_J."""
  return [k if k < _QUERY else k + 1 for k in range(num_steps)]


def meta_gradient(
    model: functional.FunctionalModel,
    x: Any,
    support: Mapping[str, Any],
    query: Mapping[str, Any],
    *,
    gamma: float,
    alpha: float = 0.0,
    stop_gradient_anchor: bool = True,
    proximal_outer: bool = True,
) -> tuple[Any, Any, tf.Tensor]:
  """Returns (gradient with respect to x, x_{J+1}, f_i(x_{J+1}; query)).

  With A the Hessian of a quadratic, c its minimizer and R = I - gamma (A +
  alpha I), the gradient is

    anchor constant, outer loss proximal     : R^(2J) A (x - c)
    anchor differentiated, outer loss plain  : M^2 A (x - c)
    anchor differentiated, outer loss proximal:
      (M^2 A + alpha (M - I)^2) (x - c)

  with M = R^J + alpha (A + alpha I)^(-1) (I - R^J). The first is Theta_{2J+1}
  with that alpha, the case that the theory covers.

  Args:
    model: The model; f_i is its mean loss over a batch.
    x: The model received.
    support: The batches S_1, ..., S_J, one for each step of the client.
    query: The batch of the outer loss.
    gamma: Step size.
    alpha: Strength of the proximal term, in the steps and in the outer loss.
    stop_gradient_anchor: Whether the anchor a is a constant, not x.
    proximal_outer: Whether the outer loss includes the proximal term.
  """
  with tf.GradientTape() as tape:
    # The weights are tensors; a tape only watches variables automatically.
    tape.watch(x)
    anchor = x
    if stop_gradient_anchor:
      anchor = tf.nest.map_structure(tf.stop_gradient, x)
    adapted = x
    for batch in support:
      # Inside the tape, because `loss_and_gradient` is differentiated again,
      # which gives products with the Hessian.
      _, gradient = model.loss_and_gradient(adapted, batch)
      if alpha:
        gradient = local_sgd.pulled(gradient, adapted, anchor, alpha)
      adapted = local_sgd.descend(adapted, gradient, gamma)
    loss = objective = model.batch_loss(adapted, query)
    if alpha and proximal_outer:
      distance = tf.nest.flatten(local_sgd.difference(adapted, anchor))
      squared = tf.add_n([tf.reduce_sum(tf.square(leaf)) for leaf in distance])
      objective += tf.constant(alpha / 2, squared.dtype) * squared
  gradient = tape.gradient(
      objective, x, unconnected_gradients=tf.UnconnectedGradients.ZERO
  )
  # The gradient of an embedding is an `IndexedSlices`.
  gradient = tf.nest.map_structure(tf.convert_to_tensor, gradient)
  return gradient, adapted, loss


def build_maml_work(
    model: functional.FunctionalModel,
    *,
    num_adaptation_steps: int,
    gamma: float,
    batch_size: int,
    client_weighting: str = 'examples',
    **options: Any,
) -> client_work.ClientWork:
  """Returns the client work: the update is the gradient through J steps.

  The reported loss is that of the adapted model, f_i(x_{J+1}; b). The graph
  contains J copies of a step, since each is differentiated, so J must be small.

  Args:
    model: The model.
    num_adaptation_steps: J, >= 1.
    gamma: Rate of the steps.
    batch_size: Examples per batch.
    client_weighting: See `client_work.client_weight`.
    **options: Options of `meta_gradient`.
  """
  uses = [*support_uses(num_adaptation_steps), _QUERY]

  def update(message, client_state, data):
    x = message['weights']

    def step(carry, batches):
      del carry  # There is one step, or none without examples.
      *support, query = batches
      total, adapted, loss = meta_gradient(
          model, x, support, query, gamma=gamma, **options
      )
      return (total, adapted), loss

    nothing = tf.nest.map_structure(tf.zeros_like, x)
    (total, adapted), loss = client_data.fold_batch_tuples(
        data, step, (nothing, x), num_steps=1, batch_size=batch_size,
        seeds=[client_work.key(message, data, use) for use in uses],
        reports=True,
    )
    weight = client_work.client_weight(client_weighting, data, batch_size)
    return local_update.as_output(
        message, client_state, local_update.Path(total, adapted, loss), weight
    )

  return client_work.ClientWork(update)
