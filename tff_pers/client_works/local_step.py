"""The local step that every method takes with the gradient of a minibatch.

    d <- min(1, clip_norm / ||g||) g + weight_decay w
    m <- momentum m + d
    w <- w - eta(t) m

Momentum is the heavy ball, without dampening; m starts at 0 whenever a client
takes part and is discarded afterwards. Weight decay is the L2 penalty
weight_decay / 2 ||w||^2 on the objective, as in PyTorch's SGD, not decoupled
from the gradient: a method that scales its step (PERM by s_i alpha_i(c)) also
scales the decay. The norm is that of all tensors of a step, before the penalty
is added. eta(t) depends only on the round, see `scheduled`.

Moving statistics of batch normalization are weights that a batch moves by its
own amount, stored in g: w <- w - g, without clipping, decay, momentum or eta.

Some methods of speeding up the convergence of iteration methods (momentum).
    Polyak. USSR Computational Mathematics and Mathematical Physics, 1964.
On the difficulty of training recurrent neural networks (clipping by norm).
    Pascanu, Mikolov, Bengio. ICML 2013.
Decoupled Weight Decay Regularization (L2 against decoupled).
    Loshchilov, Hutter. ICLR 2019.
"""

import dataclasses
import math
from typing import Any, Mapping, NamedTuple

import tensorflow as tf

from tff_pers.models import functional


class SgdState(NamedTuple):
  """State of SGD; a method may train several such states at once.

  Attributes:
    weights: A structure of tensors.
    momentum: m, a structure like `weights`; `()` without momentum.
  """

  weights: Any
  momentum: Any


@dataclasses.dataclass(frozen=True)
class LocalStep:
  """A step from one minibatch; without arguments w <- w - eta g.

  Attributes:
    momentum: In [0, 1); 0 is none.
    weight_decay: Coefficient of the L2 penalty.
    clip_norm: Largest norm of a gradient; 0 is no limit.
    statistics: Which leaves are moving statistics, see `of`.
  """

  momentum: float = 0.0
  weight_decay: float = 0.0
  clip_norm: float = 0.0
  statistics: tuple[bool, ...] = ()

  def of(self, model: functional.FunctionalModel) -> 'LocalStep':
    """Returns the step for weights of `model`, which may have statistics."""
    return dataclasses.replace(self, statistics=model.statistics)

  def start(self, weights: Any) -> SgdState:
    """Returns the state at the start of a client's work."""
    if not self.momentum:
      return SgdState(weights, ())
    return SgdState(weights, tf.nest.map_structure(tf.zeros_like, weights))

  def apply(self, sgd: SgdState, gradient: Any, learning_rate: Any) -> SgdState:
    """Returns the state after a step.

    Args:
      sgd: State at whose weights the gradient was taken.
      gradient: A structure like the weights.
      learning_rate: eta(t), a float or a scalar tensor.
    """
    direction, momentum = self.direction_and_momentum(sgd, gradient)
    weights = self.moved(sgd.weights, direction, learning_rate)
    return SgdState(weights, momentum)

  def moved(self, weights: Any, direction: Any, learning_rate: Any) -> Any:
    """Returns w - eta d; statistics move by d for every eta."""
    return descend(weights, direction, learning_rate, self.statistics)

  def direction_and_momentum(
      self, sgd: SgdState, gradient: Any
  ) -> tuple[Any, Any]:
    """Returns (the change of a step of size 1, the momentum after it)."""
    direction = self.direction(sgd.weights, gradient)
    if not self.momentum:
      return direction, ()
    # m <- momentum m + d. Without dampening, a constant d leads to steps of
    # eta d / (1 - momentum).
    momentum = tf.nest.map_structure(
        lambda m, d: tf.constant(self.momentum, d.dtype) * m + d,
        sgd.momentum, direction,
    )
    return self.with_statistics(momentum, direction), momentum

  def with_statistics(self, structure: Any, source: Any) -> Any:
    """Returns `structure` with the moving statistics of `source`."""
    return functional.at_statistics(
        self.statistics, lambda _, statistic: statistic, structure, source
    )

  def direction(self, weights: Any, gradient: Any) -> Any:
    """Returns d: the clipped gradient plus that of the penalty."""
    if self.clip_norm:
      gradient = clip(gradient, self.clip_norm, self.statistics)
    return self.with_statistics(self.penalized(weights, gradient), gradient)

  def penalized(self, weights: Any, gradient: Any) -> Any:
    """Returns the gradient plus that of the penalty."""
    if not self.weight_decay:
      return gradient
    return tf.nest.map_structure(
        lambda g, w: g + tf.constant(self.weight_decay, g.dtype) * w,
        gradient, weights,
    )


PLAIN = LocalStep()


def build(hyperparameters: Any) -> LocalStep:
  """Returns the local step that a `hyperparameters.LocalTraining` describes."""
  return LocalStep(
      momentum=hyperparameters.momentum,
      weight_decay=hyperparameters.weight_decay,
      clip_norm=hyperparameters.clip_norm,
  )


def descend(
    weights: Any, gradient: Any, learning_rate: Any,
    statistics: tuple[bool, ...] = (),
) -> Any:
  """Returns `weights - learning_rate * gradient`, leaf by leaf.

  Args:
    weights: A structure of tensors.
    gradient: A structure alike.
    learning_rate: A float or a scalar tensor.
    statistics: Leaves whose rate is 1; see `LocalStep.statistics`.
  """
  def descend_leaf(w, g):
    # The dtype hint converts a Python float directly to w's dtype: `tf.cast`
    # alone would go through float32 and lose digits in float64.
    rate = tf.convert_to_tensor(learning_rate, dtype_hint=w.dtype)
    return w - tf.cast(rate, w.dtype) * g
  moved = tf.nest.map_structure(descend_leaf, weights, gradient)
  return averaged_statistics(moved, weights, gradient, statistics)


def averaged_statistics(
    moved: Any, weights: Any, update: Any, statistics: tuple[bool, ...]
) -> Any:
  """Returns `moved` with moving statistics `weights - update`.

  Args:
    moved: Weights after a step of any kind.
    weights: Weights before the step.
    update: Update of the step, e.g. the mean of all clients' updates.
    statistics: See `LocalStep.statistics`.
  """
  return functional.at_statistics(
      statistics, lambda _, w, u: w - u, moved, weights, update
  )


def moves(learning_rate: Any) -> bool:
  """Returns whether a part with this step size is trained: it is not 0."""
  # A graph cannot know whether a tensor is 0; only the number 0 freezes.
  return tf.is_tensor(learning_rate) or bool(learning_rate)


def clip(
    gradient: Any, limit: float, statistics: tuple[bool, ...] = ()
) -> Any:
  """Returns the gradient, scaled down if its norm exceeds `limit`.

  Moving statistics are ignored in the norm and not scaled.

  A gradient with a non-finite norm becomes NaN, not 0, so that the client
  counts as not finite, not as one that does not move.
  """
  norm = tf.linalg.global_norm(tf.nest.flatten(
      functional.at_statistics(statistics, tf.zeros_like, gradient)
  ))
  limit = tf.constant(limit, norm.dtype)
  # limit / limit is exactly 1, so a short gradient stays bit-identical.
  scale = tf.where(
      tf.math.is_finite(norm), limit / tf.maximum(norm, limit),
      tf.constant(math.nan, norm.dtype),
  )
  clipped = tf.nest.map_structure(
      lambda g: tf.cast(scale, g.dtype) * g, gradient
  )
  return functional.at_statistics(
      statistics, lambda _, g: g, clipped, gradient
  )


def scheduled(
    hyperparameters: Any, message: Mapping[str, Any], learning_rate: Any
) -> Any:
  """Returns the step size of a round: `learning_rate` times the schedule.

  With T = `learning_rate_rounds` and d = `learning_rate_decay`, round t = 0, 1,
  ... has the factor

    exponential : d^(t / T)
    cosine      : d + (1 - d) (1 + cos(pi min(t / T, 1))) / 2
    steps       : d^(number of the given rounds that are <= t)
    linear      : min((t + 1) / (T / 10), (T - min(t, T - 1)) / (0.9 T)), from
                  1 / (T / 10) up to at most 1 and down to 1 / (0.9 T), never 0

  Args:
    hyperparameters: A `hyperparameters.LocalTraining`.
    message: Has the field `round`.
    learning_rate: Step size of round 0; a rate of 0 is returned unchanged.
  """
  kind = hyperparameters.learning_rate_schedule
  if kind == 'constant' or not moves(learning_rate):
    return learning_rate
  rounds = hyperparameters.schedule_rounds()
  # In float64; `descend` casts the rate to the weights' dtype.
  t = tf.cast(message['round'], tf.float64)
  decay = tf.constant(hyperparameters.learning_rate_decay, tf.float64)
  if kind == 'cosine':
    angle = math.pi * tf.minimum(t / rounds[0], 1.0)
    factor = decay + (1 - decay) * (1 + tf.cos(angle)) / 2
  elif kind == 'exponential':
    factor = decay ** (t / rounds[0])
  elif kind == 'linear':
    left = rounds[0] - tf.minimum(t, rounds[0] - 1.0)
    # A schedule of fewer than ten rounds has no warm-up.
    factor = tf.minimum(
        tf.minimum((t + 1) / (rounds[0] / 10), left / (0.9 * rounds[0])), 1.0
    )
  else:
    passed = tf.constant(rounds, tf.float64) <= t
    factor = decay ** tf.reduce_sum(tf.cast(passed, tf.float64))
  rate = tf.convert_to_tensor(learning_rate, dtype_hint=tf.float64)
  return tf.cast(rate, tf.float64) * factor
