"""A Keras model as a variable-free functional model.

Keras layers read their weights from variables and draw dropout masks from
hidden generators; `keras_network` gives them tensors and keyed draws instead.
"""

from typing import Any, Callable, Optional, Union

from absl import logging
import tensorflow as tf

from tff_pers.models import example_values
from tff_pers.models import functional
from tff_pers.models import keras_checks
from tff_pers.models import keras_losses
from tff_pers.models import keras_network
from tff_pers.models import labels


def from_keras(
    keras_model: Union[tf.keras.Model, Callable[[], tf.keras.Model]],
    loss: Union[str, Callable[[Any, Any], Any]],
    *,
    y_spec: tf.TensorSpec = tf.TensorSpec([None], tf.int32),
    x_spec: Optional[tf.TensorSpec] = None,
    metrics: keras_losses.Metrics = None,
    per_example: bool = True,
) -> functional.FunctionalModel:
  """Returns a functional model that computes what `keras_model` computes.

  Dropout and noise layers draw from the seed given to `predict`; seeds of their
  own are ignored. Weights are the trainable variables and, behind them, the
  moving statistics of batch normalization that is trained (`batch_norm`), as a
  flat tuple; what else is not trainable stays at its present value, and is in
  no message between server and clients. Only adaptors change it
  (`functional.Frozen`); without a trainable variable they are all that can be
  trained. Frozen batch normalization uses its moving statistics in training,
  too, as in Keras; they are constants of the model that no adaptor changes, and
  so is what a `Normalization` was adapted to. Regularizers of weights become
  the penalty. With mixed precision predictions are cast to the dtype of the
  weights, and the loss is not scaled. The Keras model itself is not changed.

  Args:
    keras_model: An uncompiled Keras model with one input and one output: every
      run starts from its present weights. Or a function that makes one: then
      the initial weights follow the seed, drawn by the model's initializers.
    loss: A Keras loss or its name, or `(y, predictions) -> loss per example`;
      a loss per time step is averaged over the steps. Labels [n] of a model
      with one output have its shape [n, 1] there, as in Keras, unless the
      function takes them as they are.
    y_spec: Spec of the labels, leading dimension None.
    x_spec: Spec of the features, leading dimension None. None: as the model
      says; a model without input shape (subclassed) needs it.
    metrics: As Keras' `compile` takes them: names, functions, objects and
      classes, in a list, or a dict whose keys are their names. Each must be a
      mean over examples, as AUC is not; a function of one's own is `(y,
      predictions) -> [batch]`. 'accuracy' is Keras', but of one logit it asks
      for the sign. None: what fits the labels and the loss, see
      `keras_losses.default_metrics`.
    per_example: Whether model and loss must treat every row of a batch by
      itself. False takes a model or a loss that compares rows; those of filler,
      which repeat others where a batch is short, are then compared, too.

  Raises:
    ValueError: If the model holds state that changes in training (other than
      plain batch normalization's; stateful layers), looks words up in a
      table, draws unseeded random numbers, adds losses in its layers,
      constrains weights, has a training step of its own, trainable weights of
      several dtypes or no weights, or if `x_spec` is needed; or if the loss or
      a metric does not give each example a value of its own.
  """
  initializers: dict[Any, Any] = {}
  if not isinstance(keras_model, tf.keras.Model):
    keras_model = _construct(keras_model, x_spec, initializers)
  x_spec = _input_spec(keras_model, x_spec)
  keras_checks.check_layers(keras_model)
  keras_checks.check_weights(keras_model)
  network = keras_network.Network(keras_model, initializers)
  output = keras_checks.check_trace(keras_model, network, x_spec)
  if network.still:  # They are constants, as those of frozen layers.
    network = keras_network.Network(keras_model, initializers, network.still)
    output = keras_checks.check_trace(keras_model, network, x_spec)
  if network.masks_outputs:
    logging.warning(
        '%s masks steps of its outputs (e.g. by mask_zero=True), which Keras'
        ' leaves out of the mean loss; here they count. Tip: a loss of your own'
        ' that is 0 where the label is padding.', keras_model.name,
    )
  output_spec = tf.TensorSpec(output.shape, output.dtype)
  keras_checks.check_added_losses(keras_model)
  if per_example:
    keras_checks.check_rows(keras_model, x_spec)
  examples = example_values.trial(y_spec, output_spec)
  example_loss = keras_losses.example_loss(loss, examples, per_example)
  if metrics is None:
    metrics = keras_losses.default_metrics(loss, y_spec, output)
  probabilities = keras_losses.predicts_probabilities(loss, output)
  regularized = bool(network.regularizers)
  return functional.FunctionalModel(
      init=network.init, predict=network.predict,
      example_loss=example_loss, x_spec=x_spec, y_spec=y_spec,
      labels=labels.of_loss(loss, example_loss, y_spec, output_spec),
      probabilities=probabilities,
      metrics=keras_losses.example_metrics(metrics, examples, probabilities),
      name=keras_model.name,
      layers=network.layers, frozen=network.frozen,
      penalty=network.penalty if regularized else functional.no_penalty,
  )


def _construct(constructor, x_spec, initializers):
  """Makes a Keras model; notes how each variable is initialized."""

  def creator(next_creator, **kwargs):
    variable = next_creator(**kwargs)
    if callable(kwargs.get('initial_value')):
      initializers[variable.ref()] = kwargs['initial_value']
    return variable

  with tf.variable_creator_scope(creator):
    model = constructor()
    # Within the scope: a model without input shape makes its variables only
    # now.
    if not model.built and x_spec is not None:
      model.build(x_spec.shape)
  return model


def _input_spec(model, x_spec) -> tf.TensorSpec:
  """Returns the spec of x; builds the model for it if need be."""
  if x_spec is None:
    inputs = getattr(model, 'inputs', None) or []
    if len(inputs) != 1:
      raise ValueError(
          '`x_spec` must be given for a Keras model without exactly one input'
          f' of known shape, found {len(inputs)} inputs.'
      )
    x_spec = tf.TensorSpec([None, *inputs[0].shape[1:]], inputs[0].dtype)
  if not model.built:
    model.build(x_spec.shape)
  return x_spec
