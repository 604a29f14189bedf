"""Converts Keras metrics with a state, such as AUC, to functions of sums.

Most of Keras' metrics add the contributions of a batch to variables, and their
result is a function of these. If they start from zeros, the variables after a
batch are the sums over its examples; sums of several batches, or of several
clients, are added.
"""

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from tff_pers.models import captured
from tff_pers.models import example_values
from tff_pers.models import functional

_TOLERANCE = dict(rtol=1e-4, atol=1e-5)


def state_of(
    name: str, metric: tf.keras.metrics.Metric, examples: example_values.Trial
) -> functional.State:
  """Returns a metric as a function of sums, tried on the examples.

  Its variables are set to zero once, and never changed later.

  Raises:
    ValueError: If it is not a function of sums over examples, or fails.
  """
  expand = examples.lacks_axis

  def sums(y, predictions, weight):
    mask = None
    if isinstance(y, example_values.Masked):
      y, mask = y
    ones = [1] * (predictions.shape.rank - 2)
    if ones:  # A weight for each step.
      weight = tf.reshape(weight, [-1, *ones])
      weight *= tf.ones(tf.shape(predictions)[:-1], weight.dtype)
    if mask is not None:
      weight *= tf.cast(mask, weight.dtype)
    held = [_Cell(tf.zeros(v.shape, v.dtype)) for v in metric.variables]
    with _standing_in(metric, held):
      metric.update_state(
          y[..., None] if expand else y, predictions, sample_weight=weight
      )
    return [cell.value for cell in held]

  def result(sums):
    with _standing_in(metric, [_Cell(tensor) for tensor in sums]):
      return tf.cast(metric.result(), tf.float32)

  try:
    metric.update_state(  # Some create their variables only now.
        examples.y[..., None] if expand else examples.y, examples.predictions
    )
    metric.reset_state()
    starts_at_zero = not any(np.any(v.numpy()) for v in metric.variables)
    found = functional.State(
        _in_any_graph(sums, [*examples, tf.ones([examples.y.shape[0]])]),
        _in_any_graph(result, [[
            tf.zeros(v.shape, v.dtype) for v in metric.variables
        ]]),
    )
    adds = starts_at_zero and _adds(found, examples)
  except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
    raise ValueError(
        f'`metrics` must take labels, predictions and `sample_weight`, found'
        f' {name!r}, which fails with {example_values.first_line(error)}.'
    ) from None
  if not adds or found.result(sums(*examples, tf.ones([3]))).shape.rank:
    raise ValueError(
        '`metrics` must be numbers made of sums over examples, because clients'
        f' send their sums, found {name!r}, which is not. Tip: compute it from'
        ' the predictions of what `process.deploy` returns.'
    )
  return found


class _Cell:
  """A stand-in for a variable of a metric."""

  def __init__(self, value: tf.Tensor):
    self.value = value

  def attributes(self) -> dict[str, Any]:
    """Returns the members by which TensorFlow reads and writes variables."""
    return dict(
        _handle=None, value=lambda: self.value, read_value=lambda: self.value,
        assign=self._assign,
        assign_add=lambda delta, *_, **__: self._assign(self.value + delta),
        assign_sub=lambda delta, *_, **__: self._assign(self.value - delta),
    )

  def _assign(self, value, *_, **__):
    self.value = tf.cast(value, self.value.dtype)
    return self.value


@contextlib.contextmanager
def _standing_in(metric, cells):
  """Redirects reads and writes of the metric's variables to the cells."""
  with contextlib.ExitStack() as stack:
    for variable, cell in zip(metric.variables, cells):
      stack.enter_context(captured.overriding(variable, **cell.attributes()))
    yield


def _in_any_graph(function, arguments):
  """Returns a function that runs as a graph wherever it is called."""
  specs = tf.nest.map_structure(
      lambda t: tf.TensorSpec(t.shape, t.dtype), arguments
  )
  trace = tf.function(function, autograph=False).get_concrete_function(*specs)
  held = captured.Captured(trace)
  if held.handles:
    raise ValueError('variables that are not its own')
  plain = held.held(function)
  traced = tf.function(plain, autograph=False, reduce_retracing=True)
  # Eager execution would read a variable rather than its stand-in.
  return lambda *given: (
      traced if tf.executing_eagerly() else plain
  )(*given)


def _adds(state, examples) -> bool:
  """Returns whether sums over parts of three rows give the result of all."""
  of = lambda weight: state.sums(*examples, tf.constant(weight))
  parts = tf.nest.map_structure(tf.add, of([1.0, 0, 0]), of([0, 1.0, 1.0]))
  return np.allclose(
      state.result(of([1.0, 1.0, 1.0])), state.result(parts), equal_nan=True,
      **_TOLERANCE
  )
