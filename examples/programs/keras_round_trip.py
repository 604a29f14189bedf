"""From Keras and back: train, export a client's model, merge it, predict."""

import tempfile

import numpy as np
import tensorflow as tf

import baselines
import tff_pers

tff_pers.runtime.use('fused')
rng = np.random.default_rng(0)
tf.keras.utils.set_random_seed(0)  # For the initial weights.
x = rng.normal(size=(4, 50, 5)).astype(np.float32)
data = [
    tff_pers.dense(i, x[i], (x[i, :, i] > 0).astype(np.int32))
    for i in range(4)
]
keras_model = tf.keras.Sequential([
    tf.keras.layers.Dense(16, 'relu', input_shape=(5,)),
    tf.keras.layers.Dense(2),
])
keras_model.compile(
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=['accuracy'],
)
process = baselines.build_ditto(
    tff_pers.from_keras(keras_model, keras_model.loss)
)
state = process.initialize_seeded(0)
own = [process.initialize_client(state, i) for i in range(4)]
for _ in range(15):
  output = process.next(state, own, data)
  state, own = output['state'], output['client_states']

examples = data[2]['examples']
before = keras_model.evaluate(examples['x'], examples['y'], verbose=0)[0]
with tempfile.TemporaryDirectory() as folder:
  weights = tff_pers.export_saved_model(
      process, state, data[2], folder, client_state=own[2]
  )
  loaded = tf.saved_model.load(folder)  # Does not need this package.
  served = loaded.predict(examples['x']).numpy()
tff_pers.merge_into(keras_model, weights, process.deployed)
np.testing.assert_allclose(
    keras_model.predict(examples['x'], verbose=0), served, atol=1e-5
)
after, accuracy = keras_model.evaluate(
    examples['x'], examples['y'], verbose=0
)
print(f'loss of client 2: {before:.3f} -> {after:.3f}, accuracy {accuracy:.2f}')
assert after < 0.8 * before and accuracy > 0.8
