"""Exports a client's model: TensorFlow's SavedModel, Keras, npz.

A SavedModel holds the weights that a client deploys and the prediction
function, and needs nothing from this package:

    loaded = tf.saved_model.load(path)
    loaded.predict(x)                       # predictions of the model, [n, ...]
    loaded.signatures['serving_default']    # the same, for TensorFlow Serving

Several inputs are a dict or tuple as in training, and so are predictions of
several outputs; signatures name them by their keys or positions.

The files of `--export` also take rows as they are in a file, see `Serving`:

    loaded.score({'age': ages, 'colour': colours})['label']
    loaded.signatures['serving_default']    # the same, for TensorFlow Serving
    loaded.signatures['features']           # predictions of x

With class labels the predictions are logits (or logarithms of probabilities, if
a method mixes models): their softmax gives the probabilities. With two classes
some models give one logit, that of class 1 against class 0.
"""

import functools
import itertools
import os
import re
from typing import (
    Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence
)

import numpy as np
import tensorflow as tf

from tff_pers.core import process as process_lib
from tff_pers.core import structures
from tff_pers.models import functional
from tff_pers.models import keras_batch_norm
from tff_pers.models import keras_layers
from tff_pers.models import layers

FORMATS = ('saved_model', 'keras', 'npz')


class Serving(NamedTuple):
  """The inputs and outputs of a SavedModel if they are not x and predictions.

  Attributes:
    inputs: Specs by name.
    to_x: `(inputs by name) -> x`.
    answers: `(predictions) -> outputs by name`.
    classes: Names of the classes; empty: y are numbers.
  """

  inputs: Mapping[str, tf.TensorSpec]
  to_x: Callable[[Mapping[str, tf.Tensor]], tf.Tensor]
  answers: Callable[[tf.Tensor], Mapping[str, tf.Tensor]]
  classes: Sequence[str]


def export_saved_model(
    process: process_lib.PersonalizedProcess, state: Any,
    data: Mapping[str, Any], path: str, client_state: Any = (),
) -> Any:
  """Writes what one client deploys after adapting, as a SavedModel.

  The client adapts to its data as it does before evaluation. For a method
  without such a step, only the index in its data is used.

  Args:
    process: A `PersonalizedProcess`.
    state: Its server state.
    data: Dense data of the client (`client_data.dense`), to which it adapts.
    path: The folder to write.
    client_state: The client's own state; `()` if the method is stateless.

  Returns:
    The written weights, in the structure of `process.deployed`.
  """
  weights = process.deploy(state, [client_state], [data])[0]['weights']
  save_model(process.deployed, weights, path)
  return weights


def save(
    kind: str, model: functional.FunctionalModel, weights: Any, path: str,
    serving: Optional[Serving] = None,
) -> Any:
  """Writes a model in one of `FORMATS`; returns the written file or folder.

  Its name is `path` with an ending of the format. `serving`: see `save_model`.

  Raises:
    ValueError: If `kind` is not in `FORMATS`, or the format cannot hold the
      model.
  """
  if kind == 'npz':
    path = f'{path}.npz'
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.savez(path, **leaves(weights))
    return path
  if kind == 'saved_model':
    save_model(model, weights, path, serving)
    return path
  if kind == 'keras':
    path = f'{path}_keras'
    to_keras(model, weights).save(
        path, save_format='tf', include_optimizer=False
    )
    return path
  raise ValueError(f'`kind` must be one of {", ".join(FORMATS)}, found {kind}.')


def save_model(
    model: functional.FunctionalModel, weights: Any, path: str,
    serving: Optional[Serving] = None,
) -> None:
  """Writes a functional model and its weights as a SavedModel.

  `serving` gives inputs and outputs of its function `score` and of its default
  signature; `columns()` and `classes()` return names, and a second signature,
  `features`, takes x and returns predictions. Without it, the default signature
  does that.
  """
  module = tf.Module()
  predict = _predict(model, weights, module)
  module.predict = tf.function(predict, input_signature=[model.x_spec])
  inputs = tf.nest.flatten(structures.mapped(
      lambda spec, path: tf.TensorSpec(
          spec.shape, spec.dtype, structures.plain(path)
      ),
      model.x_spec, 'x',
  ))

  @tf.function(input_signature=inputs)
  def served(*flat):
    outputs = predict(tf.nest.pack_sequence_as(model.x_spec, flat))
    names = structures.mapped(
        lambda _, path: structures.plain(path), outputs, 'predictions'
    )
    return dict(zip(tf.nest.flatten(names), tf.nest.flatten(outputs)))

  signatures = dict(serving_default=served.get_concrete_function())
  if serving is not None:
    inputs = dict(serving.inputs)
    score = tf.function(
        lambda raw: serving.answers(predict(serving.to_x(raw))),
        input_signature=[inputs], autograph=False,
    )
    arguments = dict(zip(_arguments(inputs), inputs))
    of_columns = tf.function(
        lambda **raw: score({arguments[name]: raw[name] for name in raw}),
        autograph=False,
    )
    signatures = dict(
        features=signatures['serving_default'],
        serving_default=of_columns.get_concrete_function(**{
            name: tf.TensorSpec(inputs[key].shape, inputs[key].dtype, name)
            for name, key in arguments.items()
        }),
    )
    module.score = score
    for name, texts in (('columns', inputs), ('classes', serving.classes)):
      setattr(module, name, tf.function(
          functools.partial(tf.constant, list(texts), tf.string),
          input_signature=[],
      ))
  tf.saved_model.save(module, path, signatures=signatures)


def _arguments(names: Iterable[str]) -> list[str]:
  """Returns distinct names that TensorFlow allows for arguments."""
  made: list[str] = []
  for name in names:
    name = re.sub('[^A-Za-z0-9_]', '_', name)
    if not name[0].isalpha():
      name = f'column_{name}'
    used = {other.lower() for other in made}
    more = (f'{name}_{number}' for number in itertools.count(2))
    made.append(next(
        n for n in itertools.chain([name], more) if n.lower() not in used
    ))
  return made


def to_keras(model: functional.FunctionalModel, weights: Any) -> tf.keras.Model:
  """Returns a one-layer Keras model that predicts like the functional one.

  Its weights are variables in the order of `tf.nest.flatten`.
  """
  inputs = tf.nest.map_structure(
      lambda spec: tf.keras.Input(spec.shape[1:], dtype=spec.dtype),
      model.x_spec,
  )
  layer = _Layer(model, weights, name=_name(model.name))
  return tf.keras.Model(inputs, layer(inputs))


class _Layer(tf.keras.layers.Layer):
  """A layer that contains a whole functional model."""

  def __init__(self, model, weights, **options):
    super().__init__(dtype=model.dtype, **options)
    self._predict = _predict(model, weights, self)

  def call(self, inputs):
    return self._predict(inputs)


def _predict(model, weights, owner):
  """Returns `x -> predictions`; `owner.variables_` holds the weights."""
  named = leaves(weights)
  owner.variables_ = [
      tf.Variable(leaf, name=_name(name)) for name, leaf in named.items()
  ]

  def predict(x):
    held = [tf.convert_to_tensor(v) for v in owner.variables_]
    return model.predict(
        tf.nest.pack_sequence_as(weights, held), x, False,
        tf.zeros([2], tf.int64),  # Without dropout, nothing is drawn.
    )

  return predict


def _name(path: str) -> str:
  """Returns a name with only the characters that TensorFlow allows."""
  return ''.join(c if c.isalnum() or c in '._/-' else '_' for c in path)


def merge_into(
    keras_model: tf.keras.Model,
    weights: Sequence[Any],
    model: Optional[functional.FunctionalModel] = None,
) -> tf.keras.Model:
  """Sets a Keras model's weights to those of a client; returns the model.

  Args:
    keras_model: The model given to `from_keras`, or an equally built one.
    weights: A flat tuple: what a method deploys after `from_keras` (its
      trainable variables, followed by moving statistics), or, with frozen
      layers and adaptors, all of its weights as `AdaptedModel.merge` returns
      them.
    model: `process.deployed`, needed if a method deploys the weights in
      another form, as FedHM does.

  Raises:
    ValueError: If neither number and shapes of weights fit, e.g. because a
      method deploys several models.
  """
  if model is not None and model.to_base is not None:
    weights = model.to_base(tf.nest.map_structure(tf.constant, weights))
  given = [np.asarray(leaf) for leaf in tf.nest.flatten(weights)]
  shapes = [leaf.shape for leaf in given]
  trained = keras_model.trainable_variables
  own = [tuple(v.shape) for v in trained]
  moving = keras_batch_norm.statistics(keras_layers.flatten(keras_model))
  for variables in ([*trained, *moving], trained, keras_model.variables):
    if [tuple(v.shape) for v in variables] == shapes:
      for variable, leaf in zip(variables, given):
        variable.assign(leaf)
      return keras_model
  tip = (
      'weights with adaptors are merged first (`merge(weights, router)`); those'
      ' of tiers need model=process.deployed'
  )
  if own and set(own) <= {*shapes, *(shape[1:] for shape in shapes)}:
    tip = (
        'several models do not fit into one, nor do additional weights;'
        ' `to_keras` keeps them all'
    )
  raise ValueError(
      '`weights` must be those of the trainable variables of `keras_model`, or'
      f' of all its variables, found shapes {shapes} for {own}. Tip: {tip}.'
  )


def leaves(weights: Any) -> Mapping[str, np.ndarray]:
  """Returns the leaves by path, in the order of `tf.nest.flatten`."""
  return {
      '/'.join(map(str, path)) or 'weights': np.asarray(leaf)
      for path, leaf in zip(layers.paths(weights), tf.nest.flatten(weights))
  }
