"""Losses and metrics of Keras as functions of single examples."""

import functools
from typing import Any, Callable, Mapping, Union

import tensorflow as tf

from tff_pers.models import example_values
from tff_pers.models import functional

_losses = tf.keras.losses
_metrics = tf.keras.metrics
BINARY = (_losses.binary_crossentropy, _losses.binary_focal_crossentropy)
_CATEGORICAL = (
    _losses.categorical_crossentropy, _losses.categorical_focal_crossentropy
)
SPARSE = _losses.sparse_categorical_crossentropy


def example_loss(
    loss: Union[str, Callable[[Any, Any], Any]], examples: example_values.Trial,
    per_example: bool,
) -> Callable[[Any, Any], Any]:
  """Returns `(y, predictions) -> [batch]` of a Keras loss.

  Args:
    loss: A Keras loss, its name, or a function.
    examples: What it is tried on.
    per_example: Whether it must not compare the rows of a batch.

  Raises:
    ValueError: See `example_values.by_example`.
  """
  loss = _losses.get(loss)
  is_function = loss is _losses.mean_squared_error
  if is_function or isinstance(loss, _losses.MeanSquaredError):
    # The same numbers; others recognize this function by its identity.
    example_values.by_example('`loss`', functional.squared_error, examples)
    return functional.squared_error
  # A loss object reduces over the batch; its `call` does not.
  per_row = loss.call if isinstance(loss, _losses.Loss) else loss
  return example_values.by_example('`loss`', per_row, examples, per_example)


def example_metrics(
    metrics: Mapping[str, Callable[[Any, Any], Any]],
    examples: example_values.Trial,
) -> dict[str, Callable[[Any, Any], Any]]:
  """Returns metrics as `(y, predictions) -> [batch]` by name.

  Args:
    metrics: `(y, predictions) -> [batch, ...]` by name.
    examples: What they are tried on.

  Raises:
    ValueError: See `example_values.by_example`; or if one has a state.
  """
  found = {}
  for name, metric in metrics.items():
    if isinstance(metric, _metrics.Metric):
      raise ValueError(
          f'`metrics` must be functions of labels and predictions, found the'
          f' object {type(metric).__name__} as {name!r}, which has a state of'
          ' its own. Tip: tf.keras.metrics has functions, too, such as'
          ' sparse_categorical_accuracy.'
      )
    if getattr(metric, '__module__', '').startswith('keras.'):
      metric = _of_floats(metric)
    found[name] = example_values.by_example(
        f'The metric {name!r}', metric, examples
    )
  return found


def default_metrics(
    loss: Union[str, Callable[[Any, Any], Any]], y_spec: tf.TensorSpec,
    output: tf.Tensor,
) -> dict[str, Callable[[Any, Any], Any]]:
  """Returns the metrics that fit the labels, for `example_metrics`.

  `accuracy` where each label is one of several classes, the mean over the steps
  of a sequence; likewise for two classes and one output, if the loss is binary
  cross-entropy or the output a sigmoid. `binary_accuracy` for several labels
  under that loss, `categorical_accuracy` for one-hot labels.

  Args:
    loss: As given to `from_keras`.
    y_spec: Of the labels.
    output: The predictions, in a graph.
  """
  loss = _losses.get(loss)
  function = getattr(loss, 'fn', loss)
  one_output = output.shape.rank == 1 or output.shape[-1] == 1
  is_sigmoid = _last_operation(output) == 'Sigmoid'
  if function in BINARY or (
      one_output and is_sigmoid and y_spec.dtype.is_integer
  ):
    threshold = 0.5 if predicts_probabilities(loss, output) else 0.0
    name = 'accuracy' if one_output else 'binary_accuracy'
    return {name: _of_floats(functools.partial(
        _metrics.binary_accuracy, threshold=threshold
    ))}
  if function in _CATEGORICAL:
    return {'categorical_accuracy': _of_floats(_metrics.categorical_accuracy)}
  return functional.default_metrics(
      y_spec, tf.TensorSpec(output.shape, output.dtype)
  )


def predicts_probabilities(
    loss: Union[str, Callable[[Any, Any], Any]], output: tf.Tensor
) -> bool:
  """Returns whether a Keras model predicts probabilities, not logits.

  A cross-entropy says so; else it is what the model ends with.

  Args:
    loss: As given to `from_keras`.
    output: The predictions, in a graph.
  """
  loss = _losses.get(loss)
  if getattr(loss, 'fn', loss) in (*BINARY, *_CATEGORICAL, SPARSE):
    return not getattr(loss, '_fn_kwargs', {}).get('from_logits', False)
  return _last_operation(output) in ('Sigmoid', 'Softmax')


def _last_operation(output) -> str:
  """Returns the type of the last operation that is more than a new shape."""
  operation = output.op
  while operation.type in ('Identity', 'Reshape', 'Squeeze', 'ExpandDims'):
    operation = operation.inputs[0].op
  return operation.type


def _of_floats(metric):
  """Returns a metric of Keras on labels as its metric objects cast them."""
  return lambda y, predictions: metric(
      tf.cast(y, predictions.dtype), predictions
  )
