"""Outputs of a Keras model, with their losses, weights and metrics.

A model has one output, or several in a dict or a list. As in Keras, labels,
losses, loss weights and metrics of several outputs are dicts by the names of
the outputs, or lists in their order. `y_spec` is a spec, or a dict or tuple of
specs.
"""

import collections
import functools
from typing import Any, Callable, Mapping, Optional, Sequence

import tensorflow as tf

from tff_pers.models import example_values
from tff_pers.models import keras_losses


def names(model: tf.keras.Model, y_spec: Any) -> Optional[list[str]]:
  """Returns the names of the outputs in the order of `tf.nest.flatten`.

  None if there is only one.
  """
  if isinstance(y_spec, Mapping):
    return sorted(y_spec)
  if isinstance(y_spec, tuple):
    own = getattr(model, 'output_names', None) or ()
    if len(own) == len(y_spec):
      return list(own)
    # Keras' names for subclassed models.
    return [f'output_{i + 1}' for i in range(len(y_spec))]
  return None


def arranged(model: tf.keras.Model, outputs: Any, y_spec: Any) -> Any:
  """Returns a model's outputs in the form of its labels.

  They are a tensor, or a dict, list or tuple of tensors.

  Raises:
    ValueError: If they have another form.
  """
  several = isinstance(outputs, (list, tuple))
  if isinstance(y_spec, Mapping):
    if several and len(model.output_names or ()) == len(outputs):
      outputs = dict(zip(model.output_names, outputs))
    if isinstance(outputs, Mapping) and set(outputs) == set(y_spec):
      return collections.OrderedDict(
          (name, outputs[name]) for name in sorted(outputs)
      )
  elif isinstance(y_spec, tuple):
    if several and len(outputs) == len(y_spec):
      return tuple(outputs)
  elif isinstance(outputs, tf.Tensor):
    return outputs
  found = 'one'
  if isinstance(outputs, Mapping):
    found = f'a dict with {", ".join(sorted(outputs))}'
  elif several:
    found = f'{len(outputs)}, {", ".join(getattr(model, "output_names", ()))}'
  raise ValueError(
      '`y_spec` must have the form of the outputs of `keras_model`, a spec for'
      f' each, found outputs: {found}; y_spec: {y_spec}. Tip: a dict by names'
      ' of outputs.'
  )


def of_each(
    what: str, given: Any, own: Sequence[str], default: Any = None
) -> list[Any]:
  """Returns an argument of Keras' `compile` as a list, by output.

  It is given as a dict by the names of outputs, a list or tuple in their order,
  or one value for all. With a default, a dict may omit outputs.

  Raises:
    ValueError: If names or number do not match.
  """
  if isinstance(given, Mapping):
    wrong = [name for name in given if name not in own]
    missing = [name for name in own if name not in given]
    if wrong or (missing and default is None):
      raise ValueError(
          f'`{what}` must have the names of the outputs, {", ".join(own)},'
          f' found {", ".join(map(str, given)) or "none"}.'
      )
    return [given.get(name, default) for name in own]
  if isinstance(given, (list, tuple)):
    if len(given) != len(own):
      raise ValueError(
          f'`{what}` must have one for each of the {len(own)} outputs, found'
          f' {len(given)}.'
      )
    return list(given)
  return [default if given is None else given] * len(own)


def measures(
    own: Optional[Sequence[str]], loss: Any, loss_weights: Any, metrics: Any,
    y_specs: Sequence[tf.TensorSpec], outputs: Sequence[tf.Tensor],
    per_example: bool, masked: bool, probabilities: Any,
    tried: Callable[[int], bool],
) -> dict[str, Any]:
  """Returns the fields of a `FunctionalModel` for losses and metrics.

  `own` are the `names` of the outputs, `outputs` the predictions in a graph,
  `masked` labels of one output `example_values.Masked`, and `tried` by position
  whether an output looks like probabilities; for all else see
  `keras.from_keras`.

  Raises:
    ValueError: See `keras.from_keras`.
  """
  if own is None:
    if loss_weights is not None:
      raise ValueError(
          '`loss_weights` must be None for a model of one output, found'
          f' {loss_weights!r}.'
      )
    return _of_one(
        loss, metrics, y_specs[0], outputs[0], probabilities,
        functools.partial(tried, 0), per_example, masked
    )
  each = [
      _of_one(*given, functools.partial(tried, position), per_example, False)
      for position, given in enumerate(zip(
          of_each('loss', loss, own), _metrics_of_each(metrics, own), y_specs,
          outputs, of_each('probabilities', probabilities, own),
      ))
  ]
  factors = [
      float(factor) for factor in of_each('loss_weights', loss_weights, own, 1)
  ]

  def example_loss(y, predictions):
    pairs = zip(tf.nest.flatten(y), tf.nest.flatten(predictions))
    losses = [
        one['example_loss'](*pair) for one, pair in zip(each, pairs)
    ]
    return tf.add_n([
        tf.constant(factor, losses[0].dtype) * tf.cast(own, losses[0].dtype)
        for factor, own in zip(factors, losses)
    ])

  found: dict[str, Any] = dict(metrics={}, states={})
  for position, (name, one) in enumerate(zip(own, each)):
    found['metrics'][f'{name}_loss'] = _at(position, one['example_loss'])
    for metric, function in one['metrics'].items():
      found['metrics'][f'{name}_{metric}'] = _at(position, function)
    for metric, state in one['states'].items():
      found['states'][f'{name}_{metric}'] = state._replace(
          sums=_at(position, state.sums)
      )
  return dict(
      found, example_loss=example_loss,
      labels=[one['labels'] for one in each],
      probabilities=[one['probabilities'] for one in each],
  )


def _at(position, function):
  """Returns a function of one output as a function of all outputs."""
  return lambda y, predictions, *others: function(
      tf.nest.flatten(y)[position], tf.nest.flatten(predictions)[position],
      *others
  )


def _metrics_of_each(metrics, own):
  """Returns the metrics of each output; None: those that fit it."""
  if isinstance(metrics, Mapping):
    return of_each('metrics', metrics, own, ())
  # As in Keras, a list of lists has one list per output.
  if isinstance(metrics, (list, tuple)) and any(
      isinstance(metric, (list, tuple)) for metric in metrics
  ):
    return of_each('metrics', metrics, own)
  return [metrics] * len(own)


def _of_one(
    loss, metrics, y_spec, output, probabilities, tried, per_example, masked
):
  """Returns the fields for a single output."""
  output_spec = tf.TensorSpec(output.shape, output.dtype)
  examples = example_values.trial(y_spec, output_spec)
  example_loss = keras_losses.example_loss(loss, examples, per_example, masked)
  if probabilities is None:
    probabilities = keras_losses.predicts_probabilities(loss, output, tried)
  if metrics is None:
    metrics = keras_losses.default_metrics(
        loss, y_spec, output_spec, probabilities, masked
    )
  functions, states = keras_losses.example_metrics(
      metrics, examples, probabilities
  )
  found = dict(
      example_loss=example_loss, metrics=functions, states=states,
      labels=keras_losses.labels_of(loss, example_loss, y_spec, output_spec),
      probabilities=probabilities,
  )
  if masked:
    steps = lambda y: tf.math.count_nonzero(
        tf.reshape(y.mask, [tf.shape(y.mask)[0], -1]), 1
    )
    found['weights_of'] = {
        name: steps for name, function in dict(
            functions, loss=example_loss
        ).items() if function.rank > 1
    }
  return found
