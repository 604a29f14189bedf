"""Line (b) of PERM: mixing weights from the clients' gradients.

What the server does with the gradients of one round: distances, lambda, and
the rows of A by Eq. (2). See `algorithms.perm` for the rounds around it.
"""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.algorithms import mixing_rows
from tff_pers.numerics import distances
from tff_pers.numerics import mixing

# Rows solved at once when rows are kept sparse.
_BLOCK = 512


def initial(num_clients: int, hyperparameters):
  """Returns A before the first update, which no visit uses.

  The identity; for projected gradient, which starts from it, uniform.
  """
  if hyperparameters.solver == 'projected_gradient':
    return mixing_rows.uniform(num_clients)
  return mixing_rows.identity(num_clients, hyperparameters.row_nonzeros)


def nobody(num_clients: int, full_participation: bool):
  """Returns the start of the server state's field `seen`, what A comes from.

  `<distances float32[N, N] (+infinity: unknown), sizes float32[N], variances
  float32[N]>` with partial participation, where a round shows some of it; else
  ().
  """
  if full_participation:
    return ()
  n = num_clients
  return collections.OrderedDict(
      distances=tf.linalg.set_diag(
          tf.fill([n, n], np.float32(np.inf)), tf.zeros([n])
      ),
      sizes=tf.zeros([n]),
      variances=tf.zeros([n]),
  )


def update(old, seen, scale, gradients, num_clients: int, hyperparameters):
  """Line (b): returns (A, seen, lambda); without gradients nothing changes.

  Args:
    old: A so far.
    seen: See `nobody`.
    scale: kappa of lambda=auto, a float32 scalar.
    gradients: Collected rows `<fingerprints [M, p], keys, rows, sizes,
      variances>`, in any order.
    num_clients: N.
    hyperparameters: `PermHyperparameters`.
  """

  def updated():
    if seen:
      return update_partial(
          old, seen, scale, gradients, num_clients, hyperparameters
      )
    rows, lambda_ = update_full(
        old, scale, gradients, num_clients, hyperparameters
    )
    return rows, seen, lambda_

  return tf.cond(
      tf.size(gradients['keys']) > 0, updated,
      lambda: (old, seen, tf.constant(np.nan, tf.float32)),
  )


def update_full(old, scale, gradients, num_clients: int, hyperparameters):
  """Returns (A, lambda) from the gradients of all clients.

  A client without a gradient (no examples, or dropped for not being finite)
  teaches nobody and learns from the others by their sizes.

  Args:
    old: A so far.
    scale: See `update`.
    gradients: See `update`.
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
  lambda_ = _lambda(variances, sizes, rows, scale, hyperparameters)
  noise = _noise(variances, rows)
  has_gradient = sizes > 0
  vectors = distances.center(by_client('fingerprints'))

  def solve(first, num_rows):
    c = distances.gram_distances(vectors, first, num_rows)
    owners = tf.range(first, first + num_rows)
    c = _denoise(c, owners, noise, hyperparameters)
    c = tf.where(tf.gather(has_gradient, owners)[:, None], c, tf.zeros_like(c))
    c = tf.where(has_gradient, c, np.inf)
    return _solve(c, owners, sizes, lambda_, old, hyperparameters)

  if not hyperparameters.row_nonzeros:
    new = solve(0, num_clients)
  else:  # In blocks: never an [N, N] tensor.
    blocks = [
        solve(first, min(_BLOCK, num_clients - first))
        for first in range(0, num_clients, _BLOCK)
    ]
    new = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *blocks)
  return new, tf.cast(lambda_, tf.float32)


def update_partial(
    old, seen, scale, gradients, num_clients: int, hyperparameters
):
  """Returns (A, seen, lambda) after a cohort.

  Gradients of one round are taken at the same w; a pair seen before moves half
  way (exponential average), an unknown pair stays at +infinity, and a client
  never seen keeps to itself.

  Args:
    old: A so far.
    seen: See `nobody`; sizes are 0 for clients never seen.
    scale: See `update`.
    gradients: Those of the cohort, see `update`.
    num_clients: N.
    hyperparameters: `PermHyperparameters`.
  """
  keys = gradients['keys']
  found = distances.gram_distances(distances.center(gradients['fingerprints']))
  pairs = tf.stack(tf.meshgrid(keys, keys, indexing='ij'), axis=-1)
  known = tf.gather_nd(seen['distances'], pairs)
  found = tf.cast(found, tf.float32)
  found = tf.where(tf.math.is_finite(known), 0.5 * (known + found), found)
  table = tf.tensor_scatter_nd_update(seen['distances'], pairs, found)
  put = lambda name: tf.tensor_scatter_nd_update(
      seen[name], keys[:, None], gradients[name]
  )
  sizes, variances = put('sizes'), put('variances')
  rows = sizes
  if hyperparameters.gradient_batch:
    rows = tf.minimum(sizes, float(hyperparameters.gradient_batch))
  lambda_ = _lambda(variances, sizes, rows, scale, hyperparameters)
  owners = tf.range(num_clients)
  c = _denoise(table, owners, _noise(variances, rows), hyperparameters)
  new = _solve(c, owners, sizes, lambda_, old, hyperparameters)
  seen = collections.OrderedDict(
      distances=table, sizes=sizes, variances=variances
  )
  return new, seen, tf.cast(lambda_, tf.float32)


def measurements(weights, lambda_):
  """Returns metrics of A: entropy, non-zeros and self weight, row means."""
  rows = mixing_rows.MixingRows(weights)
  count = tf.reduce_sum(tf.cast(rows.values > 0, tf.float32), axis=1)
  return collections.OrderedDict(
      weights_entropy=tf.cast(mixing.entropy(rows.values), tf.float32),
      weights_nonzeros=tf.reduce_mean(count),
      weights_self=tf.reduce_mean(rows.own()),
      **{'lambda': lambda_},
  )


def _lambda(variances, sizes, rows, scale, hyperparameters):
  """lambda of Eq. (2); `auto` allows for gradients of M < n_i examples."""
  if hyperparameters.lambda_ != 'auto':
    return tf.constant(hyperparameters.lambda_, tf.float64)
  per_row = tf.math.divide_no_nan(sizes, rows)  # n_i / M
  return mixing.auto_lambda(
      variances * per_row, rows > 1, tf.cast(scale, tf.float64)
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
  return mixing_rows.kept(alpha, owners, hyperparameters.row_nonzeros)
