"""Server optimizers that TFF lacks or defines differently.

Nesterov's momentum, in the form that stores the look-ahead point:

    m <- beta m + g
    w <- w - eta (g + beta m)

The adaptive optimizers, as in their paper. The server of FedAvg moves by D, the
mean of u_i - w. Per coordinate, from m = 0 and v = v_0:

    m <- beta1 m + (1 - beta1) D
    v <- v + D^2                                    (FedAdagrad)
         beta2 v + (1 - beta2) D^2                  (FedAdam)
         v - (1 - beta2) D^2 sign(v - D^2)          (FedYogi)
    w <- w + eta_g m / (sqrt(v) + epsilon)

TFF's own Adam and Yogi correct the bias of m and v; its Adagrad has no m, and
epsilon is inside the root. Trajectories differ, most of all in early rounds. A
TFF optimizer subtracts a "gradient", which is -D here: the mean of w - u_i,
which our clients send.

Adaptive Federated Optimization
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. ICLR 2021.
    Algorithm 2.
Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
(Nesterov's momentum).
    Charles, Konecny. AISTATS 2021.
"""

import collections
from typing import Callable, Optional

import tensorflow as tf

from tff_pers import tff

_RATE = tff.learning.optimizers.LEARNING_RATE_KEY


def build_heavy_ball(
    learning_rate: float, beta: float, dtype: tf.DType
) -> tff.learning.optimizers.Optimizer:
  """Returns m <- beta m + g, w <- w - eta m: TFF's own momentum.

  Args:
    learning_rate: eta.
    beta: Momentum, in [0, 1), without dampening.
    dtype: Dtype of the weights.
  """
  # NumPy numbers of the weights' type, because TFF's optimizer multiplies
  # tensors by them.
  number = dtype.as_numpy_dtype
  return tff.learning.optimizers.build_sgdm(number(learning_rate), number(beta))


class _Optimizer(tff.learning.optimizers.Optimizer):
  """An optimizer whose hyperparameters are in its state, by name.

  As in TFF's optimizers, a program can change them. They have the dtype of the
  weights: float64 stays float64.
  """

  def __init__(self, hparams):
    self._hparams = hparams

  def get_hparams(self, state):
    return collections.OrderedDict(
        (name, state[name]) for name in self._hparams
    )

  def set_hparams(self, state, hparams):
    return collections.OrderedDict(state, **hparams)


class _Nesterov(_Optimizer):
  """Momentum that looks ahead; the state is `<learning_rate, beta, m>`."""

  def initialize(self, specs):
    state = _as_tensors(self._hparams, specs)
    state['m'] = tf.nest.map_structure(
        lambda spec: tf.zeros(spec.shape, spec.dtype), specs
    )
    return state

  def next(self, state, weights, gradients):
    beta = lambda g: tf.cast(state['beta'], g.dtype)
    m = tf.nest.map_structure(
        lambda m, g: beta(g) * m + g, state['m'], gradients
    )
    moved = tf.nest.map_structure(
        lambda w, m, g: w - tf.cast(state[_RATE], w.dtype) * (g + beta(g) * m),
        weights, m, gradients,
    )
    return collections.OrderedDict(state, m=m), moved


def build_nesterov(
    learning_rate: float, beta: float = 0.9
) -> tff.learning.optimizers.Optimizer:
  """Returns Nesterov's momentum, without dampening; beta = 0 is plain descent.

  TFF's own momentum, `build_sgdm`, is the heavy ball.

  Args:
    learning_rate: eta.
    beta: Momentum, in [0, 1).
  """
  return _Nesterov(
      collections.OrderedDict({_RATE: learning_rate, 'beta': beta})
  )


class _Adaptive(_Optimizer):
  """Algorithm 2; the three methods differ in `second_moment`.

  The state is `<learning_rate, beta1[, beta2], epsilon, m, v>`.
  """

  def __init__(
      self, hparams, initial_v: Optional[float], second_moment: Callable
  ):
    """Initializes the optimizer.

    Args:
      hparams: Hyperparameters by name.
      initial_v: v_0 in every coordinate; None: epsilon^2, as in the paper.
      second_moment: `(state, v, D^2) -> v`.
    """
    super().__init__(hparams)
    self._initial_v = (
        hparams['epsilon'] ** 2 if initial_v is None else initial_v
    )
    self._second_moment = second_moment

  def initialize(self, specs):
    state = _as_tensors(self._hparams, specs)
    fill = lambda value: tf.nest.map_structure(
        lambda spec: tf.cast(tf.fill(spec.shape, value), spec.dtype), specs
    )
    # A multiple of a float64 tensor, because `tf.cast` of a Python float goes
    # through float32.
    one = tf.constant(1.0, tf.float64)
    state.update(m=fill(0 * one), v=fill(self._initial_v * one))
    return state

  def next(self, state, weights, gradients):
    def mean(m, g):
      beta1 = tf.cast(state['beta1'], g.dtype)
      return beta1 * m + (1 - beta1) * g

    def step(w, m, v):
      rate = tf.cast(state[_RATE], w.dtype)
      # epsilon outside the root, as in the paper.
      return w - rate * m / (tf.sqrt(v) + tf.cast(state['epsilon'], w.dtype))

    # m <- beta1 m + (1 - beta1) g with g = -D, so m has the opposite sign of
    # the paper's, and `step` subtracts it.
    m = tf.nest.map_structure(mean, state['m'], gradients)
    v = tf.nest.map_structure(
        lambda v, g: self._second_moment(state, v, tf.square(g)),
        state['v'], gradients,
    )
    moved = tf.nest.map_structure(step, weights, m, v)
    return collections.OrderedDict(state, m=m, v=v), moved


def build_fedadagrad(
    learning_rate: float = 0.1,
    beta1: float = 0.9,
    epsilon: float = 1e-3,
    initial_v: Optional[float] = None,
) -> tff.learning.optimizers.Optimizer:
  """Returns FedAdagrad; see the module for the formulas.

  Args:
    learning_rate: eta_g.
    beta1: Decay of m; 0 is Adagrad without momentum.
    epsilon: Added to the root of v, > 0.
    initial_v: v_0, >= 0; None is epsilon^2.
  """
  hparams = _hparams(learning_rate, beta1, epsilon)
  return _Adaptive(
      hparams, initial_v, lambda state, v, squared: v + squared
  )


def build_fedadam(
    learning_rate: float = 0.1,
    beta1: float = 0.9,
    beta2: float = 0.99,
    epsilon: float = 1e-3,
    initial_v: Optional[float] = None,
) -> tff.learning.optimizers.Optimizer:
  """Returns FedAdam, without correction of the bias.

  Args:
    learning_rate: eta_g.
    beta1: Decay of m.
    beta2: Decay of v.
    epsilon: Added to the root of v, > 0.
    initial_v: v_0, >= 0; None is epsilon^2.
  """

  def second_moment(state, v, squared):
    beta2 = tf.cast(state['beta2'], v.dtype)
    return beta2 * v + (1 - beta2) * squared

  return _Adaptive(
      _hparams(learning_rate, beta1, epsilon, beta2), initial_v, second_moment
  )


def build_fedyogi(
    learning_rate: float = 0.1,
    beta1: float = 0.9,
    beta2: float = 0.99,
    epsilon: float = 1e-3,
    initial_v: Optional[float] = None,
) -> tff.learning.optimizers.Optimizer:
  """Returns FedYogi: v moves towards D^2 by a step that does not depend on v.

  Args: see `build_fedadam`.
  """

  def second_moment(state, v, squared):
    beta2 = tf.cast(state['beta2'], v.dtype)
    # v moves by (1 - beta2) D^2, however far it is from D^2; Adam's step is
    # proportional to the distance.
    return v - (1 - beta2) * squared * tf.sign(v - squared)

  return _Adaptive(
      _hparams(learning_rate, beta1, epsilon, beta2), initial_v, second_moment
  )


def _as_tensors(hparams, specs):
  """Returns the hyperparameters as tensors of the dtype of the weights."""
  dtype = tf.nest.flatten(specs)[0].dtype
  return collections.OrderedDict(
      (name, tf.convert_to_tensor(value, dtype))
      for name, value in hparams.items()
  )


def _hparams(learning_rate, beta1, epsilon, beta2=None):
  named = {_RATE: learning_rate, 'beta1': beta1}
  if beta2 is not None:
    named['beta2'] = beta2
  return collections.OrderedDict(named, epsilon=epsilon)
