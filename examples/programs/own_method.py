"""Your own method in one file: signs of gradients, and a majority vote.

    client i: s_i <- sign of the gradient of its mean loss at w
    server  : w <- w - eta sign(sum_i s_i)
"""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient

ETA = 0.02


def sign_work(model):
  """Returns the client work: the signs of one full gradient."""

  def update(message, client_state, data):
    own = local_gradient.compute(
        model, message['weights'], data, seed=client_work.key(message, data)
    )
    return client_work.ClientOutput(
        client_state, tf.nest.map_structure(tf.sign, own.gradient),
        weight=tf.constant(1.0), loss=own.loss,
    )

  return client_work.ClientWork(update)


class MajorityVote(tff.aggregators.UnweightedAggregationFactory):
  """Aggregates values to the sign of their sum."""

  def create(self, value_type):
    total = tff.aggregators.SumFactory().create(value_type)

    @tff.tensorflow.computation(value_type)
    def sign(value):
      return tf.nest.map_structure(tf.sign, value)

    @tff.federated_computation(
        total.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_fn(state, value):
      summed = total.next(state, value)
      return tff.templates.MeasuredProcessOutput(
          summed.state, tff.federated_map(sign, summed.result),
          summed.measurements,
      )

    return tff.templates.AggregationProcess(total.initialize, next_fn)


def build_sign_vote(model):
  """Returns the method as a process; other arguments have defaults."""
  return tff_pers.compose(
      model,
      init=lambda seed: dict(weights=model.initial_weights(seed)),
      send=lambda state: dict(weights=state['weights']),
      work=sign_work(model),
      aggregator=MajorityVote(),
      finalize=lambda state, vote: dict(weights=tf.nest.map_structure(
          lambda w, v: w - ETA * v, state['weights'], vote
      )),
      deploy=lambda message, client_state, data: message['weights'],
      client_model=lambda state, client_state, index: state['weights'],
  )


tf.keras.utils.set_random_seed(0)  # For the initial weights.
keras_model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
process = build_sign_vote(tff_pers.from_keras(
    keras_model, 'mean_squared_error', y_spec=tf.TensorSpec([None], tf.float32)
))
rng = np.random.default_rng(0)
x = rng.normal(size=(5, 20, 4)).astype(np.float32)
data = [tff_pers.dense(i, x[i], x[i].sum(axis=1)) for i in range(5)]
found = {}
for name in ('native', 'fused'):
  with tff_pers.runtime.use(name):
    state = process.initialize_seeded(0)
    losses = []
    for _ in range(40):
      output = process.next(state, [()] * 5, data)
      state = output['state']
      losses.append(float(output['metrics']['train_loss']))
  print(f'{name}: loss {losses[0]:.3f} -> {losses[-1]:.3f}')
  assert losses[-1] < 0.5 * losses[0]
  found[name] = state['weights']
# Every round moved every weight by ETA or not at all, equally on both.
for native, fused, first in zip(*found.values(), keras_model.get_weights()):
  np.testing.assert_allclose(native, fused, rtol=1e-5)
  steps = (fused - first) / ETA
  np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
