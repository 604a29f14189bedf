"""A small method with client state, composed of plain functions."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.client_works import client_work
from tff_pers.data import client_data
from tff_pers.models import zoo

MODEL = zoo.build('linear_regression', tf.TensorSpec([None, 2]), 0)
DATA = client_data.client_data_type(MODEL.x_spec, MODEL.y_spec)
CLIENT = tff.to_type(collections.OrderedDict(total=np.float32, visits=np.int32))
WEIGHTS = MODEL.weights_type


def work(message, client_state, data):
  """Sends the sums of x and of y; the state counts visits and adds up y."""
  del message  # The same in every round.
  x, y = data['examples']['x'], data['examples']['y']
  return client_work.ClientOutput(
      client_state=collections.OrderedDict(
          total=client_state['total'] + tf.reduce_sum(y),
          visits=client_state['visits'] + 1,
      ),
      update=(tf.reduce_sum(x, axis=0)[:, None], tf.reduce_sum(y)[None]),
      weight=tf.cast(data['num_examples'], tf.float32),
      loss=tf.reduce_sum(x),
      metrics=dict(seen=tf.reduce_max(y)),
  )


def init_client(seed):
  return collections.OrderedDict(
      total=tf.cast(seed, tf.float32), visits=tf.constant(0)
  )


def deploy(message, client_state, data):
  del data  # No adaptation.
  kernel, bias = message['weights']
  return kernel, bias + client_state['total']


def pieces(**replaced):
  """The pieces of a method; the server's line is w <- mean."""
  return {
      **dict(
          model=MODEL,
          init=lambda seed: dict(weights=MODEL.initial_weights(seed)),
          send=lambda state: dict(weights=state['weights']),
          work=client_work.ClientWork(work),
          finalize=lambda state, mean: dict(weights=mean),
          init_client=init_client,
          deploy=deploy,
          client_model=lambda state, own, index: state['weights'],
      ),
      **replaced,
  }


def client(index, rows):
  rows = np.float32(rows)
  return client_data.dense(index, rows[:, :2], rows[:, 2])


# Rows are (x_0, x_1, y); one, two and one examples.
COHORT = [
    client(2, [[1, 2, 10]]),
    client(0, [[3, 4, 20], [5, 6, 30]]),
    client(1, [[7, 8, 40]]),
]
INDICES = [2, 0, 1]


def start(composed, cohort=None):
  state = composed.initialize_seeded(5)
  indices = [c['index'] for c in (cohort or COHORT)]
  return state, [composed.initialize_client(state, i) for i in indices]
