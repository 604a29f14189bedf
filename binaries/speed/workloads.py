"""The workloads of `benchmark_runtime`: a model, a cohort, an algorithm."""

import collections
import dataclasses
from typing import Any, Callable, Iterator

import numpy as np
import tensorflow as tf

from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import keras
from tff_pers.models import zoo
from tff_pers.numerics import low_rank

LEARNING_RATE = 0.05
_CLASSES = 62
_VOCABULARY, _WORDS = 10004, 20
_TOKENS, _TAGS = 10000, 500


@dataclasses.dataclass(frozen=True)
class Workload:
  """A model, a cohort and an algorithm; each client trains one SGD epoch.

  Attributes:
    title: Title in tables.
    algorithm: `fedavg` (this project's, dense data), `tff_learning` (TFF's
      weighted FedAvg, `tf.data` clients) or `perm` (single loop, all rounds
      with visits).
    model: `() ->` a functional model; for `tff_learning` a Keras model.
    examples: `(generator, n) -> (x, y)`, n random examples.
    num_clients: Clients of the cohort, the same in every round.
    num_examples: Examples per client.
    batch_size: Examples per minibatch.
    pool: Number of clients from which every round draws a new cohort, with new,
      reshuffled data sets; 0: every round has the same cohort and data sets.
  """

  title: str
  algorithm: str
  model: Callable[[], Any]
  examples: Callable[[np.random.Generator, int], tuple[Any, Any]]
  num_clients: int = 10
  num_examples: int = 100
  batch_size: int = 20
  pool: int = 0


def arrays(workload: Workload) -> list[tuple[np.ndarray, np.ndarray]]:
  """Returns the (x, y) of every client of the cohort, or of the pool."""
  generator = np.random.default_rng(0)
  return [
      workload.examples(generator, workload.num_examples)
      for _ in range(workload.pool or workload.num_clients)
  ]


def cohorts(workload: Workload) -> Iterator[np.ndarray]:
  """Yields the clients of the pool that take part, round after round."""
  generator = np.random.default_rng(2)
  while True:
    yield generator.choice(workload.pool, workload.num_clients, replace=False)


def clients(workload: Workload) -> list[Any]:
  """Returns the dense data of every client."""
  return [
      client_data.dense(i, x, y) for i, (x, y) in enumerate(arrays(workload))
  ]


def _images(generator, num_examples):
  return (
      generator.random((num_examples, 28, 28), np.float32),
      generator.integers(0, _CLASSES, num_examples).astype(np.int32),
  )


def _sentences(generator, num_examples):
  words = generator.integers(0, _VOCABULARY, (num_examples, _WORDS + 1))
  words = words.astype(np.int32)
  return np.array(words[:, :-1]), np.array(words[:, 1:])


def _tagged(generator, num_examples):
  bags = generator.random((num_examples, _TOKENS), np.float32)
  tags = generator.random((num_examples, _TAGS)) < 0.01
  return bags, tags.astype(np.float32)


def _mlp():
  return zoo.build('mlp_200', tf.TensorSpec([None, 28, 28]), _CLASSES)


def _cnn():
  return zoo.build('emnist_cnn', tf.TensorSpec([None, 28, 28]), _CLASSES)


def _keras_mlp():
  layers = tf.keras.layers
  return tf.keras.Sequential([
      layers.InputLayer([28, 28]), layers.Flatten(),
      layers.Dense(200, 'relu'), layers.Dense(_CLASSES),
  ])


def _keras_cnn():
  layers = tf.keras.layers
  return tf.keras.Sequential([
      layers.InputLayer([28, 28]), layers.Reshape([28, 28, 1]),
      layers.Conv2D(32, 3, activation='relu'),
      layers.Conv2D(64, 3, activation='relu'), layers.MaxPool2D(),
      layers.Dropout(0.25), layers.Flatten(),
      layers.Dense(128, 'relu'), layers.Dropout(0.5), layers.Dense(_CLASSES),
  ])


def _lstm():
  """The next-word model of Reddi et al. (ICLR 2021), Appendix C.3."""
  layers = tf.keras.layers
  return keras.from_keras(
      lambda: tf.keras.Sequential([
          layers.InputLayer([_WORDS], dtype=tf.int32),
          layers.Embedding(_VOCABULARY, 96),
          layers.LSTM(670, return_sequences=True),
          layers.Dense(96), layers.Dense(_VOCABULARY),
      ]),
      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      y_spec=tf.TensorSpec([None, _WORDS], tf.int32), metrics={},
  )


def _tag_regression():
  """One logistic regression per tag; the loss is their mean."""

  def example_loss(y, logits):
    losses = tf.nn.sigmoid_cross_entropy_with_logits(y, logits)
    return tf.reduce_mean(losses, axis=-1)

  return functional.FunctionalModel(
      init=lambda seed: (tf.zeros([_TOKENS, _TAGS]), tf.zeros([_TAGS])),
      predict=lambda weights, x, training, seed: (
          low_rank.matmul(x, weights[0]) + weights[1]
      ),
      example_loss=example_loss,
      x_spec=tf.TensorSpec([None, _TOKENS]),
      y_spec=tf.TensorSpec([None, _TAGS]),
      name='tag_regression',
      layers=(
          functional.LayerWeight(
              'dense/kernel', 'dense', 'dense', (_TOKENS, _TAGS)
          ),
          functional.LayerWeight('dense/bias', 'dense', 'bias', (_TAGS,)),
      ),
      takes_factors=True,
  )


WORKLOADS = collections.OrderedDict(
    W1=Workload('MLP 784-200-62', 'fedavg', _mlp, _images),
    W2=Workload('CNN 32-64-128', 'fedavg', _cnn, _images),
    W3=Workload(
        'MLP, 100 clients', 'fedavg', _mlp, _images, num_clients=100
    ),
    W4=Workload(
        'next-word LSTM', 'fedavg', _lstm, _sentences, num_examples=64,
        batch_size=16,
    ),
    W5=Workload(
        'tag prediction', 'fedavg', _tag_regression, _tagged, batch_size=100
    ),
    W6_mlp=Workload(
        'MLP, tff.learning', 'tff_learning', _keras_mlp, _images
    ),
    W6_cnn=Workload(
        'CNN, tff.learning', 'tff_learning', _keras_cnn, _images
    ),
    W7=Workload('PERM, 50 clients', 'perm', _mlp, _images, num_clients=50),
    W8=Workload(
        'W6 MLP, fresh data sets', 'tff_learning', _keras_mlp, _images, pool=50
    ),
)
