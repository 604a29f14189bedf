"""Models whose later kernels are products of two thin factors.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021.
    https://arxiv.org/abs/2111.14655
"""

import dataclasses
import functools
import math
from typing import Any, Optional, Sequence

import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import functional
from tff_pers.models import layers as layers_lib
from tff_pers.numerics import factorization
from tff_pers.numerics import low_rank

KERNELS = ('dense', 'conv')
# The numbers that a rank ratio can refer to.
RANK_BASES = ('out_channels', 'min_channels', 'unrolled')


def rank_of(
    shape: Sequence[int], ratio: float, rank_base: str = 'out_channels'
) -> int:
  """Returns the rank of a kernel: max(1, round(ratio * base)), if it fits.

  The kernel has shape [n, m] or [kh, kw, in, out]. The base is `out_channels`;
  `min_channels`, the smaller of inputs and outputs; or `unrolled`, the smaller
  side of the unrolled kernel. Halves are rounded to even; the rank is never
  above that side. The paper defines a share of the rank of the unrolled kernel,
  but only the number of output channels as base gives the sizes that it
  publishes.

  Raises:
    ValueError: If `rank_base` is not one of these.
  """
  largest = min(factorization.unrolled_shape(shape))
  bases = dict(
      out_channels=shape[-1], min_channels=min(shape[-2:]), unrolled=largest
  )
  if rank_base not in bases:
    raise ValueError(
        f'`rank_base` must be one of {", ".join(RANK_BASES)}, found'
        f' {rank_base!r}.'
    )
  return min(max(1, round(ratio * bases[rank_base])), largest)


def layers_of_full_rank(
    weights: Sequence[functional.LayerWeight],
) -> tuple[str, ...]:
  """Returns the names of the layers that keep their full rank by default.

  These are the first layer with a kernel, because its errors reach all others;
  the last, the classifier; and 1 x 1 convolutions. If there is no other layer,
  only the last of two is kept, and a single one is factorised.
  """
  kernels = [w for w in layers_lib.as_applied(weights) if w.kind in KERNELS]
  thin = [k.layer for k in kernels if k.shape[:-2] == (1, 1)]
  first, last = (
      [k.layer for k in part] for part in (kernels[:1], kernels[-1:])
  )
  for kept in ({*first, *last, *thin}, {*last, *thin}, set(thin)):
    if any(kernel.layer not in kept for kernel in kernels):
      return tuple(dict.fromkeys(k.layer for k in kernels if k.layer in kept))
  return tuple(dict.fromkeys(kernel.layer for kernel in kernels))


@dataclasses.dataclass(frozen=True)
class Factorization:
  """The model of one capacity: first kernels of full rank, then factors.

  Attributes:
    base: The model of full rank.
    ratio: Rank ratio gamma in (0, 1]; 1 is the base model itself, since factors
      of rank n_out would not be: a k x k convolution has rank k n_out.
    full_rank: Names of the layers that keep their full rank. None: those in
      `base.full_rank` or, if it is empty, `layers_of_full_rank`. Biases and
      normalizations always stay as they are.
    rank_base: See `rank_of`.
  """

  base: functional.FunctionalModel
  ratio: float
  full_rank: Optional[tuple[str, ...]] = None
  rank_base: str = 'out_channels'

  def __post_init__(self):
    if not 0 < self.ratio <= 1:
      raise ValueError(f'`ratio` must be in (0, 1], found {self.ratio}.')
    names = [weight.layer for weight in self.weights]
    for name in self.full_rank or ():
      if name not in names:
        raise ValueError(
            f'`full_rank` must be layers of {self.base.name}'
            f' ({", ".join(dict.fromkeys(names))}), found {name!r}.'
        )
    if not self.factorisable:
      raise ValueError(
          f'`full_rank` must leave {self.base.name} a layer with a dense or'
          ' convolution kernel to factorise, found none. Tip: --model=mlp has'
          ' one.'
      )

  @functools.cached_property
  def weights(self) -> tuple[functional.LayerWeight, ...]:
    """Descriptions of the leaves of the base model's weights."""
    return layers_lib.describe(self.base)

  @functools.cached_property
  def factorisable(self) -> tuple[int, ...]:
    """Positions of the leaves that have factors where the ratio is below 1."""
    kept = self.full_rank
    if kept is None:
      kept = self.base.full_rank or layers_of_full_rank(self.weights)
    return tuple(
        position for position, weight in enumerate(self.weights)
        if weight.kind in KERNELS and weight.layer not in kept
    )

  @functools.cached_property
  def ranks(self) -> dict[int, int]:
    """The ranks of the factorised leaves, by position; empty if ratio = 1."""
    if self.ratio == 1:
      return {}
    return {
        position: rank_of(
            self.weights[position].shape, self.ratio, self.rank_base
        )
        for position in self.factorisable
    }

  @property
  def num_parameters(self) -> int:
    """Number of scalars of the model."""
    return sum(math.prod(weight.shape) for weight in self._layers)

  def factorized(self, weights: Any, key: tf.Tensor) -> tuple:
    """Returns weights of `model`, made from weights of the base model.

    They are a tuple of the leaves, with `low_rank.Factors` instead of some
    kernels. The key, int64[2], draws the directions that a kernel does not
    have, see `factorization.revive`.
    """
    return tuple(
        factorization.revive(
            factorization.factorize(leaf, self.ranks[position]),
            random.fold_in(key, position),
        )
        if position in self.ranks else leaf
        for position, leaf in enumerate(tf.nest.flatten(weights))
    )

  def recovered(self, weights: Any) -> Any:
    """Returns weights of the base model, with factors multiplied out."""
    return tf.nest.pack_sequence_as(self.base.spec, [
        factorization.recover(leaf)
        if isinstance(leaf, low_rank.Factors) else leaf
        for leaf in self.leaves(weights)
    ])

  def leaves(self, weights: Any) -> list:
    """Returns the leaves, with pairs of factors as `low_rank.Factors`.

    The containers of the weights of `model` may have changed, as they do in
    TFF.
    """
    tensors = iter(tf.nest.flatten(weights))
    return [
        low_rank.Factors(next(tensors), next(tensors))
        if position in self.ranks else next(tensors)
        for position in range(len(self.weights))
    ]

  @functools.cached_property
  def model(self) -> functional.FunctionalModel:
    """The model over `factorized` weights, always a tuple."""
    base = self.base
    if base.takes_factors:
      def inner(weights):
        return tf.nest.pack_sequence_as(self.base.spec, self.leaves(weights))
    else:
      inner = self.recovered
    return dataclasses.replace(
        base,
        init=lambda key: self.factorized(base.init(key), key),
        predict=lambda weights, *rest: base.predict(inner(weights), *rest),
        # The norm in a penalty needs the whole kernel.
        penalty=base.penalty_by(
            lambda weights: base.penalty(self.recovered(weights))
        ),
        layers=self._layers, takes_factors=False,
        full_rank=(), frozen=None, name=f'{base.name} (ratio {self.ratio:g})',
    )

  def summary(self) -> str:
    """Returns a table of all weights, their ranks, and their sizes."""
    rows = [('weight', 'kind', 'shape', 'rank', 'parameters')]
    for position, weight in enumerate(self.weights):
      rank = self.ranks.get(position)
      shapes = [weight.shape]
      if rank is not None:
        shapes = [shape for _, shape in _factor_shapes(weight.shape, rank)]
      rows.append((
          weight.name, weight.kind, ' x '.join(map(str, weight.shape)),
          'full' if rank is None else str(rank),
          str(sum(map(math.prod, shapes))),
      ))
    whole = sum(math.prod(weight.shape) for weight in self.weights)
    return (
        f'{layers_lib.table(rows)}\n'
        f'{self.base.name}: {self.num_parameters} of {whole} parameters'
        f' ({self.num_parameters / whole:.2%}) at rank ratio {self.ratio:g}.'
    )

  @functools.cached_property
  def _layers(self) -> tuple[functional.LayerWeight, ...]:
    """Descriptions of the leaves of the weights of `model`."""
    described = []
    for position, weight in enumerate(self.weights):
      if position not in self.ranks:
        described.append(weight)
        continue
      described += [
          weight._replace(name=f'{weight.name}/{part}', kind='factor', shape=x)
          for part, x in _factor_shapes(weight.shape, self.ranks[position])
      ]
    return tuple(described)


def slim(
    model: functional.FunctionalModel, num_parameters: int
) -> functional.FunctionalModel:
  """Returns the model with hidden layers scaled to `slim_width`.

  Factorised models of that size are compared with it.

  Raises:
    ValueError: If the model has only one size.
  """
  return functional.of_width(model, slim_width(model, num_parameters))


def slim_width(
    model: functional.FunctionalModel, num_parameters: int,
    rounding: str = 'round',
) -> float:
  """Returns the width whose number of parameters is nearest.

  Widths are thousandths of the model's own; `rounding`: see
  `submodels.num_kept`.

  Raises:
    ValueError: If the model has only one size.
  """
  slim = model.slim
  if slim is None:
    raise ValueError(
        '`model` must be one whose hidden layers can be scaled, found'
        f' {model.name}. Tip: --model=mlp can.'
    )

  def size(thousandths: int) -> int:
    layers = slim(thousandths / 1000, rounding).layers
    assert layers is not None
    return sum(math.prod(weight.shape) for weight in layers)

  def distance(thousandths):
    return abs(size(thousandths) - num_parameters)

  # A wider model never has fewer parameters, so the nearest is the first that
  # is large enough, or the one before it.
  widths = range(1, 1001)
  first, last = 0, len(widths) - 1
  while first < last:  # `bisect` has no key in Python 3.9.
    middle = (first + last) // 2
    if size(widths[middle]) < num_parameters:
      first = middle + 1
    else:
      last = middle
  return min(widths[max(first - 1, 0):first + 1], key=distance) / 1000


def _factor_shapes(shape: tuple[int, ...], rank: int):
  """Returns the shapes of both factors, by name."""
  if len(shape) == 2:
    return ('v', (shape[0], rank)), ('u', (rank, shape[1]))
  height, width, inputs, outputs = shape
  return ('v', (height, 1, inputs, rank)), ('u', (1, width, rank, outputs))
