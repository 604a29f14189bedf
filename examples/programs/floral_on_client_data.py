"""FLoRAL on a `ClientData` of TFF: routers find similar clients."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers.models import adaptors

tff_pers.runtime.use('fused')
rng = np.random.default_rng(0)
tf.keras.utils.set_random_seed(0)  # For the initial weights.


def writer(group):
  """Returns a writer's data; group 1 shifts the labels by one."""
  pixels = rng.normal(size=(40, 4, 4)).astype(np.float32)
  brightest = pixels.mean(axis=2).argmax(axis=1)  # The brightest row.
  return collections.OrderedDict(
      label=((brightest + group) % 4).astype(np.int32), pixels=pixels
  )


client_data = tff.simulation.datasets.TestClientData(
    {f'writer_{i}': writer(i % 2) for i in range(6)}
)
data = tff_pers.from_client_data(
    client_data,
    lambda dataset: dataset.map(lambda e: (e['pixels'], e['label'])),
)
keras_model = tf.keras.Sequential([
    tf.keras.layers.Flatten(input_shape=(4, 4)), tf.keras.layers.Dense(4),
])
adapted = adaptors.floral(
    tff_pers.from_keras(
        keras_model,
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ), num_adaptors=4, rank=4,
)
process = tff_pers.build_floral(
    adapted, tff_pers.FloralHyperparameters(learning_rate=0.2), num_clients=6
)
state = process.initialize_seeded(0)
own = [process.initialize_client(state, i) for i in range(6)]
losses = []
for _ in range(25):
  output = process.next(state, own, data)
  state, own = output['state'], output['client_states']
  losses.append(float(output['metrics']['train_loss']))
print(f'loss {losses[0]:.3f} -> {losses[-1]:.3f}')
assert losses[-1] < 0.3 * losses[0]

favourite = [int(client['router'].argmax()) for client in own]
print('the adaptor that every writer uses most:', favourite)
# There are more adaptors (four) than groups; none serves both groups.
assert set(favourite[::2]).isdisjoint(favourite[1::2])
