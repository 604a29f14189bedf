"""Splits of overloaded adaptors, an option of FLoRAL; ours, not the paper's.

Two clusters may come to share an adaptor. Then another adaptor is unused, and
no gradient brings it back. So the server checks the loads of the adaptors from
time to time, and if it finds such a pair, it copies one onto the other:

    every round: p <- p + rate (sum_k n_k pi_k   / sum_k n_k - p)
                 s <- s + rate (sum_k n_k pi_k^2 / sum_k n_k - s)
                 rate = min(1, 4 / split_every), at first p = 1/C, s = 1/C^2
    at a check : a = argmax_c p_c, b = argmin_c p_c
                 if p_a > 1.4 / C and p_b < 0.7 / C
                 and s_a < 0.95 p_a and s_b < 0.95 p_b:
                   server  : adaptor_b <- adaptor_a + 0.1 std(adaptor_a) N(0, 1)
                   client k: theta_kb  <- theta_ka

p_c is the load of an adaptor, s_c / p_c the mean weight that its users give it:
if that is near 1, the adaptor serves one cluster of any size, and is neither
shared nor unused. Initially both copies have the odds of adaptor a, and the
routers learn to distinguish them. The server needs only sums, as everywhere in
FLoRAL. It sends the log of the checks to all clients, and a client that was
absent applies the missed splits when it next takes part or is evaluated.
"""

import collections
from typing import Any, Callable, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.client_works import client_work
from tff_pers.core import random
from tff_pers.models import adaptors

# In units of 1/C, the load if all adaptors are used equally. Two equal clusters
# that share an adaptor give it load 2; unused adaptors had loads of 0.36 to
# 0.64. Ours.
_OVERLOADED, _LEFT_OVER = 1.4, 0.7
# The mean weight of its users was 0.77 to 0.92 if two clusters shared the
# adaptor, and 0.96 to 1 for one large cluster (docs/floral.md).
_DECIDED = 0.95
# p averages over about split_every / 4 rounds: long enough to cover many
# cohorts, short enough to exclude the time before the routers moved. A mean
# over all rounds since the last check would react one check late
# (docs/floral.md).
_MEMORY = 4
# Noise of a copy, relative to the standard deviation of a tensor's entries.
_NOISE = 0.1
_NOISE_USE = -8  # Takes the place of a client in the key.


def with_splits(
    pieces: Mapping[str, Any], adapted: adaptors.AdaptedModel,
    hyperparameters: floral_hp.FloralHyperparameters,
) -> dict[str, Any]:
  """Returns the parts of FLoRAL for `composition.compose`, with splits.

  S has a further field `splits`: `load` p and `squares` s, float32[C]; `rounds`
  int32, the number of rounds with clients since the last check; `looks` int32,
  the number of checks; and the log `sources` int32[splits, C], whose row t
  holds the source of each adaptor at check t: itself, or a for b. The state of
  the adaptors' server optimizer is copied with them, without noise. Metrics of
  the log before a round are `router_splits`, the number of splits, and
  `router_focus`, s_a / p_a of the most loaded adaptor.

  Clients receive `looks` and `sources`, and keep `looks`, the number of checks
  that they have applied, beside their router. Stateless clients relearn their
  router anyway. In `adaptors`, all clients also send pi_k, float32[C]: averaged
  like adaptors, by pi_kc n_k, it is s_c / p_c of the cohort.

  Args:
    pieces: `init`, `send`, `work`, `finalize`, `init_client`, `deploy` and
      `client_model`; the aggregate must have `shares`.
    adapted: The model with C >= 2 adaptors.
    hyperparameters: `splits`, `split_every` and `router_state` are used.

  Raises:
    ValueError: If there are fewer than two adaptors.
  """
  num_adaptors = adapted.num_adaptors
  if num_adaptors < 2:
    raise ValueError(
        '`splits` must be 0 with fewer than two adaptors, because one is copied'
        f' onto another, found {hyperparameters.splits} with {num_adaptors}.'
    )
  watched = dict(
      pieces,
      init=lambda seed: collections.OrderedDict(
          pieces['init'](seed),
          splits=_start(hyperparameters.splits, num_adaptors),
      ),
      work=client_work.ClientWork(_with_router(pieces['work'].update)),
      finalize=_finalize(pieces['finalize'], hyperparameters.split_every),
      measure=lambda state, mean: dict(
          router_splits=_count(state['splits']),
          router_focus=_focus(state['splits']),
      ),
  )
  # A stateless client has no router that a split could change.
  is_stateful = hyperparameters.router_state == 'stateful'
  return {**watched, **_followed(watched)} if is_stateful else watched


def follow(client_state: Mapping[str, Any], log: Mapping[str, Any]) -> Any:
  """Returns a client's state after all splits that it has not yet applied.

    theta <- theta[sources[t]]   for t = the client's looks, ..., the log's - 1

  Args:
    client_state: <router float[C], looks int32>; other fields stay.
    log: <looks int32, sources int32[T, C]>.
  """
  theta = client_state['router']
  for t in range(log['sources'].shape[0]):
    # Rows of future checks change nothing.
    is_new = t >= client_state['looks']
    theta = tf.where(is_new, tf.gather(theta, log['sources'][t]), theta)
  return collections.OrderedDict(
      client_state, router=theta, looks=log['looks']
  )


def _with_router(update):
  """Returns client work that also sends pi_k beside its adaptors."""

  def update_and_router(message, client_state, data):
    output = update(message, client_state, data)
    # Its weight is (n_k, pi_k n_k); 0 / 0 is 0 here.
    pi = tf.math.divide_no_nan(output.weight[1:], output.weight[0])
    sent = collections.OrderedDict(
        output.update, adaptors=(output.update['adaptors'], pi)
    )
    return output._replace(update=sent)

  return update_and_router


def _followed(pieces):
  """Returns the parts that use the client state, which they first update."""

  def send(state):
    return dict(
        pieces['send'](state),
        splits=collections.OrderedDict(
            (name, state['splits'][name]) for name in ('looks', 'sources')
        ),
    )

  def update(message, client_state, data):
    current = follow(client_state, message['splits'])
    output = pieces['work'].update(message, current, data)
    return output._replace(
        client_state=collections.OrderedDict(
            output.client_state, looks=current['looks']
        )
    )

  return dict(
      send=send,
      work=client_work.ClientWork(update),
      init_client=lambda seed: collections.OrderedDict(
          pieces['init_client'](seed), looks=tf.constant(0)
      ),
      deploy=lambda message, client_state, data: pieces['deploy'](
          message, follow(client_state, message['splits']), data
      ),
      client_model=lambda state, client_state, index: pieces['client_model'](
          state, follow(client_state, state['splits']), index
      ),
  )


def _start(num_looks: int, num_adaptors: int) -> Mapping[str, Any]:
  """Returns the field `splits` of S before the first round."""
  return collections.OrderedDict(
      load=tf.fill([num_adaptors], 1 / num_adaptors),
      squares=tf.fill([num_adaptors], 1 / num_adaptors**2),
      rounds=tf.constant(0),
      looks=tf.constant(0),
      sources=tf.constant(
          np.tile(np.arange(num_adaptors, dtype=np.int32), [num_looks, 1])
      ),
  )


def _finalize(finalize, every: int) -> Callable[[Any, Any], Mapping[str, Any]]:
  """Returns the server step followed by a check of its result."""

  def finalize_and_look(state, mean):
    adaptors_mean, focus = mean['adaptors']
    changed = finalize(
        state, collections.OrderedDict(mean, adaptors=adaptors_mean)
    )
    log, source = _look(state['splits'], mean['shares'], focus, every)
    weights, optimizer = changed['weights'], changed['optimizer']
    key = random.key(state['seed'], state['round'], _NOISE_USE)
    return dict(
        changed,
        splits=log,
        weights=collections.OrderedDict(
            weights, adaptors=_copied(weights['adaptors'], source, key)
        ),
        optimizer=collections.OrderedDict(
            optimizer, adaptors=tf.nest.map_structure(
                # Step sizes and counts are scalars; all else has a row per
                # adaptor.
                lambda leaf: tf.gather(leaf, source)
                if leaf.shape.rank else leaf, optimizer['adaptors'],
            ),
        ),
    )

  return finalize_and_look


def _look(log, shares, focus, every: int):
  """Returns the log after a round, and the sources of adaptors, int32[C]."""
  num_looks, num_adaptors = log['sources'].shape
  rate = min(1.0, _MEMORY / every)
  load = log['load'] + rate * (shares - log['load'])  # p
  # Not a mean of `focus`, which is meaningless if a cluster is absent.
  squares = log['squares'] + rate * (focus * shares - log['squares'])  # s
  rounds, looks = log['rounds'] + 1, log['looks']
  is_look = (rounds >= every) & (looks < num_looks)
  most, least = (f(load, output_type=tf.int32) for f in (tf.argmax, tf.argmin))
  is_split = (
      is_look & (load[most] > _OVERLOADED / num_adaptors)
      & (load[least] < _LEFT_OVER / num_adaptors)
      & (squares[most] < _DECIDED * load[most])
      & (squares[least] < _DECIDED * load[least])
  )
  same = tf.range(num_adaptors)
  source = tf.where(is_split & tf.equal(same, least), most, same)
  return collections.OrderedDict(
      load=load,
      squares=squares,
      rounds=tf.where(is_look, 0, rounds),
      looks=looks + tf.cast(is_look, tf.int32),
      sources=tf.where(
          tf.equal(tf.range(num_looks)[:, None], looks), source,
          log['sources'],
      ),
  ), source


def _copied(parameters, source, key):
  """Returns the adaptors after a split; others stay bit-identical."""
  is_copy = tf.not_equal(source, tf.range(source.shape[0]))

  def copied(leaf, position):
    rows = tf.gather(leaf, source)
    axes = list(range(1, rows.shape.rank))
    noise = tf.random.stateless_normal(
        tf.shape(rows), random.fold_in(key, position), dtype=rows.dtype
    ) * tf.math.reduce_std(rows, axes, keepdims=True)
    return tf.where(
        tf.reshape(is_copy, [-1] + [1] * len(axes)),
        rows + tf.constant(_NOISE, rows.dtype) * noise, rows,
    )

  leaves = tf.nest.flatten(parameters)
  return tf.nest.pack_sequence_as(
      parameters, [copied(leaf, i) for i, leaf in enumerate(leaves)]
  )


def _count(log):
  """Returns the number of splits in the log, a float32 scalar."""
  same = tf.range(log['sources'].shape[1])
  is_split = tf.reduce_any(tf.not_equal(log['sources'], same), axis=1)
  return tf.reduce_sum(tf.cast(is_split, tf.float32))


def _focus(log):
  """Returns s_a / p_a of the most loaded adaptor a, a float32 scalar."""
  most = tf.argmax(log['load'])
  return tf.math.divide_no_nan(log['squares'][most], log['load'][most])
