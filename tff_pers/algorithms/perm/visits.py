"""Implements visits: every client trains its hosted model and returns it.

The server does not average models, it shuffles them: in each round every client
hosts one model (usually that of another client), takes K local steps on it with
its gradient scaled by the owner's mixing weight for this client, and returns
it.

This is Algorithm 1 of the paper. The step scale and its cap, which the paper
leaves open, are ours, and so are matchings, see `visit_schedule`.
"""

import collections
from typing import Any

import tensorflow as tf

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.composition import own_next
from tff_pers.core import interception
from tff_pers.core import round_metrics
from tff_pers.numerics import mixing_rows
from tff_pers import tff


def step_multiplier(
    mixing: Any, owner: tf.Tensor, host: tf.Tensor, hyperparameters: Any, *,
    matched: bool,
) -> tf.Tensor:
  """Returns the step of a visit, in units of eta, float64.

  With permutations it is s_i alpha_i(c), s_i = N, but at most cap / max_c
  alpha_i(c). With matchings s_i is the number of clients with alpha_i(c) > 0,
  and the step is divided among the visits of an epoch, see
  `visit_schedule.visits_per_epoch`; a weight of 1 is local training.

  Args:
    mixing: A.
    owner: int32, the model i.
    host: int32, the client c.
    hyperparameters: `ShufflingHyperparameters`.
    matched: Whether rounds are matchings, not permutations.
  """
  rows = mixing_rows.MixingRows(mixing)
  weight = rows.weight(owner, host)
  alpha = tf.cast(weight, tf.float64)
  if hyperparameters.step_scale == 'one':
    return alpha
  if matched:
    count = rows.count(owner)
    visits = visit_schedule.visits_per_epoch(weight, count, hyperparameters)
    return tf.math.divide_no_nan(
        tf.cast(count, tf.float64) * alpha, tf.cast(visits, tf.float64)
    )
  s = tf.constant(rows.num_clients, tf.float64)
  cap = hyperparameters.cap(matched=False)
  if cap:
    largest = tf.cast(rows.maximum(owner), tf.float64)
    s = tf.minimum(s, cap / largest)
  return s * alpha


def visit_clients(
    setting: setting_lib.Setting, state: Any, models: Any, mixing: Any,
    owners: Any, index: Any, data: Any,
) -> Any:
  """Runs the visits of a round (while tracing).

    fetch   : keyed download of the hosted model i and of s_i * alpha_i(c)
    visit   : K local steps (Algorithm 1)
    collect : keyed upload; the server writes the rows into its table

  The table of models, A and `owners` (int32[N], owner of the model at each
  client, -1: none) are at the server, `index` and `data` at the clients.
  Returns (models at the server, reports at the clients), see `_visit`.
  """
  value = tff.federated_zip(collections.OrderedDict(
      models=models, mixing=mixing, owners=owners, round=state.round,
      seed=state.seed,
  ))
  hosted = keyed.fetch(
      value, index, lambda value, client: _hosted(setting, value, client),
      setting.num_clients,
  )
  visited = own_next.computed(
      lambda hosted, data: _visit(setting, hosted, data), hosted, data
  )
  rows = keyed.collect(visited.rows, setting.num_clients)
  models = own_next.computed(
      lambda models, rows: keyed.scatter(models, rows['keys'], rows['models']),
      models, rows,
  )
  return models, visited.report


def _hosted(setting, value, client):
  """Returns what `client` downloads: the 0 or 1 models that it hosts.

  `<models, multipliers, owners>` have a leading dimension of 0 or 1; round and
  seed are included.
  """
  owner = value['owners'][client]
  count = tf.cast(owner >= 0, tf.int32)
  owner_or_0 = tf.maximum(owner, 0)
  models = tf.nest.map_structure(
      lambda table: table[owner_or_0 : owner_or_0 + count], value['models']
  )
  multiplier = step_multiplier(
      value['mixing'], owner_or_0, client, setting.hyperparameters,
      matched=setting.is_matched,
  )
  dtype = tf.nest.flatten(models)[0].dtype
  return collections.OrderedDict(
      models=models,
      multipliers=tf.cast(multiplier, dtype)[None][:count],
      owners=owner_or_0[None][:count],
      round=value['round'],
      seed=value['seed'],
  )


def _visit(setting, hosted, data):
  """Alg. 1, client c: K steps of size eta * s_i * alpha_i(c) on hosted model i.

  The factor s_i * alpha_i(c) is in the step size: the gradient of f_c is
  clipped before it is scaled, and weight decay is scaled like the rest of f_c,
  so that it counts once in the sum over the hosts. Momentum does not travel
  with the model.

  Returns:
    `<rows=<keys, models>, report>`; the report's weight is the multiplier. A
    model that would become non-finite is returned unchanged. With multiplier 0
    (or no hosted model) nothing is computed and nothing changes.
  """
  devices, hyperparameters = setting.devices, setting.hyperparameters
  data = interception.changed('data', data)
  dtype = tf.nest.flatten(hosted['models'])[0].dtype

  count = tf.shape(hosted['owners'])[0]
  given = hosted['models'], hosted['multipliers'], hosted['owners']

  def train():
    # If clients are vectorized, there may be none that train, with 0 rows.
    weights, multiplier, owner = tf.cond(
        count > 0, lambda: tf.nest.map_structure(lambda rows: rows[0], given),
        lambda: tf.nest.map_structure(
            lambda rows: tf.zeros(rows.shape[1:], rows.dtype), given
        ),
    )
    final, loss = devices.train(
        weights, data, owner=owner,
        learning_rate=local_step.scheduled(
            hyperparameters, hosted,
            tf.convert_to_tensor(hyperparameters.learning_rate, dtype)
            * multiplier,
        ),
        seed=client_work.key(hosted, data),
        local=local_step.build(hyperparameters), **hyperparameters.budget(),
    )
    finite = round_metrics.all_finite((final, loss))
    kept = tf.cond(finite, lambda: final, lambda: weights)
    rows = tf.nest.map_structure(lambda w: w[None][:count], kept)
    return rows, loss, finite, multiplier

  def leave():
    nothing = tf.zeros([], dtype)
    return hosted['models'], nothing, tf.constant(True), nothing

  works = tf.reduce_any(hosted['multipliers'] > 0)
  models, loss, finite, multiplier = tf.cond(works, train, leave)
  # The sum is the only owner, or 0 if there is none; then there are no bytes.
  share = devices.share(data['index'], tf.reduce_sum(hosted['owners']))
  return collections.OrderedDict(
      rows=collections.OrderedDict(keys=hosted['owners'], models=models),
      report=collections.OrderedDict(
          loss=tf.cast(loss, tf.float32),
          weight=tf.cast(multiplier, tf.float32),
          finite=finite,
          bytes_down=share * round_metrics.payload_bytes(hosted['models'])
          + round_metrics.payload_bytes(hosted['multipliers']),
          bytes_up=share * round_metrics.payload_bytes(models),
      ),
  )
