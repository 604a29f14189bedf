"""Converts losses and metrics of Keras to functions of single examples.

`loss` is a Keras loss, its name, or a function, as given to `from_keras`, and
`output` the predictions in a graph.
"""

# pylint: disable=protected-access  Keras does not export a metric's function.

import functools
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import tensorflow as tf

from tff_pers.models import example_values
from tff_pers.models import functional
from tff_pers.models import keras_metrics
from tff_pers.models import labels
from tff_pers.models import loss_functions

_losses = tf.keras.losses
_metrics = tf.keras.metrics
_BINARY = (_losses.binary_crossentropy, _losses.binary_focal_crossentropy)
_CATEGORICAL = (
    _losses.categorical_crossentropy, _losses.categorical_focal_crossentropy
)
_SPARSE = _losses.sparse_categorical_crossentropy
# Names of `--metric` that Keras names differently; the numbers are the same.
_OF_KERAS: Mapping[str, Callable[[], Any]] = dict(
    rmse=lambda: _metrics.RootMeanSquaredError('rmse'),
    r2=lambda: _metrics.R2Score(name='r2'),
    log_loss=lambda: 'crossentropy',
)
# Metrics that depend on all predictions at once.
_OF_PREDICTIONS = ('auc', 'balanced_accuracy', 'calibration_error', 'f1')
# Names that Keras resolves by the shape of the labels.
_BY_SHAPE = dict(
    accuracy='accuracy', acc='accuracy', crossentropy='crossentropy',
    ce='crossentropy',
)

# Callables include Keras' objects and classes.
Metrics = Union[
    None, str, Callable[..., Any], Sequence[Any], Mapping[str, Any]
]


def example_loss(
    loss: Union[str, Callable[[Any, Any], Any]], examples: example_values.Trial,
    per_example: bool, masked: bool = False,
) -> Callable[[Any, Any], Any]:
  """Returns `(y, predictions) -> [batch]` of a Keras loss.

  It is tried on the examples, and may only compare the rows of a batch if it
  need not be `per_example`. `masked` labels are `example_values.Masked`.

  Raises:
    ValueError: See `example_values.by_example`.
  """
  loss = _losses.get(loss)
  if getattr(loss, 'reduction', None) == tf.keras.losses.Reduction.SUM:
    raise ValueError(
        '`loss` must be a mean over examples, because batches differ in size,'
        f' found {type(loss).__name__} with reduction="sum". Tip: leave the'
        ' reduction out, and take a larger learning rate.'
    )
  is_function = loss is _losses.mean_squared_error
  if not masked and (
      is_function or isinstance(loss, _losses.MeanSquaredError)
  ):
    # The same numbers; other code recognizes this function by identity.
    example_values.by_example('`loss`', loss_functions.squared_error, examples)
    return loss_functions.squared_error
  # A loss object reduces over the batch; its `call` does not.
  per_row = loss.call if isinstance(loss, _losses.Loss) else loss
  return example_values.by_example('`loss`', per_row, examples, per_example)


def example_metrics(
    metrics: Metrics, examples: example_values.Trial,
    probabilities: bool = False,
) -> tuple[dict[str, Any], dict[str, functional.State]]:
  """Returns `(y, predictions) -> [batch]` by name, and metrics with a state.

  The metrics are as in Keras' `compile` for one output, or by name. Each is a
  name, a function `(y, predictions) -> [batch, ...]`, or an object or class of
  Keras, and tried on the examples. Predictions are probabilities or logits, for
  'accuracy' and 'crossentropy' of a single output.

  Raises:
    ValueError: See `example_values.by_example` and `keras_metrics.state_of`;
      also if a name is unknown to Keras or taken.
  """
  found: dict[str, Callable[[Any, Any], Any]] = {}
  states: dict[str, functional.State] = {}
  for name, metric in _named(metrics):
    if name in ('loss', *found, *states):
      raise ValueError(
          f'`metrics` must have names of their own, found {name!r}, which is'
          ' taken. Tip: give a dict, whose keys are the names.'
      )
    if isinstance(metric, _metrics.Metric) and (
        type(metric).update_state
        is not _metrics.MeanMetricWrapper.update_state
    ):
      states[name] = keras_metrics.state_of(name, metric, examples)
      continue
    found[name] = example_values.by_example(
        f'The metric {name!r}', _function(metric, examples, probabilities),
        examples,
    )
  return found, states


def _named(metrics, name=None):
  """Yields (name, metric) for all metrics in lists and dicts."""
  if isinstance(metrics, Mapping):
    for key, metric in metrics.items():
      yield from _named(metric, key)
  elif isinstance(metrics, (list, tuple)):
    # In a dict the key is the output; the metrics keep their own names.
    for metric in metrics:
      yield from _named(metric)
  elif metrics is not None:
    metric = _resolved(metrics)
    if isinstance(metric, (_metrics.Metric, _losses.Loss)):
      own_name = metric.name
    elif isinstance(metrics, str):
      own_name = metrics
    else:
      own_name = getattr(metric, '__name__', type(metric).__name__).strip('<>')
    yield name or own_name, metric


def _resolved(metric):
  """Returns a metric that was given as a name or as a class."""
  if isinstance(metric, str):
    name = metric.lower()
    if metric in _OF_KERAS:
      return _OF_KERAS[metric]()
    if metric in _OF_PREDICTIONS:
      raise ValueError(
          f'`metrics` must be sums over examples, found {metric!r}, which'
          ' programs compute from all predictions (--metric). Tip: an object,'
          ' as tf.keras.metrics.AUC() or F1Score().'
      )
    if name in _BY_SHAPE:
      return name
    try:
      metric = _metrics.get(metric)
    except (TypeError, ValueError):
      pass  # It needs arguments, or is unknown: Keras returns the name.
  if not callable(metric):
    raise ValueError(
        '`metrics` must be functions, objects, or names that Keras knows, found'
        f' {metric!r}. Tip: \'accuracy\', \'mae\', or an object of'
        ' tf.keras.metrics.'
    )
  is_class = isinstance(metric, type) and issubclass(
      metric, (_metrics.Metric, _losses.Loss)
  )
  try:
    return metric() if is_class else metric
  except TypeError as error:
    raise ValueError(
        '`metrics` must be objects where a class has arguments, found'
        f' {metric.__name__}: {error}.'
    ) from None


def _function(metric, examples, probabilities):
  """Returns the function of which a metric of `_named` is the mean."""
  if metric in _BY_SHAPE:
    return _by_shape(_BY_SHAPE[metric], examples, probabilities)
  if isinstance(metric, _losses.Loss):
    return metric.call
  if isinstance(metric, _metrics.Metric):
    return lambda y, predictions: metric._fn(
        tf.cast(y, metric.dtype), tf.cast(predictions, metric.dtype),
        **metric._fn_kwargs
    )
  is_of_keras = getattr(metric, '__module__', '').startswith('keras.')
  return _of_floats(metric) if is_of_keras else metric


def _by_shape(name, examples, probabilities):
  """Returns Keras' accuracy or cross-entropy for labels of this shape."""
  y, predictions = examples
  if predictions.shape.rank == 1 or predictions.shape[-1] == 1:
    kind = 'binary'
  elif y.shape.rank < predictions.shape.rank or y.shape[-1] == 1:
    kind = 'sparse_categorical'
  else:
    kind = 'categorical'
  options: dict[str, Any] = {}
  if name == 'crossentropy':
    options = dict(from_logits=not probabilities)
  elif kind == 'binary':
    options = dict(threshold=0.5 if probabilities else 0.0)
  function = getattr(_metrics, f'{kind}_{name}')
  return _of_floats(functools.partial(function, **options))


def default_metrics(
    loss: Union[str, Callable[[Any, Any], Any]], y_spec: tf.TensorSpec,
    output_spec: tf.TensorSpec, probabilities: bool, masked: bool = False,
) -> dict[str, Any]:
  """Returns the metrics that fit the labels, for `example_metrics`.

  `accuracy` if each label is one of several classes, as mean over the steps of
  a sequence; also for two classes and one output, if the loss is binary
  cross-entropy or the output one of `probabilities`. `binary_accuracy` for
  several labels with that loss, `categorical_accuracy` for one-hot labels. Some
  steps of `masked` labels do not count.
  """
  loss = _losses.get(loss)
  function = getattr(loss, 'fn', loss)
  shape = output_spec.shape
  one_output = shape.rank == 1 or shape[-1] == 1
  if function in _BINARY or (
      one_output and probabilities and y_spec.dtype.is_integer
  ):
    threshold = 0.5 if probabilities else 0.0
    name = 'accuracy' if one_output else 'binary_accuracy'
    return {name: _of_floats(functools.partial(
        _metrics.binary_accuracy, threshold=threshold
    ))}
  if function in _CATEGORICAL:
    return {'categorical_accuracy': _metrics.categorical_accuracy}
  found = loss_functions.default_metrics(y_spec, output_spec)
  # Keras' own metric keeps the steps separate.
  return {name: name for name in found} if masked else found


def predicts_probabilities(
    loss: Union[str, Callable[[Any, Any], Any]], output: tf.Tensor,
    tried: Callable[[], bool],
) -> bool:
  """Returns whether a Keras model predicts probabilities, not logits.

  A cross-entropy says so; otherwise the model's last operation decides, or what
  it predicts if it is `tried`.
  """
  loss = _losses.get(loss)
  if getattr(loss, 'fn', loss) in (*_BINARY, *_CATEGORICAL, _SPARSE):
    return not getattr(loss, '_fn_kwargs', {}).get('from_logits', False)
  return _last_operation(output) in ('Sigmoid', 'Softmax') or tried()


def labels_of(
    loss: Any, example_loss: Callable[[Any, Any], Any], y_spec: tf.TensorSpec,
    output_spec: tf.TensorSpec,
) -> Optional[labels.Labels]:
  """Returns the labels of a user's model; None: y holds no labels.

  These are 0..C-1 if there are C outputs per label, or 0 and 1 for a binary
  cross-entropy. Other labels are skipped if their loss is finite.
  `example_loss` is the same loss as `(y, predictions) -> [batch]`.
  """
  loss = tf.keras.losses.get(loss)
  function = getattr(loss, 'fn', loss)  # An object of Keras has `fn`.
  if not y_spec.dtype.is_integer and function is not _SPARSE:
    return None
  if function in (*_BINARY, loss_functions.binary_crossentropy):
    return labels.Labels(2)
  shape = [size or 1 for size in output_spec.shape]
  y_shape = shape[:-1]
  if y_spec.shape.rank == len(shape) and y_spec.shape[-1] == 1:
    y_shape.append(1)
  if y_spec.shape.rank != len(y_shape) or shape[-1] < 2:
    return None

  @functools.lru_cache(maxsize=None)
  def is_skipped(label):
    # On a GPU the loss would be NaN or 0 instead of an error.
    with tf.init_scope(), tf.device('CPU:0'):
      try:
        loss_of_one = example_loss(
            tf.fill(y_shape, tf.constant(label, y_spec.dtype)),
            tf.fill(shape, tf.constant(1 / shape[-1], output_spec.dtype)),
        )
      except tf.errors.InvalidArgumentError:
        return False
      return bool(tf.reduce_all(tf.math.is_finite(loss_of_one)))

  return labels.Labels(shape[-1], is_skipped)


def _last_operation(output) -> str:
  """Returns the type of the last operation other than casts and reshapes."""
  operation = output.op
  while operation.type in (
      'Cast', 'Identity', 'Reshape', 'Squeeze', 'ExpandDims'
  ):
    operation = operation.inputs[0].op
  return operation.type


def _of_floats(metric):
  """Returns a Keras metric on labels, cast as its metric objects do."""
  return lambda y, predictions: metric(
      tf.cast(y, predictions.dtype), predictions
  )
