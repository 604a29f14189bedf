"""Robust rules in TFF's own federated averaging of a Keras model.

One of five clients sends garbage. The median does without it, also inside of
TFF's clipping; the private mean of TFF clips each client, and adds noise.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers.aggregators import robust

RATE, NUM_CLIENTS, DIM = 0.1, 5, 3
rng = np.random.default_rng(0)
x = rng.normal(size=(NUM_CLIENTS, 8, DIM)).astype(np.float32)
y = x.sum(axis=2, keepdims=True)
y[-1] += 1e4  # The client that is broken.
data = [
    tf.data.Dataset.from_tensors(collections.OrderedDict(x=a, y=b))
    for a, b in zip(x, y)
]


def model_fn():
  keras_model = tf.keras.Sequential([tf.keras.layers.Dense(
      1, use_bias=False, kernel_initializer='zeros', input_shape=(DIM,)
  )])
  return tff.learning.models.from_keras_model(
      keras_model, loss=tf.keras.losses.MeanSquaredError(),
      input_spec=data[0].element_spec,
  )


def one_round(build, aggregator):
  """Returns the kernel after a round from zero: the aggregated update."""
  process = build(
      model_fn, tff.learning.optimizers.build_sgdm(RATE),
      tff.learning.optimizers.build_sgdm(1.0), model_aggregator=aggregator,
  )
  state = process.next(process.initialize(), data).state
  return process.get_model_weights(state).trainable[0][:, 0]


tff_pers.runtime.use('fused')
# What clients send: one step of gradient descent on the mean squared error.
sent = np.stack([
    RATE * 2 * np.mean(x[i] * y[i], axis=0) for i in range(NUM_CLIENTS)
])
weighted = tff.learning.algorithms.build_weighted_fed_avg
unweighted = tff.learning.algorithms.build_unweighted_fed_avg

median = one_round(weighted, robust.build_factory('median'))
np.testing.assert_allclose(median, np.median(sent, axis=0), rtol=1e-4)

# Clipping comes before the rule sees the updates.
clipped = one_round(weighted, tff.aggregators.clipping_factory(
    0.1, robust.build_factory('median')
))
norms = np.linalg.norm(sent, axis=1, keepdims=True)
short = sent * np.minimum(1.0, 0.1 / norms)
np.testing.assert_allclose(clipped, np.median(short, axis=0), rtol=1e-4)

gaussian_fixed = tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed
private = one_round(unweighted, gaussian_fixed(1e-3, NUM_CLIENTS, clip=0.1))
# The standard deviation of the noise in the sum is 1e-3 of the clipping norm.
np.testing.assert_allclose(
    private, short.mean(axis=0), atol=6 * 1e-3 * 0.1 / NUM_CLIENTS
)
print('median', median, 'clipped', clipped, 'private', private)
