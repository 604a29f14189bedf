"""Converts a Keras model to a variable-free functional model.

Keras layers read weights from variables and draw dropout masks from hidden
generators; `keras_network` gives them tensors and keyed draws instead.
"""

from typing import Any, Callable, Union

from absl import logging
import tensorflow as tf

from tff_pers.models import example_values
from tff_pers.models import functional
from tff_pers.models import keras_checks
from tff_pers.models import keras_losses
from tff_pers.models import keras_network
from tff_pers.models import keras_outputs
from tff_pers.models import moving_statistics
from tff_pers.models import probabilities as probabilities_lib


def from_keras(
    keras_model: Union[tf.keras.Model, Callable[[], tf.keras.Model]],
    loss: Any,
    *,
    y_spec: Any = tf.TensorSpec([None], tf.int32),
    x_spec: Any = None,
    loss_weights: Any = None,
    metrics: keras_losses.Metrics = None,
    per_example: bool = True,
    probabilities: Any = None,
) -> functional.FunctionalModel:
  """Returns a functional model that computes what `keras_model` computes.

  Dropout and noise layers draw from the seed passed to `predict`; their own
  seeds are ignored. Weights are the trainable variables, followed by the moving
  statistics of trained batch normalization (`batch_norm`), as a flat tuple. All
  other variables keep their current values and are never sent between server
  and clients. Only adaptors change them (`functional.Frozen`); without
  trainable variables only adaptors can be trained. Frozen batch normalization
  uses its moving statistics in training, too, as in Keras; they are constants
  that no adaptor changes, and so is what a `Normalization` was adapted to.
  Regularizers of weights become the penalty, which is part of the training
  loss, but not of evaluations. With mixed precision, predictions are cast to
  the dtype of the weights, and the loss is not scaled. The Keras model itself
  is not changed.

  Args:
    keras_model: An uncompiled Keras model, from whose current weights every run
      starts. Or a function that makes one: then the initial weights follow the
      seed, drawn by the model's initializers.
    loss: A Keras loss or its name, or `(y, predictions) -> loss per example`;
      a loss per time step is averaged over the steps that the model does not
      mask. For a model with one output, labels [n] get the shape [n, 1] there,
      as in Keras, unless the function only works without. For several outputs
      as in Keras' `compile`: a dict by names of outputs, a list, or one for
      all.
    y_spec: Spec of the labels, leading dimension None. For several outputs, a
      dict or a tuple of specs; labels and predictions have the same form.
    x_spec: Spec of the features, leading dimension None; for several inputs, a
      dict or a tuple of specs. None: from the model; a model without input
      shape (subclassed) needs it.
    loss_weights: For several outputs, the factors of their losses, likewise;
      None: 1.
    metrics: As in Keras' `compile`: names, functions, objects and classes, in a
      list, or in a dict by name. A function of your own is
      `(y, predictions) -> [batch]`. 'accuracy' is Keras', but for one logit it
      tests its sign; for several labels of an example it compares the largest
      entries, and 'binary_accuracy' counts labels. None: metrics that fit the
      labels and the loss, see `keras_losses.default_metrics`. For several
      outputs likewise, a dict by their names or a list; a metric's name follows
      its output's, and `NAME_loss` is a metric, too.
    per_example: Whether model and loss must treat every row of a batch
      independently. False allows a model or a loss that compares rows; then it
      also sees filler rows, which repeat others if a batch is short.
    probabilities: Whether the outputs are probabilities, not logits; for
      several outputs as `loss`. None: as a cross-entropy says; else whether the
      model ends with a sigmoid or softmax, or its outputs are in [0, 1] (and
      those of several classes add up to 1) for random weights.

  Raises:
    ValueError: If the model has state that changes in training (other than
      plain batch normalization's; stateful layers), looks words up in a table,
      draws unseeded random numbers, adds losses in its layers, constrains
      weights, has its own training step, trainable weights of several dtypes or
      no weights, or if `x_spec` is needed; or if the loss or a metric does not
      give each example its own value, or the names given for outputs do not
      match them.
  """
  initializers: dict[Any, Any] = {}
  if not isinstance(keras_model, tf.keras.Model):
    keras_model = _construct(keras_model, x_spec, initializers)
  x_spec, y_spec = _input_spec(keras_model, x_spec), _as_tuples(y_spec)
  keras_checks.check_layers(keras_model)
  keras_checks.check_weights(keras_model)
  network = keras_network.Network(keras_model, y_spec, initializers)
  outputs = keras_checks.check_trace(keras_model, network, x_spec)
  if network.still:  # They are constants, like those of frozen layers.
    network = keras_network.Network(
        keras_model, y_spec, initializers, network.still
    )
    outputs = keras_checks.check_trace(keras_model, network, x_spec)
  mask = network.mask_of(x_spec) if network.masks_outputs else None
  if network.masks_outputs and mask is None:
    logging.warning(
        '%s masks steps of its outputs, depending on its weights or in several'
        ' outputs. Keras leaves these steps out of the mean loss; here they'
        ' count. Tip: a loss of your own that is 0 where the label is padding.',
        keras_model.name,
    )
  keras_checks.check_added_losses(keras_model)
  if per_example:
    keras_checks.check_rows(keras_model, x_spec)
  measures = keras_outputs.measures(
      keras_outputs.names(keras_model, y_spec), loss, loss_weights, metrics,
      tf.nest.flatten(y_spec), outputs, per_example, mask is not None,
      probabilities, lambda position: probabilities_lib.tried(
          network.predict, network.weights_spec, x_spec, position,
          [layer.kind == moving_statistics.KIND for layer in network.layers],
      ),
  )
  return functional.FunctionalModel(
      init=network.init, predict=network.predict, x_spec=x_spec, y_spec=y_spec,
      targets=None if mask is None else (
          lambda x, y: example_values.Masked(y, mask(x))
      ),
      name=keras_model.name, layers=network.layers, frozen=network.frozen,
      penalty=(
          network.penalty if network.regularizers else functional.no_penalty
      ),
      **measures,
  )


def _construct(constructor, x_spec, initializers):
  """Builds a Keras model; records how each variable is initialized."""

  def creator(next_creator, **kwargs):
    variable = next_creator(**kwargs)
    if callable(kwargs.get('initial_value')):
      initializers[variable.ref()] = kwargs['initial_value']
    return variable

  with tf.variable_creator_scope(creator):
    model = constructor()
    # Within the scope, because a model without input shape creates its
    # variables only now.
    if x_spec is not None:
      _build(model, _as_tuples(x_spec))
  return model


def _as_tuples(specs):
  """Returns a structure of specs with lists replaced by tuples."""
  return tuple(map(_as_tuples, specs)) if isinstance(specs, list) else specs


def _input_spec(model, x_spec):
  """Returns the spec of x; builds the model with it if necessary."""
  if x_spec is None:
    if not getattr(model, 'inputs', None):
      raise ValueError(
          '`x_spec` must be given for a Keras model without inputs of known'
          ' shape, found none.'
      )
    x_spec = tf.nest.map_structure(
        lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), model.input
    )
  x_spec = _as_tuples(x_spec)
  _build(model, x_spec)
  return x_spec


def _build(model, x_spec):
  """Creates the variables of a model, if necessary."""
  if model.built:
    return
  if isinstance(x_spec, tf.TensorSpec) and isinstance(
      model, tf.keras.Sequential
  ):
    model.build(x_spec.shape)
  else:  # `build` does not support dtypes, several inputs or Python loops.
    model(tf.nest.map_structure(keras_checks.some_rows, x_spec))
