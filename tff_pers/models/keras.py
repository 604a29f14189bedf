"""A Keras model as a variable-free functional model.

Keras layers read their weights from variables and draw dropout masks from
hidden generators. While one of our functions is traced, every read of a
variable gives the tensor that we pass instead, and every draw is keyed by the
seed that we pass; so the layers run as they are, and the trace holds neither.
"""

# pylint: disable=protected-access  Keras has no public way to its random state.

import contextlib
import functools
import itertools
from typing import Any, Callable, Mapping, Optional, Union

import tensorflow as tf

from tff_pers import random
from tff_pers.models import functional
from tff_pers.models import keras_layers

# What must not be in a trace: writes of variables, draws from hidden states.
_STATEFUL_OPS = (
    'Assign', 'Multinomial', 'ParameterizedTruncatedNormal', 'Random', 'Rng',
    'Stateful', 'TruncatedNormal',
)
# Its name begins like the draws above, but it is only a function call.
_FUNCTION_CALL = 'StatefulPartitionedCall'


def from_keras(
    keras_model: Union[tf.keras.Model, Callable[[], tf.keras.Model]],
    loss: Union[str, Callable[[Any, Any], Any]],
    *,
    y_spec: tf.TensorSpec = tf.TensorSpec([None], tf.int32),
    x_spec: Optional[tf.TensorSpec] = None,
    metrics: Optional[Mapping[str, Callable[[Any, Any], Any]]] = None,
) -> functional.FunctionalModel:
  """Returns a functional model that computes what `keras_model` computes.

  Dropout and noise layers draw from the seed given to `predict`; seeds of their
  own are ignored. Weights are the trainable variables, as a flat tuple; what is
  not trainable stays at its present value. Regularizers of weights become the
  penalty. The Keras model itself is not changed.

  Args:
    keras_model: An uncompiled Keras model with one input and one output: every
      run starts from its present weights. Or a function that makes one: then
      the initial weights follow the seed, drawn by the model's initializers.
    loss: A Keras loss or its name, or `(y, predictions) -> loss per example`;
      a loss per time step is averaged over the steps.
    y_spec: Spec of the labels, leading dimension None.
    x_spec: Spec of the features, leading dimension None. None: as the model
      says; a model without input shape (subclassed) needs it.
    metrics: `(y, predictions) -> [batch]` by name, e.g.
      `tf.keras.metrics.sparse_categorical_accuracy`. None: the accuracy, if
      labels are integers and there are at least two outputs.

  Raises:
    ValueError: If the model holds state that changes in training (batch
      normalization, stateful layers), draws unseeded random numbers, has losses
      on activations, weights of several dtypes or none, or if `x_spec` is
      needed.
  """
  initializers = {}
  if not isinstance(keras_model, tf.keras.Model):
    keras_model = _construct(keras_model, x_spec, initializers)
  x_spec = _input_spec(keras_model, x_spec)
  _check_layers(keras_model)
  network = _Network(keras_model, initializers)
  _check_weights(network.trainable)
  output_spec = _check_trace(network, x_spec)
  if metrics is None:
    metrics = functional.default_metrics(y_spec, output_spec.shape[-1] or 0)
  optional = {'penalty': network.penalty} if network.regularizers else {}
  return functional.FunctionalModel(
      init=network.init, predict=network.predict,
      example_loss=_example_loss(loss), x_spec=x_spec, y_spec=y_spec,
      metrics=metrics, name=keras_model.name,
      layers=keras_layers.describe(_layers(keras_model), network.trainable),
      **optional,
  )


class _Network:
  """The functions of a Keras model, over tensors in place of its variables."""

  def __init__(self, model: tf.keras.Model, initializers):
    layers = _layers(model)
    self._model = model
    self.trainable = list(model.trainable_variables)
    self._frozen = list(model.non_trainable_variables)
    # Values, because a trace that captures a variable is refused.
    self._frozen_values = [v.numpy() for v in self._frozen]
    generators = (getattr(x, '_random_generator', None) for x in layers)
    self._generators = [g for g in generators if g is not None]
    self.regularizers = [
        regularizer
        for layer in layers
        for regularizer in layer._callable_losses
    ]
    self._traced = tf.function(self._predict, reduce_retracing=True)
    self._traced_penalty = tf.function(self._penalty)
    self._initial = [
        initializers.get(v.ref()) or functools.partial(tf.constant, v.numpy())
        for v in self.trainable
    ]

  def init(self, seed):
    """Returns the initial weights."""
    return tuple(
        _initial_weight(initial, random.fold_in(seed, position))
        for position, initial in enumerate(self._initial)
    )

  def predict(self, weights, x, training, seed):
    """Returns the model's outputs."""
    # An eager operation would read the variable itself, not the tensor that
    # stands in for it, so predictions are always made in a trace.
    predict = self._traced if tf.executing_eagerly() else self._predict
    return predict(weights, x, bool(training), seed)

  def penalty(self, weights):
    """Returns the sum of the weights' regularizers."""
    penalty = self._traced_penalty if tf.executing_eagerly() else self._penalty
    return penalty(weights)

  def _predict(self, weights, x, training, seed):
    with self._substituted(weights), contextlib.ExitStack() as stack:
      for position, generator in enumerate(self._generators):
        stack.enter_context(
            _seeded(generator, random.fold_in(seed, position))
        )
      return self._model(x, training=training)

  def _penalty(self, weights):
    with self._substituted(weights):
      return tf.add_n([regularizer() for regularizer in self.regularizers])

  @contextlib.contextmanager
  def _substituted(self, weights):
    """Makes every read of the model's variables give tensors."""
    variables = self.trainable + self._frozen
    frozen = [tf.constant(value) for value in self._frozen_values]
    with contextlib.ExitStack() as stack:
      for variable, tensor in zip(variables, [*weights, *frozen]):
        stack.enter_context(_overriding(variable, **_reads(tensor)))
      yield


def _initial_weight(initial, key):
  """Calls a Keras variable's `initial_value`, drawing from `key`."""
  initializer = getattr(initial, 'func', None)  # Keras makes partials.
  generator = getattr(initializer, '_random_generator', None)
  if generator is None:
    return tf.convert_to_tensor(initial())
  # Keras warns that a second call of an initializer repeats the first. That is
  # what we want: the same key gives the same weights.
  with _seeded(generator, key), _overriding(
      initializer, _warn_reuse=lambda: None
  ):
    return tf.convert_to_tensor(initial())


def _reads(tensor):
  """The members by which TensorFlow reads a variable, giving `tensor`."""
  return dict(
      _handle=tensor,  # An embedding lookup is colocated with it.
      value=lambda: tensor,
      read_value=lambda: tensor,
      sparse_read=lambda indices, name=None: tf.gather(tensor, indices),
      gather_nd=lambda indices, name=None: tf.gather_nd(tensor, indices),
      assign=_refuse_write, assign_add=_refuse_write, assign_sub=_refuse_write,
  )


def _refuse_write(*args, **kwargs):
  del args, kwargs  # Unused.
  raise ValueError(
      '`keras_model` must not write its variables when it is called, because'
      ' clients share nothing but trainable weights, found a layer that does.'
      ' Tip: use layers without running statistics.'
  )


def _seeded(generator, key):
  """Makes a Keras random generator draw from `key`, each draw anew."""
  count = itertools.count()
  return _overriding(
      generator, _rng_type=generator.RNG_STATELESS, _built=True,
      make_seed_for_stateless_op=lambda: random.fold_in(key, next(count)),
  )


@contextlib.contextmanager
def _overriding(target, **attributes):
  """Sets attributes of the instance `target` for a while, untracked."""
  before = {k: vars(target)[k] for k in attributes if k in vars(target)}
  vars(target).update(attributes)
  try:
    yield
  finally:
    for name in attributes:
      del vars(target)[name]
    vars(target).update(before)


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


def _layers(model):
  """Returns the model and all its layers and cells, nested ones too."""
  # `submodules` is public, but fails once an RNN has been called.
  return list(model._flatten_layers())


def _check_layers(model) -> None:
  """Refuses layers whose state changes in training."""
  # The model comes first and is stateful if a layer is. The message should name
  # the layer, so the order is reversed.
  for layer in reversed(_layers(model)):
    name = layer.name
    if isinstance(layer, tf.keras.layers.BatchNormalization):
      raise ValueError(
          '`keras_model` must have no batch normalization, because its moving'
          ' averages are state outside the weights, found layer'
          f' {name!r}. Tip: use tf.keras.layers.GroupNormalization or'
          ' LayerNormalization.'
      )
    if getattr(layer, 'stateful', False):
      raise ValueError(
          '`keras_model` must have no stateful layers, found layer'
          f' {name!r}. Tip: build it with stateful=False.'
      )
    if getattr(layer, 'activity_regularizer', None) is not None:
      raise ValueError(
          '`keras_model` must have no activity regularizers, found one in layer'
          f' {name!r}. Tip: regularize weights, or add it to the loss.'
      )


def _check_weights(variables) -> None:
  dtypes = sorted({v.dtype.name for v in variables})
  if len(dtypes) != 1:
    raise ValueError(
        '`keras_model` must have trainable weights, all of one dtype, found'
        f' {len(variables)} weights of dtypes {dtypes}.'
    )


def _check_trace(network: _Network, x_spec) -> tf.TensorSpec:
  """Refuses models that are no pure functions; returns the output's spec."""
  weights = tuple(tf.TensorSpec(v.shape, v.dtype) for v in network.trainable)
  key = tf.TensorSpec([2], tf.int64)
  train = tf.function(lambda w, x, seed: network.predict(w, x, True, seed))
  init = tf.function(network.init)
  traces = [
      train.get_concrete_function(weights, x_spec, key),
      init.get_concrete_function(key),
  ]
  for trace in traces:
    graph_def = trace.graph.as_graph_def()
    functions = (f.node_def for f in graph_def.library.function)
    nodes = itertools.chain(graph_def.node, *functions)
    found = sorted({n.op for n in nodes if _is_stateful(n.op)})
    if found or trace.captured_inputs:
      raise ValueError(
          '`keras_model` must be a pure function of its weights and input,'
          ' because clients share nothing else, found'
          f' {found or "values captured from outside"}. Tip: draw random'
          ' numbers with Keras\'s own layers; keep no state in layers.'
      )
  output = traces[0].structured_outputs
  if not isinstance(output, (tf.Tensor, tf.TensorSpec)):
    raise ValueError(
        f'`keras_model` must have one output tensor, found {output}.'
    )
  return tf.TensorSpec(output.shape, output.dtype)


def _is_stateful(op: str) -> bool:
  return op.startswith(_STATEFUL_OPS) and op != _FUNCTION_CALL


def _example_loss(loss):
  """Returns `(y, predictions) -> [batch]` of a Keras loss."""
  loss = tf.keras.losses.get(loss)
  is_function = loss is tf.keras.losses.mean_squared_error
  if is_function or isinstance(loss, tf.keras.losses.MeanSquaredError):
    # The same numbers; others recognize this function by its identity.
    return functional.squared_error
  # A loss object reduces over the batch; its `call` does not.
  per_example = loss.call if isinstance(loss, tf.keras.losses.Loss) else loss
  is_keras = getattr(loss, '__module__', '').startswith('keras.')

  def example_loss(y, predictions):
    if is_keras and predictions.shape[1:] == [*y.shape[1:], 1]:
      # Otherwise Keras would broadcast [batch] with [batch, 1] to a matrix.
      y = y[..., None]
    losses = per_example(y, predictions)
    if losses.shape.rank == 0:
      raise ValueError(
          '`loss` must return one loss per example, found a scalar.'
      )
    return tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank)))

  return example_loss
