"""Sub-models: a share of the hidden units of a model, and their weights.

A weight belongs to a sub-model if the units at both of its ends do. Inputs and
outputs are never cut. The units of a group, e.g. the channels that a residual
connection adds, are cut alike.

    static : units 0 .. q-1                          (HeteroFL, FjORD)
    rolling: units (t + k) mod C, k < q, in round t  (FedRolex)
    random : q units, drawn without replacement      (federated dropout)

HeteroFL: Computation and Communication Efficient Federated Learning for
Heterogeneous Clients
    Diao, Ding, Tarokh. ICLR 2021.
FedRolex: Model-Heterogeneous Federated Learning with Rolling Sub-Model
Extraction
    Alam, Liu, Yan, Zhang. NeurIPS 2022.
Expanding the Reach of Federated Learning by Reducing Client Resource
Requirements (random sub-models)
    Caldas, Konecny, McMahan, Talwalkar. 2018.
"""

import dataclasses
import functools
import math
from typing import Any, Callable, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import functional
from tff_pers.models import layers as layers_lib
from tff_pers.models import tiers as tiers_lib

ROUNDINGS = ('round', 'floor', 'ceil')
WINDOWS = ('static', 'rolling', 'random')

# Rounds the products to these digits: as floats, 0.07 times 100 is
# 7.000000000000001, and 0.35 times 90 is 31.499999999999996.
_DIGITS = 9

# The units that a sub-model keeps, int32[q] by group, ascending.
Kept = Mapping[str, Any]


def num_kept(units: int, width: float, rounding: str = 'round') -> int:
  """Returns the number of units that a width beta > 0 keeps of C, at least 1.

  That is beta C, rounded by `round` (halves to even), `floor` or `ceil`.

  Raises:
    ValueError: If `rounding` is not one of these.
  """
  if rounding not in ROUNDINGS:
    raise ValueError(
        f'`width_rounding` must be one of {", ".join(ROUNDINGS)}, found'
        f' {rounding!r}.'
    )
  wanted = round(width * units, _DIGITS)
  if rounding == 'floor':
    return max(1, math.floor(wanted))
  if rounding == 'ceil':
    return max(1, math.ceil(wanted))
  return max(1, round(wanted))


@dataclasses.dataclass(frozen=True)
class Submodels:
  """The sub-models of one model, in several widths.

  Weights of a sub-model have the structure of the model's weights, with smaller
  leaves; what it computes depends on how many units it keeps, not on which.

  Attributes:
    base: The whole model; it must know its `units` and have several sizes.
    widths: Share beta of the units that the sub-model of each tier keeps, in
      (0, 1]; tiers may have equal shares.
    rounding: See `num_kept`.
  """

  base: functional.FunctionalModel
  widths: tuple[float, ...]
  rounding: str = 'round'

  def __post_init__(self):
    for width in self.widths:
      if not 0 < width <= 1:
        raise ValueError(f'`widths` must be in (0, 1], found {width}.')
    if self.base.slim is None or self.base.units is None or not self.groups:
      raise ValueError(
          '`model` must be one whose hidden layers can be made narrower, found'
          f' {self.base.name}. Tip: --model=mlp can.'
      )

  @functools.cached_property
  def groups(self) -> dict[str, int]:
    """Number of units of every group."""
    assert self.base.units is not None
    return {
        units.group: units.size
        for axes in self.base.units for units in axes if units is not None
    }

  @functools.cached_property
  def tiers(self) -> tuple[functional.FunctionalModel, ...]:
    """The sub-model of each tier."""
    return tuple(map(self.of_width, self.widths))

  def of_width(self, width: float) -> functional.FunctionalModel:
    """Returns the sub-model of a given width."""
    if width == 1:
      return self.base
    return functional.of_width(self.base, width, self.rounding)

  @functools.cached_property
  def shares(self) -> list[float]:
    """The share of the parameters that each tier has."""
    whole = self.base.num_parameters
    return [tier.num_parameters / whole for tier in self.tiers]

  def narrower(self, tier: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Returns the narrower of two tiers; int32 of any shape."""
    widths = tf.constant(self.widths)
    return tf.where(
        tf.gather(widths, tier) <= tf.gather(widths, other), tier, other
    )

  @functools.cached_property
  def within(self) -> tuple[functional.FunctionalModel, ...]:
    """The sub-models of first units, as models over the whole weights."""

    def over_whole(k):
      tier, kept = self.tiers[k], self.static(k)
      own = lambda weights: extract(self.base, weights, kept)
      return dataclasses.replace(
          self.base, takes_factors=False,
          penalty=self.base.penalty_by(lambda whole: tier.penalty(own(whole))),
          predict=lambda whole, *rest: tier.predict(own(whole), *rest),
      )

    return tuple(map(over_whole, range(len(self.widths))))

  def num_kept(self, tier: int) -> dict[str, int]:
    """Returns the number of units that a tier keeps of every group."""
    width = self.widths[tier]
    return {
        group: num_kept(size, width, self.rounding)
        for group, size in self.groups.items()
    }

  def static(self, tier: int) -> Kept:
    """Returns the first units of every group."""
    return {
        group: np.arange(q, dtype=np.int32)
        for group, q in self.num_kept(tier).items()
    }

  def rolling(self, tier: int, offset: tf.Tensor) -> Kept:
    """Returns the units from `offset` on, wrapping around after the last.

    The offset is an int32 scalar t >= 0, the same for all groups.
    """
    return {
        group: tf.sort((offset + tf.range(q)) % self.groups[group])
        for group, q in self.num_kept(tier).items()
    }

  def random(self, tier: int, key: tf.Tensor) -> Kept:
    """Returns units drawn uniformly without replacement by a key, int64[2]."""
    kept = {}
    for number, (group, q) in enumerate(self.num_kept(tier).items()):
      draws = tf.random.stateless_uniform(
          [self.groups[group]], random.fold_in(key, number)
      )
      kept[group] = tf.sort(tf.argsort(draws)[:q])
    return kept

  def window(
      self, kind: str, tier: int, *, offset: tf.Tensor, key: tf.Tensor
  ) -> Kept:
    """Returns the units that one of `WINDOWS` keeps."""
    if kind == 'static':
      return self.static(tier)
    if kind == 'rolling':
      return self.rolling(tier, offset)
    return self.random(tier, key)

  def switch(self, tier: tf.Tensor, of_tier: Callable[[int], Any]) -> Any:
    """Returns `of_tier(tier)`, see `tiers.switch`."""
    return tiers_lib.switch(self.widths, tier, of_tier)

  def first_units(self, weights: Any, tier: tf.Tensor) -> Any:
    """Returns the weights of a tier's first units, with a type for all tiers.

    The tier is an int32 scalar, a tensor.
    """
    return self.switch(
        tier, lambda k: extract(self.base, weights, self.static(k))
    )

  @functools.cached_property
  def deployed(self) -> functional.FunctionalModel:
    """The model over weights of any tier, which their shapes identify."""

    def init(key):
      return self.first_units(self.base.init(key), tiers_lib.some_tier(key))

    def predict(weights, *rest):
      return self._at(weights, lambda model, own: model.predict(own, *rest))

    def penalty(weights):
      return self._at(weights, lambda model, own: model.penalty(own))

    return dataclasses.replace(
        self.base, init=init, predict=predict,
        penalty=self.base.penalty_by(penalty), layers=None,
        takes_factors=False, full_rank=(), slim=None, units=None,
        name=f'{self.base.name} (tiers)',
    )

  def _at(self, weights, compute: Callable[[Any, Any], Any]):
    """Returns `compute(model, weights)` with the model of these weights."""
    leaves = tf.nest.flatten(weights)
    # A tier with fewer units has no more in any group: the sum identifies it.
    totals = [sum(self.num_kept(k).values()) for k in range(len(self.widths))]
    sizes = [leaves[i].shape[axis] for i, axis in self._places.values()]

    def at(k):
      model = self.tiers[k]
      own = [
          tf.reshape(leaf, spec.shape)
          for leaf, spec in zip(leaves, tf.nest.flatten(model.spec))
      ]
      return compute(model, tf.nest.pack_sequence_as(model.spec, own))

    if None not in sizes:
      # E.g. an exported client's model: the other tiers do not fit, which would
      # fail when TensorFlow traces them.
      return at(totals.index(sum(sizes)))
    found = sum(
        tf.shape(leaves[position])[axis]
        for position, axis in self._places.values()
    )
    tier = tf.argmax(tf.equal(totals, found), output_type=tf.int32)
    return self.switch(tier, at)

  @functools.cached_property
  def _places(self) -> dict[str, tuple[int, int]]:
    """An axis with each unit of a group once, as (leaf, axis) by group."""
    assert self.base.units is not None
    return {
        units.group: (position, axis)
        for position, axes in enumerate(self.base.units)
        for axis, units in enumerate(axes)
        if units is not None and units.positions == 1
    }


def extract(model: functional.FunctionalModel, weights: Any, kept: Kept) -> Any:
  """Returns the weights of the sub-model of `model` that keeps these units."""
  return _by_axis(
      model, weights, kept,
      lambda leaf, axis, units, own: tf.gather(
          leaf, _entries(units, own), axis=axis
      ),
  )


def expand(model: functional.FunctionalModel, weights: Any, kept: Kept) -> Any:
  """Returns weights of a sub-model in their places; zeros elsewhere."""
  return _by_axis(model, weights, kept, _scattered)


def mask(model: functional.FunctionalModel, kept: Kept) -> Any:
  """Returns 1 where the sub-model has weights, 0 elsewhere."""
  ones = tf.nest.map_structure(
      lambda spec: tf.ones(spec.shape, spec.dtype), model.spec
  )
  return _by_axis(model, ones, kept, _masked)


def replace(
    model: functional.FunctionalModel, weights: Any, own: Any, kept: Kept
) -> Any:
  """Returns `weights` with the weights `own` of a sub-model in their places."""
  return tf.nest.map_structure(
      lambda is_own, new, old: tf.where(is_own > 0, new, old),
      mask(model, kept), expand(model, own, kept), weights,
  )


def _by_axis(model, weights, kept: Kept, change: Callable[..., Any]):
  """Changes all leaves along the axes of which not all units are kept.

  `change` is `(leaf, axis, units of the axis, kept ones of these) -> leaf`.
  """
  changed = []
  for leaf, axes in zip(tf.nest.flatten(weights), model.units):
    for axis, units in enumerate(axes):
      if units is not None and kept[units.group].shape[0] != units.size:
        leaf = change(leaf, axis, units, kept[units.group])
    changed.append(leaf)
  return tf.nest.pack_sequence_as(model.spec, changed)


def has_norm(model: functional.FunctionalModel) -> bool:
  """Returns whether a layer of the model is a normalization."""
  return any(w.kind == 'norm' for w in layers_lib.describe(model))


def scaled(
    model: functional.FunctionalModel, rate: float
) -> functional.FunctionalModel:
  """Returns the model with HeteroFL's scaler, which acts only in training.

  The outputs of hidden kernels and biases are divided by `rate`, the width of
  the model relative to the largest that takes part, before any normalization,
  so that narrow and wide layers have outputs of the same size.
  """
  if rate == 1:
    return model
  described = layers_lib.describe(model)
  assert model.units is not None  # It was made narrower than another.
  is_scaled = [
      weight.kind != 'norm' and axes[-1] is not None
      for weight, axes in zip(described, model.units)
  ]

  def predict(weights, x, training, seed):
    if training:
      # Outputs are linear in kernel and bias, so these can be divided instead.
      leaves = [
          leaf / tf.constant(rate, leaf.dtype) if divide else leaf
          for leaf, divide in zip(tf.nest.flatten(weights), is_scaled)
      ]
      weights = tf.nest.pack_sequence_as(weights, leaves)
    return model.predict(weights, x, training, seed)

  return dataclasses.replace(model, predict=predict, takes_factors=False)


def _scattered(leaf, axis: int, units: functional.Units, own):
  """Puts the entries of an axis in their places, with zeros between them."""
  num_entries = units.positions * own.shape[0]
  # For each entry of the whole axis its position, or that of a row of zeros.
  places = tf.tensor_scatter_nd_update(
      tf.fill([units.positions * units.size], num_entries),
      _entries(units, own)[:, None], tf.range(num_entries),
  )
  padding = [[0, int(k == axis)] for k in range(leaf.shape.rank)]
  return tf.gather(tf.pad(leaf, padding), places, axis=axis)


def _masked(leaf, axis: int, units: functional.Units, own):
  """Multiplies an axis by 1 where units are kept, by 0 elsewhere."""
  is_kept = tf.scatter_nd(
      own[:, None], tf.ones(own.shape, leaf.dtype), [units.size]
  )
  shape = [1] * leaf.shape.rank
  shape[axis] = -1
  return leaf * tf.reshape(tf.tile(is_kept, [units.positions]), shape)


def _entries(units: functional.Units, own):
  """Returns the entries of an axis that belong to the units `own`."""
  starts = units.size * tf.range(units.positions)
  return tf.reshape(starts[:, None] + own[None], [-1])
