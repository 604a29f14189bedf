"""The client update of local update methods: a weighted sum of gradients.

    x_1 = x, the model received;  k = 1, ..., K(Theta):
      g_k     = grad f_i(x_k; b_k) + alpha (x_k - x)
      x_{k+1} = x_k - gamma g_k
    send sum_k theta_k g_k

Clients send gradients, including that of the proximal term: neither their mean
nor a difference of models. So gamma, the step size of the clients, may be 0,
and the step size eta of the server does not depend on it.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Charles, Konecny. AISTATS 2021. https://arxiv.org/abs/2103.05032
"""

import math
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers import number_inputs
from tff_pers.numerics import thetas

# gamma, or `message -> gamma`, e.g. of a schedule.
Rate = Union[float, Callable[[Any], Any]]


class Path(NamedTuple):
  """The result of a client's local steps.

  Attributes:
    total: sum_k theta_k g_k, a structure like the weights.
    final: x_{K+1}.
    loss: Scalar, the mean minibatch loss over the steps.
  """

  total: Any
  final: Any
  loss: Any


def walk(
    model: functional.FunctionalModel,
    x: Any,
    data: Mapping[str, Any],
    *,
    gamma: tf.Tensor,
    seed: tf.Tensor,
    theta: Optional[Sequence[float]] = None,
    alpha: float = 0.0,
    local: local_step.LocalStep = local_step.PLAIN,
    **budget: Any,
) -> Path:
  """Takes local steps from `x` and returns their summary.

  `local` may clip g_k, add weight decay, or give the steps momentum. Then the
  sum is over the direction d_k of each step, x_{k+1} = x_k - gamma d_k, so that
  gamma times the sum of all is always x - x_{K+1}.

  Args:
    model: The model; f_i is its mean loss on client i.
    x: The model received, a structure like `model.spec`; also the anchor of the
      proximal term.
    data: Dense client data or a dataset of batches.
    gamma: Rate >= 0, a float or a scalar tensor.
    seed: int64[2] key of the batches.
    theta: Weights of the gradients, whose number is the number of steps; the
      last one is not zero (`numerics.thetas`). None: all weights are 1, with as
      many steps as `budget` says.
    alpha: Strength >= 0 of the proximal term alpha / 2 ||x_k - x||^2.
    local: The step.
    **budget: `batch_size`; without `theta` also `num_steps` or `num_epochs`;
      `independent`; see `fold_batches`.
  """
  if theta is not None:
    budget['num_steps'] = len(theta)
  local = local.of(model)

  def theta_at(k):
    return tf.gather(tf.constant(theta, tf.float64), k)

  def step(carry, batch):
    sgd, total, k = carry
    loss, gradient = model.loss_and_gradient(sgd.weights, batch)
    if alpha:
      # g_k <- g_k + alpha (x_k - x)
      pulled = local_sgd.pulled(gradient, sgd.weights, x, alpha)
      gradient = local.with_statistics(pulled, gradient)
    direction, momentum = local.direction_and_momentum(sgd, gradient)
    total = _add(total, direction, None if theta is None else theta_at(k))
    weights = sgd.weights
    if local_step.moves(gamma):  # With gamma = 0, all gradients are at x.
      weights = local.moved(weights, direction, gamma)
    return (local_step.SgdState(weights, momentum), total, k + 1), loss

  nothing = tf.nest.map_structure(tf.zeros_like, x)
  (sgd, total, _), loss = client_data.fold_batches(
      data, step, (local.start(x), nothing, tf.constant(0)), seed=seed,
      reports=True, **budget,
  )
  return Path(total, sgd.weights, loss)


def _add(total, direction, weight):
  """Returns `total + weight * direction`; a weight of None is 1."""
  if weight is None:
    return tf.nest.map_structure(tf.add, total, direction)
  return tf.nest.map_structure(
      lambda t, d: t + tf.cast(weight, d.dtype) * d, total, direction
  )


def build_local_update(
    model: functional.FunctionalModel,
    *,
    gamma: Rate,
    theta: Optional[Sequence[float]] = None,
    alpha: float = 0.0,
    local: local_step.LocalStep = local_step.PLAIN,
    client_weighting: str = 'examples',
    **budget: Any,
) -> client_work.ClientWork:
  """Returns the client work: the update is sum_k theta_k g_k.

  Args:
    model: The model.
    gamma: See `Rate`.
    theta: See `walk`.
    alpha: See `walk`.
    local: See `walk`.
    client_weighting: See `client_work.client_weight`.
    **budget: See `walk`; at least `batch_size`.

  Raises:
    ValueError: If `theta`, `alpha` or `gamma` is out of range.
  """
  if theta is not None:
    theta = thetas.Gradients(tuple(theta)).theta
  for name, value in (('alpha', alpha), ('gamma', gamma)):
    if not callable(value) and not 0 <= number_inputs.plain(value) < math.inf:
      raise ValueError(f'`{name}` must be a number >= 0, found {value}.')

  def update(message, client_state, data):
    path = walk(
        model, message['weights'], data, theta=theta, alpha=alpha, local=local,
        gamma=gamma(message) if callable(gamma) else gamma,
        seed=client_work.key(message, data), **budget,
    )
    weight = client_work.client_weight(
        client_weighting, data, budget['batch_size']
    )
    return as_output(message, client_state, path, weight)

  return client_work.ClientWork(update)


def as_output(
    message: Mapping[str, Any], client_state: Any, path: Path, weight: tf.Tensor
) -> client_work.ClientOutput:
  """Returns what a client sends after its steps, and how far it moved.

  Args:
    message: The message that the client received.
    client_state: Its next state.
    path: Result of its steps.
    weight: Its weight in the mean.
  """
  way = local_sgd.difference(message['weights'], path.final)
  return client_work.ClientOutput(
      client_state=client_state,
      update=path.total,
      weight=weight,
      loss=path.loss,
      # ||x_{K+1} - x||
      metrics=dict(drift=tf.linalg.global_norm(tf.nest.flatten(way))),
  )
