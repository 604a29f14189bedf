"""Your own process, whose clients weigh two models by a router.

    client i: pi_i = softmax(-T loss_i(w_1), -T loss_i(w_2)), a step on each w_c
    server  : w_c <- sum_i pi_ic w_ic / sum_i pi_ic

Nothing but TensorFlow Federated, and the router-weighted mean of `tff_pers`.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers import aggregators

RATE, SHARPNESS, DIM, NUM_MODELS = 0.1, 5.0, 2, 2
MODELS = tff.TensorType(np.float32, [NUM_MODELS, DIM])
# A base that all clients share is a part of what the factory averages; here
# none is needed, so it is a number.
VALUE = tff.to_type(collections.OrderedDict(
    adaptors=MODELS, base=tff.TensorType(np.float32)
))
mean = aggregators.RouterWeightedFactory().create(
    VALUE, tff.TensorType(np.float32, [NUM_MODELS + 1])
)
DATA = tff.StructType([
    ('x', tff.TensorType(np.float32, [None, DIM])),
    ('y', tff.TensorType(np.float32, [None])),
])


@tff.tensorflow.computation
def first_models():
  return tf.constant([[1.0, 0.0], [0.0, 1.0]])


@tff.tensorflow.computation(MODELS, DATA)
def train(models, data):
  """Returns the two models after a step each, and the router's weight."""
  with tf.GradientTape() as tape:
    tape.watch(models)
    errors = tf.linalg.matmul(data['x'], models, transpose_b=True)
    losses = tf.reduce_mean((errors - data['y'][:, None])**2, axis=0)
    total = tf.reduce_sum(losses)
  router = tf.nn.softmax(-SHARPNESS * losses)
  return collections.OrderedDict(
      sent=collections.OrderedDict(
          adaptors=models - RATE * tape.gradient(total, models), base=0.0
      ),
      weight=aggregators.router_weight(1.0, router),
  )


@tff.federated_computation
def initialize():
  return tff.federated_zip((
      tff.federated_eval(first_models, tff.SERVER), mean.initialize()
  ))


@tff.tensorflow.computation(VALUE)
def new_models(value):
  return value['adaptors']


@tff.federated_computation(
    initialize.type_signature.result, tff.FederatedType(DATA, tff.CLIENTS)
)
def next_fn(state, data):
  models, inner = state
  trained = tff.federated_map(
      train, (tff.federated_broadcast(models), data)
  )
  output = mean.next(inner, trained.sent, trained.weight)
  state = tff.federated_zip((
      tff.federated_map(new_models, output.result), output.state
  ))
  return state, output.measurements


process = tff.templates.IterativeProcess(initialize, next_fn)
tff_pers.runtime.use('fused')
rng = np.random.default_rng(0)
truth = np.array([[2.0, -1.0], [-1.0, 2.0]], np.float32)
data = []
for client in range(6):
  x = rng.normal(size=(30, DIM)).astype(np.float32)
  data.append(collections.OrderedDict(x=x, y=x @ truth[client % 2]))
state = process.initialize()
for _ in range(40):
  state, _ = process.next(state, data)
print(state[0])
# Each model has become that of a group.
np.testing.assert_allclose(state[0], truth, atol=0.01)
