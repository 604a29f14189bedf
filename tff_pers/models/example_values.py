"""Checks that losses and metrics give every example a value of its own.

Labels [n] and predictions [n, 1] silently broadcast to a table [n, n]; a mean
over it is a loss, but not that of these examples. So users' functions are tried
on a few examples when a model is built: together and one by one.
"""

import re
from typing import Any, Callable, NamedTuple

import numpy as np
import tensorflow as tf

from tff_pers.models import captured
from tff_pers.models import comparing

_SAFE = ('keras.', 'tff_pers.')
_ROWS = 3
_UNKNOWN_SIZE = 4
_SCALAR = 'a scalar'
_OTHERS = 'values that change with the other rows'
# Above the error of float32 sums in another order, below other examples'
# values.
_TOLERANCE = dict(rtol=1e-4, atol=1e-6)


class Masked(NamedTuple):
  """Labels with some steps masked.

  Attributes:
    y: Labels, [batch, steps, ...].
    mask: bool [batch, steps].
  """

  y: Any
  mask: Any


class Trial(NamedTuple):
  """Three different made-up examples.

  Attributes:
    y: Labels.
    predictions: Values in (0, 1), valid as probabilities and as logits.
  """

  y: tf.Tensor
  predictions: tf.Tensor

  @property
  def lacks_axis(self) -> bool:
    """Whether labels lack the last axis, of length 1, of the predictions."""
    return self.predictions.shape[1:] == [*self.y.shape[1:], 1]

  @property
  def are_numbers(self) -> bool:
    """Whether labels and predictions are one number each, without an axis."""
    return self.predictions.shape.rank == self.y.shape.rank == 1


def trial(y_spec: tf.TensorSpec, output_spec: tf.TensorSpec) -> Trial:
  """Returns examples with these specs, whose leading dimensions are None.

  Raises:
    ValueError: If labels are not numbers.
  """
  if y_spec.dtype == tf.string:
    raise ValueError(
        '`y_spec` must be of numbers, found one of texts. Tip: number the'
        ' classes from 0.'
    )
  rng = np.random.default_rng(0)
  sizes = [size or _UNKNOWN_SIZE for size in output_spec.shape[1:]]
  predictions = rng.uniform(0.1, 0.9, [_ROWS, *sizes])
  y_shape = [_ROWS, *(
      size or (sizes[axis] if axis < len(sizes) else _UNKNOWN_SIZE)
      for axis, size in enumerate(y_spec.shape[1:])
  )]
  y: Any
  if y_spec.dtype.is_floating:
    y = rng.uniform(0.1, 0.9, y_shape)
  else:
    # Classes if there is a prediction for each, else zeros and ones; of several
    # draws, the one whose rows differ most.
    is_class = len(y_shape) == len(sizes) and sizes[-1] > 2
    most = 3 if is_class else 2
    draws = [rng.integers(most, size=y_shape) for _ in range(99)]
    y = max(draws, key=lambda y: len(np.unique(y.reshape(_ROWS, -1), axis=0)))
  return Trial(
      tf.cast(y, y_spec.dtype), tf.cast(predictions, output_spec.dtype)
  )


def by_example(
    what: str, function: Callable[[Any, Any], Any], examples: Trial,
    check: bool = True,
) -> Callable[[Any, Any], Any]:
  """Returns `(y, predictions) -> [batch]`: means over axes after the first.

  As in Keras, labels that lack the last axis of a single output get it, unless
  `function` gives examples their own values only without it. If both are single
  numbers, both get an axis, because Keras' functions take the mean over it. For
  `Masked` labels the mean is over unmasked steps. The attribute `rank` of the
  returned function is the rank of the values of `function`, [batch, ...].

  `function` is tried on the examples; with `check`, values must not depend on
  the other rows of the batch. Messages call it `what`, `loss` for a loss.

  Raises:
    ValueError: If it fails, returns a scalar, or its values depend on them.
  """
  add = lambda tensor: tensor[..., None]
  keep = lambda tensor: tensor
  forms = [_averaged(function, keep, keep)]
  if examples.lacks_axis:
    forms.insert(0, _averaged(function, add, keep))
  elif examples.are_numbers:
    forms.insert(0, _averaged(function, add, add))
  problems = []
  for form in forms:
    problem = _problem(form, examples, check)
    if problem is None:
      # Functions of Keras and of this package capture no tensors.
      is_own = not getattr(function, '__module__', '').startswith(_SAFE)
      return _in_any_graph(what, form, examples) if is_own else form
    problems.append(problem)
  tip = ''
  if problems[0] in (_SCALAR, _OTHERS):
    tip = (
        ' Tip: take means over the last axis alone, as in tf.reduce_mean(...,'
        ' -1)'
    )
    if what == '`loss`' and problems[0] == _OTHERS:
      tip += ', or give per_example=False if rows are meant to be compared'
    tip += '.'
  raise ValueError(
      f'{what} must return one value for each example, which does not depend on'
      f' the other rows of the batch, for labels of shape'
      f' {_batch(examples.y)} and predictions of shape'
      f' {_batch(examples.predictions)}, found {problems[0]}.{tip}'
  )


def _averaged(function, of_y, of_predictions):

  def averaged(y, predictions):
    mask = None
    if isinstance(y, Masked):
      y, mask = y
    with comparing.elementwise():
      values = function(of_y(y), of_predictions(predictions))
    values = tf.convert_to_tensor(values)
    if values.dtype.is_bool or values.dtype.is_integer:
      values = tf.cast(values, tf.float32)
    if values.shape.rank == 0:
      raise ValueError(_SCALAR)
    axes = list(range(1, values.shape.rank))
    setattr(averaged, 'rank', values.shape.rank)
    # A function that itself takes a mean over the steps is left unchanged.
    if mask is None or values.shape.rank < mask.shape.rank:
      return tf.reduce_mean(values, axis=axes)
    ones = [1] * (values.shape.rank - mask.shape.rank)
    counts = tf.reshape(mask, tf.concat([tf.shape(mask), ones], 0))
    counts = tf.broadcast_to(counts, tf.shape(values))
    total = tf.where(counts, values, tf.zeros_like(values))
    return tf.math.divide_no_nan(
        tf.reduce_sum(total, axes),
        tf.reduce_sum(tf.cast(counts, values.dtype), axes),
    )

  return averaged


def _in_any_graph(what, form, examples):
  """Returns a function whose captured eager tensors become constants."""
  try:
    specs = [tf.TensorSpec(t.shape, t.dtype) for t in examples]
    trace = tf.function(form, autograph=False).get_concrete_function(*specs)
  except (AttributeError, NotImplementedError, TypeError) as error:
    raise ValueError(
        f'{what} must consist only of TensorFlow operations, found'
        f' {first_line(error)}.'
    ) from None
  found = captured.Captured(trace)
  if found.handles:
    raise ValueError(
        f'{what} must be a function of only labels and predictions, found one'
        ' that reads variables or tables. Tip: pass their values as'
        ' tf.constant.'
    )
  return found.held(form)


def _problem(form, examples, check):
  """Returns what is wrong with a function, None if nothing is."""
  try:
    together = form(*examples)
    rows = [form(*(t[i:i + 1] for t in examples)) for i in range(_ROWS)]
  except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
    return first_line(error)
  alone = tf.concat(rows, axis=0)
  if not together.shape == alone.shape == [_ROWS]:
    return f'values of shape {_batch(together)}'
  if check and not np.allclose(together, alone, equal_nan=True, **_TOLERANCE):
    return _OTHERS
  return None


def first_line(error: Exception) -> str:
  """Returns the first line of a message, without TensorFlow's additions."""
  text = re.sub(r'{{.*?}}|\[Op:.*', '', str(error)).strip()
  return text.partition('\n')[0].rstrip('. ')


def _batch(tensor) -> str:
  """Returns a shape as text for messages; its first dimension is the batch."""
  sizes = ['batch' if n == _ROWS and not axis else str(n)
           for axis, n in enumerate(tensor.shape)]
  return f'[{", ".join(sizes)}]'
