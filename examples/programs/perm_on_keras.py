"""PERM on a Keras model: clients find those with the same labels."""

import numpy as np
import tensorflow as tf

import tff_pers

tff_pers.runtime.use('fused')
rng = np.random.default_rng(0)
tf.keras.utils.set_random_seed(0)  # For the initial weights.
direction = rng.normal(size=8)


def examples(client, number):
  """Returns examples; clients 3 and above have swapped labels."""
  x = rng.normal(size=(number, 8)).astype(np.float32)
  y = (x @ direction > 0).astype(np.int32)
  return x, y if client < 3 else 1 - y


data = [tff_pers.dense(i, *examples(i, 60)) for i in range(6)]
keras_model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(8,))])
model = tff_pers.from_keras(
    keras_model, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
)
process = tff_pers.build_perm(
    model, num_clients=6,
    hyperparameters=tff_pers.PermHyperparameters(learning_rate=0.2),
)
state = process.initialize_seeded(1)
for _ in range(25):
  state = process.next(state, [()] * 6, data)['state']

mixing = state['mixing']  # Row i: how client i weights others.
print(np.round(mixing, 2))
np.testing.assert_allclose(mixing.sum(axis=1), 1, rtol=1e-5)
assert mixing[:3, 3:].sum(axis=1).max() < 0.1
assert mixing[3:, :3].sum(axis=1).max() < 0.1

tests = [
    dict(adapt=data[i], test=tff_pers.dense(i, *examples(i, 200)))
    for i in range(6)
]
metrics = process.evaluate(state, [()] * 6, tests)
accuracy = [float(own['accuracy']) for own in metrics]
print('accuracy of every client on its own labels:', np.round(accuracy, 2))
assert min(accuracy) > 0.75
