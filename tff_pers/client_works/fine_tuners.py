"""Fine-tuners: a client learns private weights w with frozen global ones.

    w ~ argmin_w f_m(theta, w)

A fine-tuner is a TensorFlow function

    (model, w, data, *, learning_rate, seed, **budget) -> w

of the model over the private weights (`Partition.private_model`), the initial
private weights, and the client's data; step size, key and budget (see
`fold_batches`) are for fine-tuners that take minibatch steps.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025. Algorithm 2, Remark 2.
"""

from typing import Any, Callable

import tensorflow as tf

from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.numerics import distances
from tff_pers import tff

FineTuner = Callable[..., Any]

# The exact solve holds a square matrix of this size per client.
_MOST_SOLVED = 5000


def sgd(local: local_step.LocalStep = local_step.PLAIN) -> FineTuner:
  """Returns Algorithm 2: w <- w - gamma_w grad_w f_m(theta, w; b), tau times.

  Args:
    local: The step. With batches of all examples it is gradient descent.
  """

  def tune(model, own, data, *, learning_rate, seed, **budget):
    return local_sgd.train(
        model, own, data, learning_rate=learning_rate, seed=seed, local=local,
        **budget,
    )[0]

  return tune


def optimizer(
    tff_optimizer: tff.learning.optimizers.Optimizer,
    local: local_step.LocalStep = local_step.PLAIN,
) -> FineTuner:
  """Returns minibatch steps of an optimizer, which restarts every time.

  Args:
    tff_optimizer: Its own step size is replaced by `learning_rate`.
    local: Clips the gradients and adds the penalty; momentum is the
    optimizer's.
  """
  rate = tff.learning.optimizers.LEARNING_RATE_KEY

  def tune(model, own, data, *, learning_rate, seed, **budget):
    dtype = model.dtype
    state = tff_optimizer.initialize(model.spec)
    state = tff_optimizer.set_hparams(
        state,
        {
            **tff_optimizer.get_hparams(state),
            rate: tf.cast(
                tf.convert_to_tensor(learning_rate, dtype_hint=dtype), dtype
            ),
        },
    )
    # Loop variables have one dtype; a Python number would become float32.
    state = tf.nest.map_structure(
        lambda x: x if tf.is_tensor(x) else tf.constant(x, dtype), state
    )

    def step(carry, batch):
      state, weights = carry
      _, gradient = model.loss_and_gradient(weights, batch)
      state, moved = tff_optimizer.next(
          state, weights, local.of(model).direction(weights, gradient)
      )
      return state, local_step.averaged_statistics(
          moved, weights, gradient, model.statistics
      )

    return client_data.fold_batches(
        data, step, (state, own), seed=seed, **budget
    )[1]

  return tune


def conjugate_gradient() -> FineTuner:
  """Returns `num_steps` iterations of conjugate gradient on all examples.

  For losses that are quadratic in w, f = 1/2 w'Qw - w'c + ...: the gradient at
  w differs from the initial one by Q times the displacement. As many iterations
  as w has numbers give the exact solution up to rounding.
  """

  def tune(model, own, data, *, num_steps, seed, **unused):
    del unused  # It chooses its step sizes, and uses all examples at once.
    slope, at_start = _quadratic(model, own, data, seed)
    residual = -at_start

    def iteration(_, step, residual, direction):
      curved = slope(direction)  # Q d
      squared = _dot(residual, residual)
      length = _quotient(squared, _dot(direction, curved))
      step += length * direction
      residual -= length * curved
      turn = _quotient(_dot(residual, residual), squared)
      return _ + 1, step, residual, residual + turn * direction

    _, step, _, _ = tf.while_loop(
        lambda i, *_: i < num_steps, iteration,
        (tf.constant(0), tf.zeros_like(residual), residual, residual),
    )
    return _moved(own, step)

  return tune


def exact() -> FineTuner:
  """Returns the exact solution for losses that are quadratic in w.

  It is w - Q^+ grad_w f_m(theta, w): of all minimizers the one nearest to the
  start, so the one of smallest norm if the start is 0. Costs d_w gradients on
  all examples at once, and d_w^3.
  """

  def tune(model, own, data, *, seed, **unused):
    del unused  # As above.
    slope, at_start = _quadratic(model, own, data, seed)
    hessian = tf.map_fn(slope, tf.eye(tf.size(at_start), dtype=at_start.dtype))
    # Rounding leaves it slightly asymmetric.
    hessian = (hessian + tf.transpose(hessian)) / 2
    return _moved(own, -tf.linalg.matvec(tf.linalg.pinv(hessian), at_start))

  return tune


def _quadratic(model, own, data, seed):
  """Returns (d -> Q d, the gradient at `own`), vectors of the length of w."""
  # All examples at once, because there are many gradients: no inner loop.
  batch = client_data.whole_batch(data, seed)

  def gradient(weights):
    _, slope = model.loss_and_gradient(weights, batch, training=False)
    return distances.flatten(slope)

  at_start = gradient(own)
  return lambda d: gradient(_moved(own, d)) - at_start, at_start


def _moved(own, step):
  """Returns `own` plus a vector that is split into its leaves."""
  leaves = tf.nest.flatten(own)
  parts = tf.split(step, [leaf.shape.num_elements() for leaf in leaves])
  return tf.nest.pack_sequence_as(
      own,
      [leaf + tf.reshape(p, leaf.shape) for leaf, p in zip(leaves, parts)],
  )


def _dot(a, b):
  return tf.reduce_sum(a * b)


def _quotient(a, b):
  # Once the solution is reached, residual and direction are 0 and stay so.
  return tf.math.divide_no_nan(a, b)


def check_quadratic(
    model: functional.FunctionalModel, weights: Any, name: str
) -> None:
  """Checks numerically that the loss is quadratic in the weights.

  The second difference of the gradient, g(w + 2d) - 2 g(w + d) + g(w), is 0 for
  quadratics; it is evaluated on random examples in random directions.

  Args:
    model: The model.
    weights: Point at which to check.
    name: Value of the hyperparameter that needs it, for the message.

  Raises:
    ValueError: If it is not quadratic, or there are too many weights to solve.
  """
  if name == 'exact' and model.num_parameters > _MOST_SOLVED:
    raise ValueError(
        f'`tuner` must not be exact with more than {_MOST_SOLVED} private'
        f' parameters, found {model.num_parameters}. Tip: tuner=cg.'
    )
  rng = tf.random.Generator.from_seed(0)
  x, y = tf.nest.map_structure(
      lambda spec: _random(spec, rng), (model.x_spec, model.y_spec)
  )
  batch = client_data.Batch(
      x, y, tf.ones([_PROBES], tf.bool), tf.zeros([2], tf.int64),
  )
  way = tf.nest.map_structure(
      lambda w: rng.normal(w.shape, dtype=w.dtype), weights
  )
  g = [
      distances.flatten(
          model.loss_and_gradient(
              tf.nest.map_structure(lambda w, d: w + t * d, weights, way),
              batch, training=False,
          )[1]
      )
      for t in (0.0, 1.0, 2.0)
  ]
  size = tf.add_n([tf.norm(x) for x in g])
  # Rounding in float32 leaves about 1e-6; other losses far more.
  if not tf.norm(g[2] - 2 * g[1] + g[0]) <= 1e-3 * size:
    raise ValueError(
        '`tuner` must be sgd or adam because the loss is not quadratic in'
        f' {model.name}, as {name} needs it, found {name}.'
    )


_PROBES = 16  # Examples.


def _random(spec: tf.TensorSpec, rng):
  shape = [_PROBES, *(2 if n is None else n for n in spec.shape[1:])]
  if spec.dtype.is_floating:
    return rng.normal(shape, dtype=spec.dtype)
  return tf.zeros(shape, spec.dtype)  # Valid as labels and as words.
