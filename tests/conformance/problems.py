"""Small models and clients for the processes of tff.learning.

The models report `num_close`, the number of examples whose class is decided by
less than `MARGIN`; `assert_margin` checks that a run had none.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.testing import margins

NUM_FEATURES, NUM_CLASSES = 4, 3
# Logits of order one differ by about 1e-6 between runtimes after one round, and
# by about 1e-5 after ten.  A hundred times that leaves room for any CPU.
MARGIN = 1e-3
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


def initial(shape, dtype=None, scale=1.0):
  """An initializer of Keras that draws nothing: sin(1), sin(4), sin(9), ...

  The values have no period, so that a kernel has full rank and no two classes
  are tied.
  """
  values = np.sin(np.arange(1, np.prod(shape, dtype=int) + 1)**2)
  return tf.constant(scale * values.reshape(shape), dtype or tf.float32)


class NumClose(tf.keras.metrics.Sum):
  """Counts the examples whose class is decided by less than the margin."""

  def __init__(self, name='num_close', dtype=None):
    super().__init__(name, dtype)

  def update_state(self, y_true, y_pred, sample_weight=None):
    del y_true, sample_weight  # Unused.
    return super().update_state(margins.is_close(y_pred, MARGIN))


def assert_margin(metrics) -> None:
  """Raises AssertionError unless no example of the run was close.

  Args:
    metrics: What a process of tff.learning reports: nested dictionaries.
  """
  counts = list(_reported(metrics, 'num_close'))
  assert counts, f'`metrics` must hold `num_close`, found {metrics}.'
  assert not np.any(counts), (
      f'The classes of {counts} examples are decided by less than {MARGIN}:'
      ' accuracies may depend on the last bits.'
  )


def _reported(metrics, name):
  """Yields the values of that name in nested dictionaries."""
  for key, value in metrics.items():
    if key == name:
      yield value
    elif isinstance(value, collections.abc.Mapping):
      yield from _reported(value, name)


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
      NumClose(),
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
    return collections.OrderedDict(num=0.0, right=0.0, close=0.0)

  @tf.function
  def update_metrics(state, labels, batch_output, sample_weight=None):
    del sample_weight  # Unused.
    right = tf.equal(
        tf.argmax(batch_output.predictions, -1, tf.int32), labels
    )
    return collections.OrderedDict(
        num=state['num'] + tf.cast(tf.size(right), tf.float32),
        right=state['right'] + tf.reduce_sum(tf.cast(right, tf.float32)),
        close=state['close'] + tf.reduce_sum(
            margins.is_close(batch_output.predictions, MARGIN)
        ),
    )

  @tf.function
  def finalize_metrics(state):
    return collections.OrderedDict(
        accuracy=tf.math.divide_no_nan(state['right'], state['num']),
        num_close=state['close'],
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
