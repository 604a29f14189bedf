"""Line (b) of PERM: mixing weights from the clients' gradients.

What the server does with gradients: distances, lambda, and the rows of A by Eq.
(2). See `perm` for the rounds around it; the gradients are in a
table, see `fingerprints`.
"""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.algorithms.perm import mixing_rows
from tff_pers.algorithms.perm import perm_comparison
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.numerics import mixing

# Rows solved at once when rows are kept sparse.
_BLOCK = 512
# A client whose own weight is at least this learns from itself alone.
_ALONE = 0.99


def initial(
    num_clients: int, hyperparameters: perm_hyperparameters.PermHyperparameters,
    full_participation: bool,
) -> Any:
  """Returns A before the first update.

  The identity: with cohorts a model stays where it is until its client first
  takes part. Uniform for projected gradient that solves for all rows at once,
  because it starts from there, and for models of clusters, which have no client
  of their own.
  """
  starts_uniform = (
      full_participation and hyperparameters.solver == 'projected_gradient'
  )
  if hyperparameters.models or starts_uniform:
    return mixing_rows.uniform(
        hyperparameters.num_models(num_clients), num_clients
    )
  return mixing_rows.identity(
      num_clients, hyperparameters.kept_per_row(num_clients)
  )


def solve_all(
    devices: perm_devices.Devices, old: Any, table: Mapping[str, Any],
    lambda_: tf.Tensor,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> Any:
  """Returns A from the gradients of a round with all clients.

  A client without a gradient (no examples, or dropped for not being finite)
  teaches nobody and learns from the others by their sizes.

  Args:
    devices: What the clients' devices hold.
    old: A so far.
    table: See `fingerprints.nobody`; who is not in it has size 0.
    lambda_: Float64 scalar.
    hyperparameters: `PermHyperparameters`.
  """
  n = table['sizes'].shape[0]
  solve = _solver(devices, table, lambda_, old, hyperparameters)
  if not hyperparameters.kept_per_row(n):
    return solve(tf.range(n))
  blocks = [  # Never an [N, N] tensor.
      solve(tf.range(first, min(first + _BLOCK, n)))
      for first in range(0, n, _BLOCK)
  ]
  return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *blocks)


def solve_cohort(
    devices: perm_devices.Devices, old: Any, table: Mapping[str, Any],
    lambda_: tf.Tensor, cohort: tf.Tensor,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> Any:
  """Returns A with the rows of those of the cohort who are in the table.

  Clients that are not in the table are strangers: they are at distance
  infinity.

  Args:
    devices: What the clients' devices hold.
    old: A so far.
    table: See `solve_all`.
    lambda_: See `solve_all`.
    cohort: bool[N], who takes part.
    hyperparameters: `PermHyperparameters`.
  """
  owners = tf.where(tf.logical_and(cohort, table['sizes'] > 0))[:, 0]
  owners = tf.cast(owners, tf.int32)
  solve = _solver(devices, table, lambda_, old, hyperparameters)
  return mixing_rows.replaced(old, owners, solve(owners))


def rows_of_centers(
    c: tf.Tensor, table: Mapping[str, Any], lambda_: tf.Tensor, old: Any,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> tf.Tensor:
  """Returns the rows of models of clusters, float32[C, N].

  Args:
    c: Squared distances of the clusters' centers to the clients, floats [C, N].
    table: See `solve_all`.
    lambda_: See `solve_all`.
    old: The rows so far.
    hyperparameters: `PermHyperparameters`.
  """
  sizes = table['sizes']
  alpha = _row(
      tf.where(sizes > 0, c, float('inf')), sizes, lambda_, hyperparameters,
      start=lambda: old,
  )
  return tf.cast(alpha, tf.float32)


def rows_of_strangers(
    devices: perm_devices.Devices, table: Mapping[str, Any], gradients: Any,
    lambda_: tf.Tensor,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> tf.Tensor:
  """Returns what clients that never trained learn from those that did.

  A stranger's row is what it would be if it had trained, less its own weight:
  so it takes from others what it would have taken, and where it is much like
  its group the own weight is small. Who would have learned from itself alone
  gets the row of Eq. (2) without itself.

  Args:
    devices: What the clients' devices hold.
    table: Of the N clients that trained.
    gradients: The strangers', rows as in `fingerprints.written`.
    lambda_: Float64 scalar.
    hyperparameters: `PermHyperparameters`.

  Returns:
    alpha, float64[M, N].
  """
  n, m = table['sizes'].shape[0], tf.size(gradients['keys'])
  both = collections.OrderedDict(
      (name, tf.concat([table[name], gradients[name]], axis=0))
      for name in ('fingerprints', 'rows', 'sizes', 'variances')
  )
  owners = tf.range(n, n + m)
  clients = tf.concat([tf.range(n), gradients['keys']], axis=0)
  c = _distances(devices, both, clients, owners, hyperparameters)
  c = tf.where(both['sizes'] > 0, c, float('inf'))
  has_trained = tf.range(n + m) < n
  itself = tf.equal(owners[:, None], tf.range(n + m))

  def row(teachers):
    return _row(
        tf.where(teachers, c, float('inf')), both['sizes'], lambda_,
        hyperparameters, start=lambda: tf.fill([m, n + m], 1 / (n + m)),
    )[:, :n]

  shared = row(tf.logical_or(has_trained, itself))
  given = tf.reduce_sum(shared, axis=1, keepdims=True)
  return tf.where(
      given > 1 - _ALONE, tf.math.divide_no_nan(shared, given), row(has_trained)
  )


def _solver(devices, table, lambda_, old, hyperparameters):
  """Returns `owners int32[M] -> their rows of A`."""
  is_known = table['sizes'] > 0
  n = table['sizes'].shape[0]

  def solve(owners):
    c = _distances(devices, table, tf.range(n), owners, hyperparameters)
    c = tf.where(tf.gather(is_known, owners)[:, None], c, tf.zeros_like(c))
    alpha = _row(
        tf.where(is_known, c, float('inf')), table['sizes'], lambda_,
        hyperparameters, start=lambda: tf.gather(old, owners),
    )
    return mixing_rows.kept(alpha, owners, hyperparameters.kept_per_row(n))

  return solve


def _distances(devices, table, clients, owners, hyperparameters):
  """Returns c_j, d_ij and what is added to it, of rows `owners`, [M, N].

  Args:
    devices: What the clients' devices hold.
    table: Rows of clients.
    clients: int32[N], whose they are.
    owners: int32[M], numbers of rows.
    hyperparameters: `PermHyperparameters`.
  """
  c = denoised(
      perm_comparison.pairwise(
          devices, table['fingerprints'], table['sizes'] > 0, clients, owners
      ), owners, table, hyperparameters,
  )
  return perm_comparison.with_capacity(
      devices, c, clients, tf.gather(clients, owners), table['sizes']
  )


def _row(c, sizes, lambda_, hyperparameters, *, start):
  """Returns alpha of Eq. (2), float64[M, N].

  Args:
    c: Distances, floats [M, N]; +infinity excludes a client.
    sizes: n_j, float32[N]; 0 for clients that are excluded everywhere.
    lambda_: Float64 scalar.
    hyperparameters: `PermHyperparameters`.
    start: `() -> float[M, N]`, where projected gradient starts.
  """
  # The size of who is excluded is of no account, but must be positive.
  sizes = tf.where(sizes > 0, sizes, tf.maximum(tf.reduce_max(sizes), 1.0))
  if hyperparameters.solver == 'water_filling':
    return mixing.water_filling(c, sizes, lambda_)
  return mixing.projected_gradient(
      c, sizes, lambda_, start(), hyperparameters.solver_steps
  )


def choose_lambda(
    table: Mapping[str, Any], scale: float,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> tf.Tensor:
  """Returns lambda of Eq. (2), a float64 scalar.

  `auto` is kappa times the gradients' variance, and allows for gradients of M <
  n_i examples.

  Args:
    table: See `fingerprints.nobody`.
    scale: kappa, a float32 scalar.
    hyperparameters: `PermHyperparameters`.
  """
  if hyperparameters.lambda_ != 'auto':
    return tf.constant(hyperparameters.lambda_, tf.float64)
  rows = table['rows']
  per_row = tf.math.divide_no_nan(table['sizes'], rows)  # n_i / M
  return mixing.auto_lambda(
      table['variances'] * per_row, rows > 1, tf.cast(scale, tf.float64)
  )


def measurements(weights: Any, lambda_: tf.Tensor) -> dict[str, Any]:
  """Returns metrics of A: row means, and the share of rows that are one-hot.

  Args:
    weights: A.
    lambda_: The lambda that it was solved with; 0: not yet.
  """
  rows = mixing_rows.MixingRows(weights)
  own = rows.own()
  count = tf.reduce_sum(tf.cast(rows.values > 0, tf.float32), axis=1)
  return collections.OrderedDict(
      weights_entropy=tf.cast(mixing.entropy(rows.values), tf.float32),
      weights_nonzeros=tf.reduce_mean(count),
      weights_self=tf.reduce_mean(own),
      weights_alone=tf.reduce_mean(tf.cast(own >= _ALONE, tf.float32)),
      **{'lambda': lambda_},
  )


def _noise(table):
  """v_i / M per client, the noise of a gradient of M rows, float32[N].

  One row shows no variance; it gets the mean of the others.
  """
  variances, rows = table['variances'], table['rows']
  mean = tf.cast(mixing.auto_lambda(variances, rows > 1, 1.0), tf.float32)
  return tf.math.divide_no_nan(tf.where(rows > 1, variances, mean), rows)


def denoised(
    c: tf.Tensor, owners: tf.Tensor, table: Mapping[str, Any],
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> tf.Tensor:
  """Returns distances less their expected noise, if asked; >= 0, 0 to self.

  Args:
    c: Distances of `owners` to all clients, floats [M, N].
    owners: int32[M].
    table: See `fingerprints.nobody`.
    hyperparameters: `PermHyperparameters`.
  """
  if hyperparameters.debias == 'variance':
    noise = _noise(table)
    c = c - tf.cast(tf.gather(noise, owners)[:, None] + noise, c.dtype)
  own = tf.equal(owners[:, None], tf.range(tf.shape(c)[1]))
  return tf.where(own, tf.zeros_like(c), tf.maximum(c, 0))
