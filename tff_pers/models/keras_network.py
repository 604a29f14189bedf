"""Evaluates a Keras model on tensors instead of its variables.

While one of our functions is traced, every read of a variable gives the tensor
that we pass instead, and every draw is keyed by the seed that we pass. So the
layers run unchanged, and the trace has neither variables nor generators. Only
plain LSTM layers are computed by our own steps (`keras_recurrent`).
"""

# pylint: disable=protected-access  Keras has no public access to random state.

import contextlib
import functools
import itertools
from typing import Any, Callable, Mapping, Optional, Sequence

from keras.src.engine import base_layer_utils
import tensorflow as tf
# TensorFlow does not export whether a loop keeps values for its gradient.
from tensorflow.python.ops import control_flow_util_v2

from tff_pers.core import random
from tff_pers.models import captured
from tff_pers.models import comparing
from tff_pers.models import functional
from tff_pers.models import keras_batch_norm
from tff_pers.models import keras_layers
from tff_pers.models import keras_outputs
from tff_pers.models import keras_recurrent
from tff_pers.models import moving_statistics


class Network:
  """A Keras model as functions of its trainable weights, or of all weights.

  All weights come in the order of Keras's `get_weights`.
  """

  def __init__(
      self, model: tf.keras.Model, y_spec: Any,
      initializers: Mapping[Any, Any], still: Sequence[tf.Variable] = (),
  ):
    """Initializes the network of a built model.

    `initializers` are those of variables, by reference; all others start from
    their current values. The moving statistics `still` never move, see
    `find_still`.
    """
    layers = keras_layers.flatten(model)
    self._model, self._y_spec = model, y_spec
    fixed = {v.ref() for v in still}
    norms = [
        layer for layer in layers if keras_batch_norm.is_trained(layer)
        and layer.moving_mean.ref() not in fixed
    ]
    moving = keras_batch_norm.statistics(norms)
    # Moving statistics are weights without a gradient.
    self.trained = [*model.trainable_variables, *moving]
    self._all = list(model.weights)
    positions = {v.ref(): i for i, v in enumerate(self.trained)}
    # Position of each variable among the trained ones; None: it is frozen.
    self._positions = [positions.get(v.ref()) for v in self._all]
    # As values, because a trace that captures a variable is refused.
    self._values = [
        v.numpy() if position is None else None
        for v, position in zip(self._all, self._positions)
    ]
    generators = (getattr(x, '_random_generator', None) for x in layers)
    self._generators = [g for g in generators if g is not None]
    self.regularizers = [
        regularizer
        for layer in layers
        for regularizer in layer._callable_losses
    ]
    self._own = [
        *((layer, dict(call=call)) for layer, call in (
            *keras_recurrent.calls(layers), *keras_batch_norm.calls(norms)
        )),
        *((layer, _untraced(layer)) for layer in layers),
        *((layer, dict(function=comparing.function_of(layer)))
          for layer in layers if comparing.function_of(layer)),
    ]
    references = {v.ref() for v in moving}
    self._moving = [
        i for i, v in enumerate(self._all) if v.ref() in references
    ]
    # What its layers hold besides variables; set after tracing.
    self.captured: Optional[captured.Captured] = None
    self.still: list[tf.Variable] = []
    # The mask of each output in the last call, or None.
    self._masks: list[Any] = []
    # The variable that a call tried to write.
    self.written: Optional[tf.Variable] = None
    # Variables by reference, in the order in which layers first read them.
    self._read: dict[Any, None] = {}
    self._traced = tf.function(self._predict_moving, reduce_retracing=True)
    self._traced_penalty = tf.function(self._penalty)
    self._initial = [
        initializers.get(v.ref()) or functools.partial(tf.constant, v.numpy())
        for v in self.trained
    ]
    self._described = keras_layers.describe(
        layers, self._all, self._dtype, references
    )

  def init(self, seed: tf.Tensor) -> Any:
    """Returns the initial weights."""
    return tuple(
        _initial_weight(initial, random.fold_in(seed, position))
        for position, initial in enumerate(self._initial)
    )

  def predict(
      self, weights: Any, x: tf.Tensor, training: Any, seed: tf.Tensor
  ) -> Any:
    """Returns the model's outputs."""
    return self._predict_all(self._join(weights), x, training, seed)

  def find_still(self, weights: Any, into: moving_statistics.Recording) -> None:
    """Sets `still` to the statistics that a batch has left unchanged.

    These belong to layers that are always called with `training=False`.
    """
    everything = self._join(weights)
    self.still = [
        self._all[i] for i in self._moving
        if into.after(everything[i]) is everything[i]
    ]

  @property
  def weights_spec(self) -> tuple[tf.TensorSpec, ...]:
    """Specs of the trainable weights."""
    return tuple(tf.TensorSpec(v.shape, v.dtype) for v in self.trained)

  @property
  def masks_outputs(self) -> bool:
    """Whether the last call gave an output a mask."""
    return any(mask is not None for mask in self._masks)

  def mask_of(self, x_spec: Any) -> Optional[Callable[[Any], tf.Tensor]]:
    """Returns `(x) -> the mask of the one output`, bool[batch, ...].

    None if there are several outputs, or the mask depends on weights.
    """
    def trace(weights, x):
      self._predict(weights, x, False, tf.zeros([2], tf.int64))
      return self._masks[0]

    weights = tuple(tf.TensorSpec(v.shape, v.dtype) for v in self._all)
    if len(self._masks) > 1:
      return None
    graph = tf.compat.v1.wrap_function(trace, [weights, x_spec])
    held, given = graph.inputs[:len(weights)], graph.inputs[len(weights):]
    todo, needed = [graph.outputs[0].op], set()
    while todo:
      operation = todo.pop()
      if operation not in needed:
        needed.add(operation)
        todo.extend(tensor.op for tensor in operation.inputs)
    if any(tensor.op in needed for tensor in held):
      return None
    # Only the part of the network that computes the mask.
    pruned = graph.prune(given, graph.outputs)
    dtypes = [tensor.dtype for tensor in given]
    return lambda x: pruned(*map(tf.cast, tf.nest.flatten(x), dtypes))[0]

  def penalty(self, weights: Any) -> Any:
    """Returns the sum of the weights' regularizers."""
    return self._penalty_of_all(self._join(weights))

  @property
  def layers(self) -> tuple[functional.LayerWeight, ...]:
    """Descriptions of the trainable weights; the network has been called."""
    found = dict(zip(self._positions, self._described))
    return self._ranked(
        tuple(found[position] for position in range(len(self.trained)))
    )

  @property
  def frozen(self) -> Optional[functional.Frozen]:
    """The weights that are not trainable, or None."""
    if None not in self._positions:
      return None
    return functional.Frozen(
        join=self._join, layers=self._ranked(self._described),
        dtype=self._dtype,
        predict=self._predict_all,
        penalty=(
            self._penalty_of_all if self.regularizers
            else functional.no_penalty
        ),
    )

  @property
  def _dtype(self) -> tf.DType:
    """Dtype of the trainable weights, or without any, of the frozen ones."""
    floats = [v for v in self._all if v.dtype.is_floating]
    return (self.trained or floats)[0].dtype

  def _ranked(self, weights):
    """Returns descriptions that say when layers are applied, if out of order.

    A subclassed model has layers in the order of its attributes. Moving
    statistics come after all other weights in any model.
    """
    layer_of = dict(zip((v.ref() for v in self._all), self._described))
    ranks = {
        name: rank for rank, name in enumerate(dict.fromkeys(
            layer_of[reference].layer for reference in self._read
        ))
    }
    applied = [
        ranks.get(weight.layer, 0) for weight in weights
        if weight.kind != moving_statistics.KIND
    ]
    if applied == sorted(applied):
      return weights
    return tuple(
        weight._replace(applied=ranks.get(weight.layer, 0))
        for weight in weights
    )

  def _note(self, variable):
    """Remembers that a layer has read a variable in its own call.

    A model may read a kernel before its layer is applied.
    """
    layer = base_layer_utils.call_context().layer
    if not isinstance(layer, tf.keras.Model):
      self._read.setdefault(variable.ref())

  def _join(self, weights):
    """Returns all weights, with frozen ones as constants."""
    weights = tuple(weights)
    return tuple(
        tf.constant(value) if position is None else weights[position]
        for position, value in zip(self._positions, self._values)
    )

  def _predict_all(self, weights, x, training, seed):
    weights = tuple(map(tf.convert_to_tensor, weights))
    training = bool(training)
    if not tf.executing_eagerly():
      return self._predict(weights, x, training, seed)
    # An eager operation would read the variable itself rather than the tensor
    # that stands in for it, so predictions are always made in a trace.
    into = moving_statistics.current()
    outputs, moved = self._traced(
        weights, x, training, seed, into.mask, into.of_batch
    )
    for position, statistic in zip(self._moving, moved):
      into.put(weights[position], statistic)
    return outputs

  def _predict_moving(self, weights, x, training, seed, mask, of_batch):
    """Returns (outputs, moving statistics after the batch)."""
    with moving_statistics.recording(mask, of_batch) as into:
      outputs = self._predict(weights, x, training, seed)
    return outputs, [into.after(weights[i]) for i in self._moving]

  def _penalty_of_all(self, weights):
    penalty = self._traced_penalty if tf.executing_eagerly() else self._penalty
    return penalty(tuple(weights))

  def _predict(self, weights, x, training, seed):
    with self._substituted(weights), contextlib.ExitStack() as stack:
      # Within a Keras layer, a loop would keep all intermediate values of each
      # step, even if no gradient uses them; a gradient that does still gets
      # them.
      stack.enter_context(captured.overriding(
          control_flow_util_v2,
          _EXPERIMENTAL_OUTPUT_ALL_INTERMEDIATES_OVERRIDE=False,
      ))
      for position, generator in enumerate(self._generators):
        stack.enter_context(
            _seeded(generator, random.fold_in(seed, position))
        )
      outputs = self._model(x, training=training)
    outputs = keras_outputs.arranged(self._model, outputs, self._y_spec)
    self._masks = [
        getattr(output, '_keras_mask', None)
        for output in tf.nest.flatten(outputs)
    ]
    # With mixed precision: losses are summed in the dtype of the weights.
    return tf.nest.map_structure(
        lambda output: tf.cast(output, self._dtype)
        if output.dtype.is_floating else output, outputs,
    )

  def _penalty(self, weights):
    with self._substituted(weights):
      return tf.add_n([regularizer() for regularizer in self.regularizers])

  @contextlib.contextmanager
  def _substituted(self, weights):
    """Redirects every read of the model's variables to tensors."""
    with contextlib.ExitStack() as stack:
      if self.captured is not None:
        stack.enter_context(self.captured.as_constants())
      for variable, tensor in zip(self._all, weights):
        # With mixed precision, Keras casts values read from an inner variable.
        stack.enter_context(captured.overriding(
            getattr(variable, '_variable', variable),
            **_reads(
                tensor, functools.partial(self._refuse_write, variable),
                functools.partial(self._note, variable),
            ),
        ))
      for layer, attributes in self._own:
        stack.enter_context(captured.overriding(layer, **attributes))
      stack.enter_context(comparing.elementwise())
      yield

  def _refuse_write(self, variable, *args, **kwargs):
    del args, kwargs  # Unused.
    self.written = variable
    raise ValueError(
        f'`keras_model` must not write {variable.name!r} when it is called.'
    )


def _untraced(layer):
  """Returns the `tf.function` methods of a layer, without their traces.

  A trace would keep tensors of its first call.
  """
  own = type(layer)
  names = [
      name for name in dir(own) if isinstance(
          getattr(own, name, None), tf.types.experimental.GenericFunction
      )
  ]
  return {name: getattr(layer, name).python_function for name in names}


def _initial_weight(initial, key):
  """Calls a Keras variable's `initial_value`, drawing from `key`."""
  initializer = getattr(initial, 'func', None)  # Keras creates partials.
  generator = getattr(initializer, '_random_generator', None)
  if generator is None:
    return tf.convert_to_tensor(initial())
  # Keras warns that a second call of an initializer repeats the first, which is
  # intended: the same key gives the same weights.
  with _seeded(generator, key), captured.overriding(
      initializer, _warn_reuse=lambda: None
  ):
    return tf.convert_to_tensor(initial())


def _reads(tensor, refuse_write, note):
  """Returns the attributes by which TensorFlow reads a variable."""
  def read():
    note()
    return tensor

  return dict(
      _handle=tensor,  # An embedding lookup is colocated with it.
      value=read,
      read_value=read,
      sparse_read=lambda indices, name=None: tf.gather(read(), indices),
      gather_nd=lambda indices, name=None: tf.gather_nd(read(), indices),
      assign=refuse_write, assign_add=refuse_write, assign_sub=refuse_write,
  )


def _seeded(generator, key):
  """Makes a Keras random generator draw from `key`, differently each time."""
  count = itertools.count()
  return captured.overriding(
      generator, _rng_type=generator.RNG_STATELESS, _built=True,
      make_seed_for_stateless_op=lambda: random.fold_in(key, next(count)),
  )
