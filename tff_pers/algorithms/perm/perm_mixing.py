"""Implements PERM's (b): the rows of A by Eq. (2), from clients' gradients.

    alpha_i <- argmin_{alpha in simplex} sum_j alpha(j) c_j
               + lambda sum_j alpha(j)^2 / n_j,     c_j = ||G_i - G_j||^2

(see `numerics.mixing`), the choice of lambda, and metrics of A.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping

import tensorflow as tf

from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.numerics import mixing
from tff_pers.numerics import mixing_rows

_BLOCK = 512  # Rows solved at once when rows are kept sparse.
# A client whose own weight is at least this learns only from itself.
_ALONE = 0.99


@dataclasses.dataclass(frozen=True)
class Problem:
  """Eq. (2) among clients whose gradients the server has.

  Attributes:
    setting: Setting of the run.
    table: Their gradients, see `fingerprints`. A client of size 0 (no examples,
      or a non-finite or unknown gradient) is not learned from, and learns from
      the others in proportion to their sizes.
    lambda_: Float64 scalar.
  """

  setting: setting_lib.PermSetting
  table: Mapping[str, Any]
  lambda_: tf.Tensor

  def all_rows(self, old: Any) -> Any:
    """Returns A after a round with all clients; `old` is A so far."""
    n = self.setting.num_clients
    if not self.setting.kept_per_row:
      return self._rows(old, tf.range(n))
    blocks = [  # Never an [N, N] tensor.
        self._rows(old, tf.range(first, min(first + _BLOCK, n)))
        for first in range(0, n, _BLOCK)
    ]
    return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *blocks)

  def cohort_rows(self, old: Any, cohort: tf.Tensor) -> Any:
    """Returns A with new rows for known clients of `cohort`, bool[N]."""
    owners = tf.where(tf.logical_and(cohort, self.table['sizes'] > 0))[:, 0]
    owners = tf.cast(owners, tf.int32)
    return mixing_rows.replaced(old, owners, self._rows(old, owners))

  def rows_of_centers(self, c: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    """Returns rows float32[C, N] of centers at distances `c`, [C, N]."""
    alpha = self._solved(self._among_known(c), lambda: old)
    return tf.cast(alpha, tf.float32)

  def rows_of_new_clients(self, gradients: Mapping[str, Any]) -> tf.Tensor:
    """Returns what new clients learn from trained ones, float64[M, N].

    A new client's row is what it would be if it had trained, without its own
    weight: so it takes from others what it would have taken, and if it is
    similar to its group, its own weight is small. A client that would have
    learned only from itself gets the row of Eq. (2) without itself. `gradients`
    are those of the new clients, as in `fingerprints.written`.
    """
    n, m = self.setting.num_clients, tf.size(gradients['keys'])
    everybody = dataclasses.replace(self, table=collections.OrderedDict(
        (name, tf.concat([self.table[name], gradients[name]], axis=0))
        for name in ('fingerprints', 'rows', 'sizes', 'variances')
    ))
    new_rows = tf.range(n, n + m)
    c = everybody._among_known(everybody.distances(
        tf.concat([tf.range(n), gradients['keys']], axis=0), new_rows
    ))
    has_trained = tf.range(n + m) < n
    itself = tf.equal(new_rows[:, None], tf.range(n + m))

    def row(teachers):
      return everybody._solved(
          tf.where(teachers, c, float('inf')),
          lambda: tf.fill([m, n + m], 1 / (n + m)),
      )[:, :n]

    shared = row(tf.logical_or(has_trained, itself))
    weight_of_others = tf.reduce_sum(shared, axis=1, keepdims=True)
    return tf.where(
        weight_of_others > 1 - _ALONE,
        tf.math.divide_no_nan(shared, weight_of_others), row(has_trained),
    )

  def _rows(self, old, owners):
    """Returns the rows of `owners`, int32[M], in the format of A."""
    c = self.distances(tf.range(self.setting.num_clients), owners)
    is_known = tf.gather(self.table['sizes'] > 0, owners)
    # c = 0 to all known clients: the row is in proportion to their sizes.
    c = self._among_known(tf.where(is_known[:, None], c, tf.zeros_like(c)))
    # Only projected gradient uses `start`; its A is always dense.
    alpha = self._solved(c, start=lambda: tf.gather(old, owners))
    return mixing_rows.kept(alpha, owners, self.setting.kept_per_row)

  def distances(
      self, client_of_row: tf.Tensor, learner_rows: tf.Tensor
  ) -> tf.Tensor:
    """Returns c_j from `learner_rows` of the table to all its rows, [M, R]."""
    devices, sizes = self.setting.devices, self.table['sizes']
    d = devices.pairwise(
        self.table['fingerprints'], sizes > 0, client_of_row, learner_rows
    )
    return devices.with_capacity(
        self.denoised(d, learner_rows), client_of_row, learner_rows, sizes
    )

  def denoised(self, d: tf.Tensor, learner_rows: tf.Tensor) -> tf.Tensor:
    """Returns distances minus their expected noise, if enabled; >= 0.

    The noise of a gradient on M examples is v_i / M. One example has no
    variance; it gets the mean of the others. The distance to self is 0.

    Args:
      d: Distances from rows of the table to all R rows, floats [M, R].
      learner_rows: int32[M], the numbers of those rows.
    """
    if self.setting.hyperparameters.debias == 'variance':
      variances, used = self.table['variances'], self.table['rows']
      # With kappa = 1 this is just the mean of the variances that exist.
      mean = tf.cast(mixing.auto_lambda(variances, used > 1, 1.0), tf.float32)
      noise = tf.math.divide_no_nan(tf.where(used > 1, variances, mean), used)
      d = d - tf.cast(tf.gather(noise, learner_rows)[:, None] + noise, d.dtype)
    own = tf.equal(learner_rows[:, None], tf.range(tf.shape(d)[1]))
    return tf.where(own, tf.zeros_like(d), tf.maximum(d, 0))

  def _among_known(self, c):
    """Returns `c` with unknown clients at distance infinity."""
    return tf.where(self.table['sizes'] > 0, c, float('inf'))

  def _solved(self, c, start: Callable[[], Any]):
    """Returns alpha of Eq. (2), float64[M, N]; descent begins at `start`."""
    # The size of an excluded client is irrelevant, but must be positive.
    sizes, hyperparameters = self.table['sizes'], self.setting.hyperparameters
    sizes = tf.where(sizes > 0, sizes, tf.maximum(tf.reduce_max(sizes), 1.0))
    if hyperparameters.solver == 'water_filling':
      return mixing.water_filling(c, sizes, self.lambda_)
    return mixing.projected_gradient(
        c, sizes, self.lambda_, start(), hyperparameters.solver_steps
    )


def initial(setting: setting_lib.PermSetting) -> Any:
  """Returns A before the first update.

  The identity: with cohorts a model keeps its weights until its client first
  takes part. Uniform for projected gradient that solves for all rows at once,
  because it starts from there, and for models of clusters, which do not belong
  to a client.
  """
  hyperparameters, n = setting.hyperparameters, setting.num_clients
  starts_uniform = (
      setting.full_participation
      and hyperparameters.solver == 'projected_gradient'
  )
  if hyperparameters.models or starts_uniform:
    return mixing_rows.uniform(setting.num_models, n)
  return mixing_rows.identity(n, setting.kept_per_row)


def choose_lambda(table: Any, kappa: Any, hyperparameters: Any) -> tf.Tensor:
  """Returns lambda of Eq. (2), float64 with the shape of `kappa`.

  `auto` is kappa times the gradients' variance, adjusted for gradients of M <
  n_i examples.
  """
  if hyperparameters.lambda_ != 'auto':
    return tf.constant(hyperparameters.lambda_, tf.float64)
  num_used = table['rows']
  ratio = tf.math.divide_no_nan(table['sizes'], num_used)  # n_i / M
  return mixing.auto_lambda(
      table['variances'] * ratio, num_used > 1, tf.cast(kappa, tf.float64)
  )


def measurements(weights: Any, lambda_: tf.Tensor) -> dict[str, Any]:
  """Returns metrics of A: row means, and the share of one-hot rows."""
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
