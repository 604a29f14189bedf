"""One model for devices of several capacities, each with its own ranks.

FedHM: see `factorized` for the paper.
"""

import collections
import dataclasses
import functools
from typing import Any, Callable, Optional

import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import factorized
from tff_pers.models import functional
from tff_pers.models import tiers as tiers_lib
from tff_pers.numerics import factorization
from tff_pers.numerics import low_rank


@dataclasses.dataclass(frozen=True)
class TieredModel:
  """A model and its factorisations with several rank ratios.

  The server keeps `<factors, weights>`: the weights of full rank, and the
  factors of the kernels at the largest rank below it, from which those of a
  tier are cut. A device has a tuple of leaves, see `Factorization.factorized`.
  The messages of devices of all tiers share one type, `packed` `<factors,
  weights>`: dimensions that differ between tiers are unknown. In both, factors
  have one entry per leaf of the weights: `()`, or `low_rank.Factors`.

  Attributes:
    base: The model of full rank.
    ratios: The rank ratio of each tier; tiers may share one.
    full_rank: See `Factorization`.
    rank_base: See `factorized.rank_of`.
  """

  base: functional.FunctionalModel
  ratios: tuple[float, ...]
  full_rank: Optional[tuple[str, ...]] = None
  rank_base: str = 'out_channels'

  @functools.cached_property
  def tiers(self) -> tuple[factorized.Factorization, ...]:
    """The model of each tier."""
    return tuple(
        factorized.Factorization(
            self.base, ratio, self.full_rank, self.rank_base
        )
        for ratio in self.ratios
    )

  @functools.cached_property
  def top_ranks(self) -> dict[int, int]:
    """The largest ranks below the full one, by position of the leaf."""
    return max((tier.ranks for tier in self.tiers), key=_total)

  @functools.cached_property
  def least_ranks(self) -> dict[int, int]:
    """The smallest ranks, by position of the leaf: r_min."""
    return min((t.ranks for t in self.tiers if t.ranks), key=_total, default={})

  def decompose(self, weights: Any, key: tf.Tensor) -> tuple:
    """Returns the factors of the base weights, one decomposition per kernel.

    The key, int64[2], draws the directions that a kernel does not have, see
    `factorization.revive`.
    """
    return tuple(
        factorization.revive(
            factorization.factorize(leaf, self.top_ranks[position]),
            random.fold_in(key, position),
        )
        if position in self.top_ranks else ()
        for position, leaf in enumerate(tf.nest.flatten(weights))
    )

  def cut(self, whole: Any, tier: int) -> tuple:
    """Returns the weights of a tier's model from `<factors, weights, ...>`."""
    ranks = self.tiers[tier].ranks
    factors = self._by_leaf(whole['factors'])
    return tuple(
        factorization.cut(factors[position], ranks[position])
        if position in ranks else leaf
        for position, leaf in enumerate(tf.nest.flatten(whole['weights']))
    )

  def pack(self, weights: Any, tier: int) -> Any:
    """Returns the weights of a tier's model with the type of all tiers."""
    factors, leaves = [], []
    for position, leaf in enumerate(self.tiers[tier].leaves(weights)):
      own: Any = ()
      if isinstance(leaf, low_rank.Factors):
        own, leaf = leaf, self._no_rows(position)
      elif position in self.top_ranks:
        own = factorization.factorize(leaf, 0)
      factors.append(own)
      leaves.append(leaf)
    return collections.OrderedDict(
        factors=tuple(factors),
        weights=tf.nest.pack_sequence_as(self.base.spec, leaves),
    )

  def switch(self, tier: tf.Tensor, of_tier: Callable[[int], Any]) -> Any:
    """Returns `of_tier(tier)`, see `tiers.switch`."""
    return tiers_lib.switch(self.ratios, tier, of_tier)

  @functools.cached_property
  def deployed(self) -> functional.FunctionalModel:
    """The model over `packed` weights of any tier."""
    base = self.base

    def init(key):
      weights = base.init(key)
      whole = dict(factors=self.decompose(weights, key), weights=weights)
      return self.switch(
          tiers_lib.some_tier(key), lambda k: self.pack(self.cut(whole, k), k)
      )

    return dataclasses.replace(
        base, init=init, layers=None, takes_factors=False,
        full_rank=(), frozen=None, name=f'{base.name} (tiers)',
        to_base=self._recovered,
        penalty=base.penalty_by(
            lambda weights: base.penalty(self._recovered(weights))
        ),
        predict=lambda weights, *rest: base.predict(
            self._recovered(weights), *rest
        ),
    )

  def energy(self, whole: Any) -> tf.Tensor:
    """Returns the share of the energy within r_min, a float scalar.

    This is the mean over the factorised kernels of the sum of the r_min largest
    squared singular values over the sum of all, for `<factors, weights, ...>`
    of the server. It needs no decomposition: a singular value is the norm of a
    column of v times that of a row of u.
    """
    factors = self._by_leaf(whole['factors'])
    leaves = tf.nest.flatten(whole['weights'])
    shares = []
    for position, rank in self.least_ranks.items():
      v, u = factorization.as_matrices(factors[position])
      values = tf.norm(v[:, :rank], axis=0) * tf.norm(u[:rank], axis=1)
      shares.append(tf.math.divide_no_nan(
          tf.reduce_sum(tf.square(values)),
          tf.reduce_sum(tf.square(leaves[position])),
      ))
    return tf.reduce_mean(shares)

  def _by_leaf(self, factors) -> dict[int, low_rank.Factors]:
    """Returns the factors by position; TFF may have changed the containers."""
    tensors = iter(tf.nest.flatten(factors))
    return {
        position: low_rank.Factors(next(tensors), next(tensors))
        for position in sorted(self.top_ranks)
    }

  def _recovered(self, packed):
    """Returns the base weights for packed weights of any tier."""
    factors = self._by_leaf(packed['factors'])
    return tf.nest.pack_sequence_as(self.base.spec, [
        factorization.either(leaf, factors[position])
        if position in factors else leaf
        for position, leaf in enumerate(tf.nest.flatten(packed['weights']))
    ])

  def _no_rows(self, position: int):
    """Returns a kernel without rows, which replaces one that has factors."""
    spec = tf.nest.flatten(self.base.spec)[position]
    return tf.zeros([0, *spec.shape[1:]], spec.dtype)


def _total(ranks: dict[int, int]) -> int:
  return sum(ranks.values())
