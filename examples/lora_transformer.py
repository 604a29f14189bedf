"""LoRA for a Transformer from Keras, federated, and back to Keras.

    python -m examples.lora_transformer

A small Transformer is trained on pooled public data and frozen, as is usual in
Keras. Then clients of two groups, whose class labels are shifted against each
other, train low-rank adaptors on all its projections with FLoRAL; only adaptors
are sent. At the end, a client's own model is converted back to plain Keras.
"""

import numpy as np
import tensorflow as tf

from tff_pers import models
from tff_pers import runtime
from tff_pers.algorithms.floral import floral
from tff_pers.algorithms.floral import floral_hyperparameters
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors

NUM_CLIENTS, NUM_GROUPS, NUM_ROUNDS = 8, 2, 3
VOCABULARY, LENGTH, WIDTH, NUM_CLASSES = 12, 6, 16, 3
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def transformer() -> tf.keras.Model:
  """Returns one block: attention and an MLP, each with norm and shortcut."""
  layers = tf.keras.layers
  tokens = tf.keras.Input([LENGTH], dtype=tf.int32)
  x = layers.Embedding(VOCABULARY, WIDTH)(tokens)
  x = layers.LayerNormalization()(
      x + layers.MultiHeadAttention(num_heads=2, key_dim=8)(x, x)
  )
  hidden = layers.Dense(2 * WIDTH, 'relu')(x)
  x = layers.LayerNormalization()(x + layers.Dense(WIDTH)(hidden))
  x = layers.GlobalAveragePooling1D()(x)
  return tf.keras.Model(tokens, layers.Dense(NUM_CLASSES)(x))


def sequences(rng, num_examples: int, group: int = 0):
  """Returns tokens and their most frequent class; groups shift the labels."""
  x = rng.integers(VOCABULARY, size=(num_examples, LENGTH)).astype(np.int32)
  counts = (x[..., None] % NUM_CLASSES == np.arange(NUM_CLASSES)).sum(axis=1)
  return x, ((counts.argmax(axis=1) + group) % NUM_CLASSES).astype(np.int32)


def pretrained(rng) -> tf.keras.Model:
  """Returns a frozen Transformer that has learned the classes of group 0."""
  keras_model = transformer()
  keras_model.compile('adam', LOSS)
  keras_model.fit(*sequences(rng, 2000), epochs=5, verbose=0)
  keras_model.trainable = False
  return keras_model


def train(adapted: adaptors.AdaptedModel, data):
  """Yields (weights, routers of the clients, loss) of each round of FLoRAL."""
  process = floral.build_floral(
      adapted,
      floral_hyperparameters.FloralHyperparameters(
          router_learning_rate=1.0, local_steps=10, batch_size=20,
      ),
  )
  state = process.initialize_seeded(0)
  own = [process.initialize_client(state, i) for i in range(len(data))]
  for _ in range(NUM_ROUNDS):
    output = process.next(state, own, data)
    state, own = output['state'], output['client_states']
    routers = [client['router'] for client in own]
    yield state['weights'], routers, output['metrics']['train_loss']


def main():
  tf.keras.utils.set_random_seed(0)
  rng = np.random.default_rng(0)
  keras_model = pretrained(rng)
  adapted = adaptors.floral(
      models.from_keras(keras_model, LOSS), NUM_GROUPS, rank=4
  )
  print(adapted.summary())
  data = [
      client_data.dense(i, *sequences(rng, 100, 1 + i % NUM_GROUPS))
      for i in range(NUM_CLIENTS)
  ]
  with runtime.use('fused'):
    for weights, routers, loss in train(adapted, data):
      print(f'train loss {loss:.3f}')
  x, _ = sequences(rng, 100)
  expected = adapted.as_model().predict(
      dict(weights, router=routers[0]), tf.constant(x), False, random.key(0)
  )
  # The model of client 0, converted back to Keras by one call.
  keras_model.set_weights(adapted.merge(weights, routers[0]))
  difference = np.abs(keras_model(x) - expected).max()
  print(f'largest difference of the outputs after merging: {difference:.1e}')


if __name__ == '__main__':
  main()
