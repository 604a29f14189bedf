"""Line (b) of PERM: mixing weights from the clients' gradients.

What the server does with the gradients of one round: distances, lambda, and
the rows of A by Eq. (2). See `algorithms.perm` for the rounds around it.
"""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.numerics import distances
from tff_pers.numerics import mixing

# Rows solved at once when rows are kept sparse.
_BLOCK = 512


def initial(num_clients: int, hyperparameters):
  """Returns A before the first update, which no visit uses.

  The identity; for projected gradient, which starts from it, uniform.
  """
  k = hyperparameters.row_nonzeros
  if hyperparameters.solver == 'projected_gradient':
    return tf.fill([num_clients, num_clients], np.float32(1 / num_clients))
  if not k:
    return tf.eye(num_clients)
  return collections.OrderedDict(
      columns=tf.tile(tf.range(num_clients)[:, None], [1, k]),
      values=tf.tile(tf.one_hot(0, k)[None, :], [num_clients, 1]),
  )


def update_full(old, gradients, num_clients: int, hyperparameters):
  """Returns (`<mixing>`, lambda) from the gradients of all clients.

  A client without a gradient (no examples, or dropped for not being finite)
  teaches nobody and learns from the others by their sizes.

  Args:
    old: `<mixing>`, the weights so far.
    gradients: Collected rows `<fingerprints [M, p], keys, rows, sizes,
      variances>`, in any order.
    num_clients: N.
    hyperparameters: `PermHyperparameters`.
  """
  # Scattered, not permuted: a static shape demanded inside a `tf.cond` would be
  # folded into the shapes outside of it (TensorFlow 2.14).
  by_client = lambda name: tf.scatter_nd(
      gradients['keys'][:, None], gradients[name],
      [num_clients] + gradients[name].shape[1:],
  )
  sizes, rows, variances = map(by_client, ('sizes', 'rows', 'variances'))
  lambda_ = _lambda(variances, sizes, rows, hyperparameters)
  noise = _noise(variances, rows)
  has_gradient = sizes > 0
  vectors = distances.center(by_client('fingerprints'))

  def solve(first, num_rows):
    c = distances.gram_distances(vectors, first, num_rows)
    owners = tf.range(first, first + num_rows)
    c = _denoise(c, owners, noise, hyperparameters)
    c = tf.where(tf.gather(has_gradient, owners)[:, None], c, tf.zeros_like(c))
    c = tf.where(has_gradient, c, np.inf)
    return _solve(c, owners, sizes, lambda_, old['mixing'], hyperparameters)

  if not hyperparameters.row_nonzeros:
    new = solve(0, num_clients)
  else:  # In blocks: never an [N, N] tensor.
    blocks = [
        solve(first, min(_BLOCK, num_clients - first))
        for first in range(0, num_clients, _BLOCK)
    ]
    new = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *blocks)
  return collections.OrderedDict(mixing=new), tf.cast(lambda_, tf.float32)


def update_partial(old, gradients, num_clients: int, hyperparameters):
  """Returns (`<mixing, distances, sizes, variances>`, lambda) after a cohort.

  Gradients of one round are taken at the same w; a pair seen before moves half
  way (exponential average), an unknown pair stays at +infinity, and a client
  never seen keeps to itself.

  Args:
    old: `<mixing, distances, sizes, variances>` so far; sizes are 0 and
      distances +infinity for clients and pairs never seen.
    gradients: Collected rows of the cohort, see `update_full`.
    num_clients: N.
    hyperparameters: `PermHyperparameters`.
  """
  keys = gradients['keys']
  found = distances.gram_distances(distances.center(gradients['fingerprints']))
  pairs = tf.stack(tf.meshgrid(keys, keys, indexing='ij'), axis=-1)
  seen = tf.gather_nd(old['distances'], pairs)
  found = tf.cast(found, tf.float32)
  found = tf.where(tf.math.is_finite(seen), 0.5 * (seen + found), found)
  table = tf.tensor_scatter_nd_update(old['distances'], pairs, found)
  put = lambda name: tf.tensor_scatter_nd_update(
      old[name], keys[:, None], gradients[name]
  )
  sizes, variances = put('sizes'), put('variances')
  rows = sizes
  if hyperparameters.gradient_batch:
    rows = tf.minimum(sizes, float(hyperparameters.gradient_batch))
  lambda_ = _lambda(variances, sizes, rows, hyperparameters)
  owners = tf.range(num_clients)
  c = _denoise(table, owners, _noise(variances, rows), hyperparameters)
  new = _solve(c, owners, sizes, lambda_, old['mixing'], hyperparameters)
  return collections.OrderedDict(
      mixing=new, distances=table, sizes=sizes, variances=variances
  ), tf.cast(lambda_, tf.float32)


def measurements(weights, lambda_, hyperparameters):
  """Returns metrics of A: entropy, non-zeros and self weight, row means."""
  values = weights['values'] if hyperparameters.row_nonzeros else weights
  if hyperparameters.row_nonzeros:
    rows = tf.range(tf.shape(values)[0])[:, None]
    own = tf.where(tf.equal(weights['columns'], rows), values, 0.0)
  else:
    own = tf.linalg.diag_part(weights)[:, None]
  count = lambda hits: tf.reduce_sum(tf.cast(hits, tf.float32), axis=1)
  return collections.OrderedDict(
      weights_entropy=tf.cast(mixing.entropy(values), tf.float32),
      weights_nonzeros=tf.reduce_mean(count(values > 0)),
      weights_self=tf.reduce_mean(tf.reduce_sum(own, axis=1)),
      **{'lambda': lambda_},
  )


def _lambda(variances, sizes, rows, hyperparameters):
  """lambda of Eq. (2); `auto` allows for gradients of M < n_i examples."""
  if hyperparameters.lambda_ != 'auto':
    return tf.constant(hyperparameters.lambda_, tf.float64)
  per_row = tf.math.divide_no_nan(sizes, rows)  # n_i / M
  return mixing.auto_lambda(
      variances * per_row, rows > 1, hyperparameters.lambda_scale
  )


def _noise(variances, rows):
  """v_i / M per client, the noise of a gradient of M rows, float32[N].

  One row shows no variance; it gets the mean of the others.
  """
  mean = tf.cast(mixing.auto_lambda(variances, rows > 1, 1.0), tf.float32)
  return tf.math.divide_no_nan(tf.where(rows > 1, variances, mean), rows)


def _denoise(c, owners, noise, hyperparameters):
  """Subtracts the expected noise from distances, if asked; >= 0, 0 to self."""
  if hyperparameters.debias == 'variance':
    c = c - tf.cast(tf.gather(noise, owners)[:, None] + noise, c.dtype)
  own = tf.equal(owners[:, None], tf.range(tf.shape(noise)[0]))
  return tf.where(own, tf.zeros_like(c), tf.maximum(c, 0))


def _solve(c, owners, sizes, lambda_, previous, hyperparameters):
  """Rows of A for the distances c [M, N] of the clients `owners` int32[M]."""
  # Clients without examples are at +infinity; their size is of no account.
  sizes = tf.where(sizes > 0, sizes, tf.maximum(tf.reduce_max(sizes), 1.0))
  if hyperparameters.solver == 'water_filling':
    alpha = mixing.water_filling(c, sizes, lambda_)
  else:
    alpha = mixing.projected_gradient(
        c, sizes, lambda_, tf.gather(previous, owners),
        hyperparameters.solver_steps,
    )
  if not hyperparameters.row_nonzeros:
    return tf.cast(alpha, tf.float32)
  columns, values = mixing.sparse_rows(
      alpha, owners, hyperparameters.row_nonzeros
  )
  return collections.OrderedDict(
      columns=columns, values=tf.cast(values, tf.float32)
  )
