"""TFF's tutorials in one file: training, evaluation, heavy hitters, selection.

Plain TensorFlow Federated except for one line, `runtime.use('fused')`:

    python -m examples.tff_tutorial
    python -m examples.tff_tutorial --runtime=native    # TFF's own worker

The parts follow "Federated Learning for Image Classification", "Private Heavy
Hitters" and "Client-efficient large-model federated learning via
`federated_select`" at tensorflow.org/federated/tutorials, on data that need no
download.
"""

import argparse
import collections
import time

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import runtime

NUM_CLIENTS, NUM_ROUNDS, BATCH_SIZE, NUM_PIXELS = 10, 10, 20, 784


def image_classification():
  """Federated averaging and evaluation on synthetic EMNIST."""
  emnist = tff.simulation.datasets.emnist.get_synthetic()

  def preprocess(dataset):

    def batch_format_fn(element):
      return collections.OrderedDict(
          x=tf.reshape(element['pixels'], [-1, NUM_PIXELS]),
          y=tf.reshape(element['label'], [-1, 1]),
      )

    return dataset.repeat(5).shuffle(100, seed=1).batch(BATCH_SIZE).map(
        batch_format_fn
    )

  clients = [emnist.client_ids[0]] * NUM_CLIENTS

  def make_data():
    return [
        preprocess(emnist.create_tf_dataset_for_client(c)) for c in clients
    ]

  spec = make_data()[0].element_spec

  def model_fn():
    keras_model = tf.keras.models.Sequential([
        tf.keras.layers.InputLayer(input_shape=(NUM_PIXELS,)),
        tf.keras.layers.Dense(10, kernel_initializer='zeros'),
        tf.keras.layers.Softmax(),
    ])
    return tff.learning.models.from_keras_model(
        keras_model,
        input_spec=spec,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(),
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )

  training_process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn,
      client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.02),
      server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
  )
  evaluation_process = tff.learning.algorithms.build_fed_eval(model_fn)
  state = training_process.initialize()
  for _ in range(NUM_ROUNDS):
    result = training_process.next(state, make_data())
    state = result.state
  evaluation_state = evaluation_process.set_model_weights(
      evaluation_process.initialize(),
      training_process.get_model_weights(state),
  )
  evaluated = evaluation_process.next(evaluation_state, make_data())
  train = result.metrics['client_work']['train']
  test = evaluated.metrics['client_work']['eval']['current_round_metrics']
  return [train['loss'], test['loss'], test['sparse_categorical_accuracy']]


def heavy_hitters():
  """Finds words that many clients have, by sketches."""
  words = ['federated', 'learning', 'private', 'averaging', 'client', 'server']
  data = [
      tf.data.Dataset.from_tensor_slices(words[: 1 + i % 6]).batch(1)
      for i in range(NUM_CLIENTS)
  ]
  hitters = tff.analytics.heavy_hitters.iblt.build_iblt_computation(
      capacity=50, string_max_bytes=10, max_words_per_user=6, seed=3
  )
  output = hitters(data)
  counts = dict(zip(output.heavy_hitters, output.heavy_hitters_counts))
  return [int(np.sum(counts.get(w.encode(), 0))) for w in words]


def selection():
  """Logistic regression whose clients receive the rows of their own words."""
  vocabulary, keys_per_client = 100, 8
  row_type = tff.TensorType(np.float32, [1])
  model_type = tff.TensorType(np.float32, [vocabulary, 1])
  keys_type = tff.TensorType(np.int32, [keys_per_client])

  @tff.tensorflow.computation
  def initial_model():
    return tf.zeros([vocabulary, 1])

  @tff.tensorflow.computation(model_type, np.int32)
  def select_row(model, key):
    return tf.gather(model, key)

  @tff.tensorflow.computation
  def max_key():
    return tf.constant(vocabulary, tf.int32)

  @tff.tensorflow.computation(
      tff.SequenceType(row_type), keys_type, np.float32
  )
  def client_update(rows, keys, label):
    slices = rows.batch(keys_per_client).get_single_element()
    residual = tf.sigmoid(tf.reduce_sum(slices)) - label
    return tf.scatter_nd(
        keys[:, tf.newaxis], tf.fill([keys_per_client, 1], residual),
        [vocabulary, 1],
    )

  @tff.tensorflow.computation(model_type, model_type)
  def server_update(model, update):
    return model - 0.5 * update

  @tff.federated_computation(
      tff.FederatedType(model_type, tff.SERVER),
      tff.FederatedType(keys_type, tff.CLIENTS),
      tff.FederatedType(np.float32, tff.CLIENTS),
  )
  def train_round(model, keys, labels):
    rows = tff.federated_select(
        keys, tff.federated_eval(max_key, tff.SERVER), model, select_row
    )
    updates = tff.federated_map(client_update, (rows, keys, labels))
    return tff.federated_map(
        server_update, (model, tff.federated_mean(updates))
    )

  rng = np.random.default_rng(0)
  keys = [
      rng.choice(vocabulary, keys_per_client, replace=False).astype(np.int32)
      for _ in range(NUM_CLIENTS)
  ]
  labels = [np.float32(i % 2) for i in range(NUM_CLIENTS)]
  model = initial_model()
  for _ in range(NUM_ROUNDS):
    model = train_round(model, keys, labels)
  return [np.linalg.norm(model), np.max(model)]


def main():
  parser = argparse.ArgumentParser(description='TFF tutorials, timed.')
  parser.add_argument(
      '--runtime', default='fused', choices=('fused', 'native')
  )
  runtime.use(parser.parse_args().runtime)  # The one line.
  for part in (image_classification, heavy_hitters, selection):
    start = time.perf_counter()
    numbers = part()
    print(
        f'{part.__name__}: {" ".join(f"{n:.6g}" for n in numbers)}'
        f' ({time.perf_counter() - start:.1f} s)'
    )


if __name__ == '__main__':
  main()
