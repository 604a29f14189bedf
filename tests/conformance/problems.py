"""Small models and clients for the processes of tff.learning."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

NUM_FEATURES, NUM_CLASSES = 4, 3
# Full batches, a ragged last one, a client without examples.
SIZES = (8, 5, 0, 3)

INPUT_SPEC = collections.OrderedDict(
    x=tf.TensorSpec([None, NUM_FEATURES], tf.float32),
    y=tf.TensorSpec([None], tf.int32),
)


def examples(num_examples, seed):
  """Returns arrays x, y; the classes are those of a fixed linear map."""
  rng = np.random.default_rng(seed)
  x = rng.normal(size=[num_examples, NUM_FEATURES]).astype(np.float32)
  return collections.OrderedDict(
      x=x, y=np.argmax(x[:, :NUM_CLASSES], -1).astype(np.int32)
  )


def clients(sizes=SIZES, batch_size=4):
  """Returns a `tf.data.Dataset` of batches for every client."""
  return [
      tf.data.Dataset.from_tensor_slices(examples(n, seed)).batch(batch_size)
      for seed, n in enumerate(sizes)
  ]


def initial(shape, dtype=None, scale=0.1):
  """An initializer of Keras that draws nothing: 0, 0.1, 0.2, -0.1, ..."""
  values = np.arange(np.prod(shape, dtype=int)) % 5 - 2
  return tf.constant(scale * values.reshape(shape), dtype or tf.float32)


def keras_model() -> tf.keras.Model:
  """Returns a network of one hidden layer."""
  return tf.keras.Sequential([
      tf.keras.layers.InputLayer([NUM_FEATURES]),
      tf.keras.layers.Dense(5, 'tanh', kernel_initializer=initial),
      tf.keras.layers.Dense(NUM_CLASSES, kernel_initializer=initial),
  ])


def metrics():
  return [
      tf.keras.metrics.SparseCategoricalAccuracy('accuracy'),
      tff.learning.metrics.NumExamplesCounter(),
      tff.learning.metrics.NumBatchesCounter(),
  ]


def loss():
  return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def model_fn() -> tff.learning.models.VariableModel:
  """Returns the Keras model as tff.learning takes it."""
  return tff.learning.models.from_keras_model(
      keras_model(), loss=loss(), input_spec=INPUT_SPEC, metrics=metrics()
  )


def functional_model() -> tff.learning.models.FunctionalModel:
  """Returns logistic regression without variables."""
  @tf.function
  def predict_on_batch(weights, x, training):
    del training  # Unused.
    return x @ weights[0][0] + weights[0][1]

  @tf.function
  def example_loss(output, label, sample_weight=None):
    del sample_weight  # Unused.
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        label, output
    ))

  @tf.function
  def initialize_metrics():
    return collections.OrderedDict(num=0.0, right=0.0)

  @tf.function
  def update_metrics(state, labels, batch_output, sample_weight=None):
    del sample_weight  # Unused.
    right = tf.equal(
        tf.argmax(batch_output.predictions, -1, tf.int32), labels
    )
    return collections.OrderedDict(
        num=state['num'] + tf.cast(tf.size(right), tf.float32),
        right=state['right'] + tf.reduce_sum(tf.cast(right, tf.float32)),
    )

  @tf.function
  def finalize_metrics(state):
    return collections.OrderedDict(
        accuracy=tf.math.divide_no_nan(state['right'], state['num'])
    )

  weights = (
      np.array(initial([NUM_FEATURES, NUM_CLASSES])),
      np.zeros([NUM_CLASSES], np.float32),
  )
  return tff.learning.models.FunctionalModel(
      initial_weights=(weights, ()),
      predict_on_batch_fn=predict_on_batch,
      loss_fn=example_loss,
      metrics_fns=(
          initialize_metrics, update_metrics,
          finalize_metrics,
      ),
      input_spec=(INPUT_SPEC['x'], INPUT_SPEC['y']),
  )


def functional_clients(sizes=SIZES):
  """As `clients`, with elements (x, y)."""
  return [data.map(lambda b: (b['x'], b['y'])) for data in clients(sizes)]
