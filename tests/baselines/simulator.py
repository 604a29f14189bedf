"""Many rounds of a client work in one `tf.function`, for closed forms.

What a composed process does in a round (all clients, weighted mean, server
step), without TFF around it, thousands of rounds in a second or so.
"""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.client_works import local_sgd
from tff_pers.data import client_data


def run(
    work,
    problem,
    *,
    num_rounds,
    server_learning_rate=1.0,
    client_state=None,
    seed=0,
):
  """Returns (weights, client states stacked on axis 0) after `num_rounds`.

  Args:
    work: A `ClientWork` whose update is initial minus final weights.
    problem: Has `model` and `clients()`; all clients take part.
    num_rounds: Number of rounds.
    server_learning_rate: eta_g.
    client_state: `w^0 -> C`; None: clients are stateless.
    seed: The seed of the run.
  """
  clients = problem.clients()
  rows = max(int(client['num_examples']) for client in clients)
  padded = [client_data.pad(client, rows) for client in clients]
  stacked = tf.nest.map_structure(lambda *leaves: np.stack(leaves), *padded)
  initial = problem.model.initial_weights(seed)
  state = () if client_state is None else client_state(initial)
  states = tf.nest.map_structure(
      lambda leaf: tf.stack([leaf] * len(clients)), state
  )

  def one_round(round_num, weights, states):
    message = collections.OrderedDict(
        seed=tf.constant(seed, tf.int64), round=round_num, weights=weights
    )

    def one_client(index):
      pick = lambda leaf: tf.gather(leaf, index)
      output = work.update(
          message, tf.nest.map_structure(pick, states),
          tf.nest.map_structure(pick, stacked),
      )
      return output.client_state, output.update, output.weight

    states, updates, shares = tf.map_fn(
        one_client, tf.range(len(clients)),
        fn_output_signature=(
            tf.nest.map_structure(_spec, state),
            tf.nest.map_structure(_spec, weights), tf.float32,
        ),
    )
    mean = tf.nest.map_structure(lambda u: _mean(u, shares), updates)
    return (
        round_num + 1,
        local_sgd.descend(weights, mean, server_learning_rate),
        states,
    )

  @tf.function(autograph=False)
  def rounds():
    return tf.while_loop(
        lambda round_num, *_: round_num < num_rounds, one_round,
        (tf.constant(0), initial, states),
    )

  _, weights, states = tf.nest.map_structure(lambda t: t.numpy(), rounds())
  return weights, states


def _spec(leaf):
  return tf.TensorSpec(leaf.shape, leaf.dtype)


def _mean(updates, shares):
  """Returns the mean of `updates` [N, ...] with weights `shares` [N]."""
  shares = tf.cast(shares, updates.dtype)
  return tf.tensordot(shares / tf.reduce_sum(shares), updates, axes=1)
