"""Unmodified Keras models in tff.learning, one round and one evaluation.

Initial weights are constants, so that both runtimes start alike.
"""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tests.conformance import cases
from tests.conformance import problems

agree = agree_lib.agree
layers = tf.keras.layers
initial = problems.initial


def _vectors(num_examples, seed):
  return problems.examples(num_examples, seed)


def _images(num_examples, seed):
  rng = np.random.default_rng(seed)
  return collections.OrderedDict(
      x=rng.normal(size=[num_examples, 6, 6, 1]).astype(np.float32),
      y=rng.integers(0, problems.NUM_CLASSES, num_examples).astype(np.int32),
  )


def _words(num_examples, seed):
  rng = np.random.default_rng(seed)
  return collections.OrderedDict(
      x=rng.integers(0, 7, [num_examples, 5]).astype(np.int64),
      y=rng.integers(0, problems.NUM_CLASSES, num_examples).astype(np.int32),
  )


def _texts(num_examples, seed):
  rng = np.random.default_rng(seed)
  words = np.array([b'the', b'cat', b'sat', b'dog'], object)
  return collections.OrderedDict(
      x=rng.choice(words, [num_examples, 3]),
      y=rng.integers(0, problems.NUM_CLASSES, num_examples).astype(np.int32),
  )


def _dense(units, **kwargs):
  return layers.Dense(units, kernel_initializer=initial, **kwargs)


def batch_norm():
  return [
      layers.InputLayer([problems.NUM_FEATURES]), _dense(5),
      layers.BatchNormalization(), layers.ReLU(),
      _dense(problems.NUM_CLASSES),
  ]


def convolution():
  return [
      layers.InputLayer([6, 6, 1]),
      layers.Conv2D(4, 3, activation='relu', kernel_initializer=initial),
      layers.MaxPool2D(), layers.Flatten(), _dense(problems.NUM_CLASSES),
  ]


def embedding():
  return [
      layers.InputLayer([5], dtype=tf.int64),
      layers.Embedding(
          7, 4, embeddings_initializer=initial, mask_zero=True
      ),
      layers.GlobalAveragePooling1D(), _dense(problems.NUM_CLASSES),
  ]


def _recurrent(layer):
  return [
      layers.InputLayer([5], dtype=tf.int64),
      layers.Embedding(7, 4, embeddings_initializer=initial),
      layer(
          4, kernel_initializer=initial, recurrent_initializer=initial
      ),
      _dense(problems.NUM_CLASSES),
  ]


def lstm():
  return _recurrent(layers.LSTM)


def gru():
  return _recurrent(layers.GRU)


def normalized():
  return [
      layers.InputLayer([problems.NUM_FEATURES]), _dense(6),
      layers.LayerNormalization(), layers.Activation('gelu'),
      _dense(problems.NUM_CLASSES),
  ]


def string_lookup():
  return [
      layers.InputLayer([3], dtype=tf.string),
      layers.StringLookup(vocabulary=['the', 'cat', 'sat']),
      layers.Embedding(4, 4, embeddings_initializer=initial),
      layers.Flatten(), _dense(problems.NUM_CLASSES),
  ]


def dropout():
  return [
      layers.InputLayer([problems.NUM_FEATURES]), layers.Dropout(0.5),
      _dense(problems.NUM_CLASSES),
  ]


MODELS = {
    'batch_norm': (batch_norm, _vectors),
    'convolution': (convolution, _images),
    'embedding': (embedding, _words),
    'lstm': (lstm, _words),
    'gru': (gru, _words),
    'normalized': (normalized, _vectors),
    'string_lookup': (string_lookup, _texts),
}


def _clients(examples):
  return [
      tf.data.Dataset.from_tensor_slices(examples(n, seed)).batch(4)
      for seed, n in enumerate((6, 3))
  ]


def _model_fn(build, examples):
  element = _clients(examples)[0].element_spec

  def model_fn():
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential(build()), loss=problems.loss(),
        input_spec=element, metrics=problems.metrics(),
    )

  return model_fn


@pytest.mark.parametrize('name', cases.cases(
    MODELS, fast=['batch_norm', 'string_lookup']
))
def test_training(name):
  build, examples = MODELS[name]
  process = tff.learning.algorithms.build_weighted_fed_avg(
      _model_fn(build, examples), tff.learning.optimizers.build_sgdm(0.1)
  )
  state = agree(process.initialize)
  output = agree(process.next, state, _clients(examples))
  problems.assert_margin(output.metrics)


@pytest.mark.parametrize('name', cases.cases(
    ['batch_norm', 'lstm', 'dropout'], fast=['dropout']
))
def test_evaluation(name):
  """Dropout does nothing here, and batch normalization uses its averages."""
  build, examples = MODELS.get(name, (dropout, _vectors))
  process = tff.learning.algorithms.build_fed_eval(_model_fn(build, examples))
  state = agree(process.initialize)
  output = agree(process.next, state, _clients(examples))
  problems.assert_margin(output.metrics)


def test_dropout_drops_anew_in_every_batch_and_client():
  """Half of the inputs, doubled: within five standard errors of 1."""
  @tff.tensorflow.computation(tff.SequenceType(
      tff.TensorType(np.float32, [None])
  ))
  def local(batches):
    layer = layers.Dropout(0.5)
    return batches.reduce(
        tf.zeros([2, 1000]),
        lambda s, b: tf.stack([s[1], layer(b, training=True)]),
    )

  @tff.federated_computation(tff.FederatedType(
      local.type_signature.parameter, tff.CLIENTS
  ))
  def computation(data):
    return tff.federated_map(local, data)

  data = tf.data.Dataset.from_tensors(np.ones([1000], np.float32)).repeat(2)
  for call in (agree_lib.on_native, agree_lib.on_fused):
    masks = np.concatenate(call(computation, [data, data]))
    assert set(np.unique(masks)) == {0.0, 2.0}
    # A mask's mean has a standard error of 1 / sqrt(1000).
    assert np.all(np.abs(masks.mean(1) - 1) < 5 / np.sqrt(1000))
    assert len(np.unique(masks, axis=0)) == 4


def test_stateful_optimizer_of_keras_at_clients():
  """Its slots are variables of the client's graph."""
  def model_fn():
    return problems.model_fn()

  @tff.tensorflow.computation(tff.SequenceType(
      tff.types.tensorflow_to_type(problems.INPUT_SPEC)
  ))
  def local(data):
    model = model_fn()
    optimizer = tf.keras.optimizers.legacy.Adam(0.01)

    @tf.function
    def train(batches):
      # Slots must exist before the loop.
      optimizer._create_all_weights(model.trainable_variables)  # pylint: disable=protected-access
      for batch in batches:
        with tf.GradientTape() as tape:
          loss = model.forward_pass(batch).loss
        optimizer.apply_gradients(zip(
            tape.gradient(loss, model.trainable_variables),
            model.trainable_variables,
        ))
      return [v.read_value() for v in model.trainable_variables]

    return train(data)

  @tff.federated_computation(tff.FederatedType(
      local.type_signature.parameter, tff.CLIENTS
  ))
  def computation(data):
    return tff.federated_map(local, data)

  for _ in range(2):
    agree(computation, problems.clients())
