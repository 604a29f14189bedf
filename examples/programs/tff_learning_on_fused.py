"""Algorithms of `tff.learning`, as they are, on TFF's runtime and on ours."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers

DIM = 3
rng = np.random.default_rng(0)
x = rng.normal(size=(4, 8, DIM)).astype(np.float32)
spec = collections.OrderedDict(
    x=tf.TensorSpec([None, DIM], tf.float32),
    y=tf.TensorSpec([None, 1], tf.float32),
)
batches = [
    tf.data.Dataset.from_tensor_slices(
        collections.OrderedDict(x=own, y=own.sum(axis=1, keepdims=True) + i)
    ).batch(4) for i, own in enumerate(x)
]
points = [tf.data.Dataset.from_tensor_slices(own) for own in x]
sgd = tff.learning.optimizers.build_sgdm(0.1, momentum=0.9)


def layers():
  return [
      tf.keras.layers.Dense(
          1, use_bias=False, kernel_initializer='ones', input_shape=(DIM,)
      ),
      tf.keras.layers.Dense(1, kernel_initializer='ones'),
  ]


def model_fn():
  return tff.learning.models.from_keras_model(
      tf.keras.Sequential(layers()), tf.keras.losses.MeanSquaredError(), spec
  )


def reconstruction_model_fn():
  """The first layer is shared, the last one is a client's own."""
  shared, own = layers()
  return tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
      keras_model=tf.keras.Sequential([shared, own]), global_layers=[shared],
      local_layers=[own], input_spec=spec,
  )


algorithms = tff.learning.algorithms
processes = dict(
    mime=(algorithms.build_weighted_mime_lite(model_fn, sgd), batches),
    fed_recon=(algorithms.build_fed_recon(
        reconstruction_model_fn, loss_fn=tf.keras.losses.MeanSquaredError,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
        reconstruction_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
    ), batches),
    kmeans=(algorithms.build_fed_kmeans(2, (DIM,), (1, 2)), points),
)


def rounds(process, data, number=3):
  state = process.initialize()
  for _ in range(number):
    state = process.next(state, data).state
  return tf.nest.flatten(process.get_model_weights(state))


for name, (process, data) in processes.items():
  with tff_pers.runtime.use('native'):
    expected = rounds(process, data)
  with tff_pers.runtime.use('fused'):
    found = rounds(process, data)
  print(name, *(np.round(weight, 3).tolist() for weight in found))
  assert len(found) == len(expected) > 0
  for a, b in zip(found, expected):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
