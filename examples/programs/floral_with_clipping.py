"""FLoRAL with clipped contributions to router-weighted averages."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers import aggregators
from tff_pers.models import adaptors

CLIP, NUM_CLIENTS = 5.0, 6
tff_pers.runtime.use('fused')
rng = np.random.default_rng(0)
tf.keras.utils.set_random_seed(0)  # For the initial weights.


def dataset(client):
  """Returns data of two groups of clients with opposite labels."""
  x = rng.normal(size=(30, 6)).astype(np.float32)
  return x, ((x[:, 0] > 0) ^ (client % 2)).astype(np.int32)


data = [tff_pers.dense(i, *dataset(i)) for i in range(NUM_CLIENTS)]
keras_model = tf.keras.Sequential([
    tf.keras.layers.Dense(8, 'relu', input_shape=(6,)),
    tf.keras.layers.Dense(2),
])
adapted = adaptors.floral(
    tff_pers.from_keras(
        keras_model,
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ), num_adaptors=2, rank=2,
)
# The sum of n_k base_k and pi_kc n_k adaptor_kc; each client's term is clipped.
process = tff_pers.build_floral(
    adapted, tff_pers.FloralHyperparameters(learning_rate=0.2),
    model_aggregator=aggregators.RouterWeightedFactory(
        tff.aggregators.clipping_factory(CLIP, tff.aggregators.SumFactory())
    ),
)
state = process.initialize_seeded(0)
own = [process.initialize_client(state, i) for i in range(NUM_CLIENTS)]
losses = []
for _ in range(15):
  before = state['weights']['base']
  output = process.next(state, own, data)
  state, own = output['state'], output['client_states']
  losses.append(float(output['metrics']['train_loss']))
  moved = tf.linalg.global_norm([
      a - b for a, b in zip(state['weights']['base'], before)
  ])
  # At most m terms of norm CLIP, divided by the number of examples.
  assert moved <= NUM_CLIENTS * CLIP / (30 * NUM_CLIENTS) + 1e-5
print(np.round(losses, 3))
assert losses[-1] < losses[0]
assert output['metrics']['aggregator']['value_sum']['clipped_count'] > 0
