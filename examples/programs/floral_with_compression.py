"""FLoRAL whose clients send 8 bits per number, with the same accuracy."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers import aggregators
from tff_pers.models import adaptors

NUM_CLIENTS = 6
tff_pers.runtime.use('fused')
rng = np.random.default_rng(0)
tf.keras.utils.set_random_seed(0)  # For the initial weights.
data = []
for client in range(NUM_CLIENTS):
  x = rng.normal(size=(30, 6)).astype(np.float32)
  y = (x[:, 0] > 0) ^ (client % 2)
  data.append(tff_pers.dense(client, x, y.astype(np.int32)))
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


def train(value_sum):
  """Returns the base and the loss after ten rounds."""
  process = tff_pers.build_floral(
      adapted, tff_pers.FloralHyperparameters(learning_rate=0.1),
      model_aggregator=aggregators.RouterWeightedFactory(value_sum),
  )
  state = process.initialize_seeded(0)
  own = [process.initialize_client(state, i) for i in range(NUM_CLIENTS)]
  for _ in range(10):
    output = process.next(state, own, data)
    state, own = output['state'], output['client_states']
  return state['weights']['base'], float(output['metrics']['train_loss'])


plain, plain_loss = train(tff.aggregators.SumFactory())
# Only tensors of more than `threshold` numbers are quantized.
compressed, loss = train(
    tff.aggregators.EncodedSumFactory.quantize_above_threshold(
        quantization_bits=8, threshold=10
    )
)
print(f'loss {plain_loss:.4f}, with compression {loss:.4f}')
apart = [np.abs(a - b).max() for a, b in zip(plain, compressed)]
print('largest difference of each weight:', np.round(apart, 4))
assert 0 < max(apart) < 0.05
np.testing.assert_allclose(loss, plain_loss, rtol=0.05)
