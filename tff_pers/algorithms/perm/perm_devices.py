"""The part of the model on clients' devices: all of it, or the first units.

With tiers, the architecture of client i is the first beta_i C units of every
layer of C units. Weights keep the shape of the whole model; entries outside of
an architecture are not touched:

    (a) G_i = grad f_i(m_i . w), in the coordinates of m_i, 0 elsewhere; each
        coordinate of w moves by the mean over the clients that have it
    (b) d_ij = ||m * (G_i - G_j)||^2 / share of the coordinates in m, where m
        selects those that both have (compare=all: ||G_i - G_j||^2);
        c_j = d_ij + rho sqrt(VC / n_j)
    (c) at client c model i is trained in min(beta_i, beta_c) C of its units

The paper mentions the idea; the formulas are ours.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping, Optional, Sequence

import tensorflow as tf

from tff_pers.aggregators import partial
from tff_pers.client_works import local_sgd
from tff_pers.config import hyperparameters as hp
from tff_pers.data import task as task_lib
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import functional
from tff_pers.models import submodels
from tff_pers.models import tiers as tiers_lib
from tff_pers.numerics import distances

_HAS_TIERS = 'tiers!=none'


@dataclasses.dataclass(frozen=True)
class ArchitectureHyperparameters(hp.Aggregation):
  """Hyperparameters of PERM whose clients own models of different width."""

  tiers: str = hp.field(
      'none',
      'Widths of the models that clients of each tier own, such as 1:0.5:0.25,'
      ' shares of the units of hidden layers; none: all own the whole model.',
  )
  width_rounding: str = hp.field(
      'round', 'How numbers of units are rounded.',
      choices=submodels.ROUNDINGS, when=_HAS_TIERS,
  )
  compare: str = hp.field(
      'intersection',
      'Coordinates in which gradients of different architectures are compared:'
      ' intersection (those that both have, divided by their share) or all.',
      choices=('intersection', 'all'), when=_HAS_TIERS,
  )
  vc: float = hp.field(
      0.0,
      'rho: weight of sqrt(VC / n_j) beside the distance to client j, where VC'
      ' is the number of parameters of a class of models; 0: none.',
      minimum=0.0, when=_HAS_TIERS,
  )
  vc_of: str = hp.field(
      'learner', 'The class: that of the learning client, or of the source.',
      choices=('learner', 'source'), when=f'{_HAS_TIERS} and vc!=0',
  )

  def __post_init__(self):
    # Of the hyperparameters that include these.
    super().__post_init__()  # type: ignore[misc]
    self.ratios((1.0,))
    if self.tiers == 'none':
      return
    if self.aggregator != 'mean':
      raise ValueError(
          '`aggregator` must be mean with `tiers`, because clients have only'
          f' parts of the model, found {self.aggregator}.'
      )

  def ratios(self, of_task: Sequence[float]) -> tuple[float, ...]:
    """Returns the width of every tier, (1,) without tiers."""
    if self.tiers == 'none':
      return (1.0,)
    return tiers_lib.parse_ratios(self.tiers, of_task)


@dataclasses.dataclass(frozen=True)
class Devices:
  """The part of a model on clients' devices: all of it, or the first units.

  Attributes:
    model: The whole model.
    parts: Its sub-models by tier; None: all clients have the whole model.
    assign: The tier of a client, see `data.tiers.assign`; tiers are fixed.
    compare: Coordinates in which gradients are compared.
    vc: rho, with `vc_of`.
  """

  model: functional.FunctionalModel
  parts: Optional[submodels.Submodels] = None
  assign: Optional[tier_assignment.Assign] = None
  compare: str = 'intersection'
  vc: float = 0.0
  vc_of: str = 'learner'

  @property
  def deployed(self) -> functional.FunctionalModel:
    """The model over deployed weights."""
    return self.parts.deployed if self.parts else self.model

  def of_client(
      self, index: tf.Tensor,
      compute: Callable[[functional.FunctionalModel], Any],
  ) -> Any:
    """Returns `compute(model)` with the model that client `index` owns.

    The model takes weights of the whole model, and its gradient is zero in
    those that the client does not have.
    """
    if self.parts is None:
      return compute(self.model)
    return self._submodels.switch(
        self.tier(index), lambda k: compute(self._submodels.within[k])
    )

  def train(
      self, weights: Any, data: Mapping[str, Any], *, seed: tf.Tensor,
      owner: Optional[tf.Tensor] = None, **options: Any,
  ) -> tuple[Any, tf.Tensor]:
    """Returns (weights, loss) of `local_sgd.train` on the model of `owner`.

    The default owner is the client itself. `weights` are of the whole model.
    """
    if self.parts is None:
      return local_sgd.train(self.model, weights, data, seed=seed, **options)
    host = self.tier(data['index'])
    owned = host if owner is None else self.tier(owner)

    def within(k):
      kept = self._submodels.static(k)
      own = submodels.extract(self.model, weights, kept)
      final, loss = local_sgd.train(
          self._submodels.tiers[k], own, data, seed=seed, **options
      )
      return submodels.replace(self.model, weights, final, kept), loss

    return self.parts.switch(self.parts.narrower(owned, host), within)

  def sent(self, update: Any, index: tf.Tensor) -> Any:
    """Returns the part of an update of w that client `index` has."""
    if self.parts is None:
      return update
    kept = self.parts.switch(
        self.tier(index),
        lambda k: submodels.mask(self.model, self._submodels.static(k)),
    )
    return collections.OrderedDict(
        kept=kept,
        # Weight decay changes all of w.
        update=tf.nest.map_structure(tf.multiply, kept, update),
    )

  def averaged(self, factory: Any) -> Any:
    """Returns the factory that averages what is `sent`, using `factory`."""
    return partial.PartialMeanFactory(factory) if self.parts else factory

  def own_units(self, weights: Any, index: tf.Tensor) -> Any:
    """Returns the part of the whole model that client `index` deploys."""
    if self.parts is None:
      return weights
    return self.parts.first_units(weights, self.tier(index))

  def share(
      self, index: tf.Tensor, other: Optional[tf.Tensor] = None
  ) -> tf.Tensor:
    """Returns the share of parameters of a client, or common to two clients."""
    if self.parts is None:
      return 1.0
    tier = self.tier(index)
    if other is not None:
      tier = self.parts.narrower(tier, self.tier(other))
    return tf.gather(self.parts.shares, tier)

  def pairwise(
      self, vectors: tf.Tensor, is_known: tf.Tensor, client_of_row: tf.Tensor,
      learner_rows: tf.Tensor,
  ) -> tf.Tensor:
    """Returns d_ij from rows `learner_rows` to all rows, floats [M, R].

    Args:
      vectors: Gradients, floats [R, d].
      is_known: bool[R]; other rows are 0.
      client_of_row: int32[R], the clients, whose tiers are compared.
      learner_rows: int32[M], numbers of rows.
    """
    def apart(vectors):
      return distances.gram_distances(
          distances.center(vectors, is_known), learner_rows
      )

    if not self._compares_parts:
      return apart(vectors)
    tiers, masks, total = self.tier(client_of_row), self._masks(), 0
    learners = tf.gather(tiers, learner_rows)[:, None]
    # The tier whose coordinates two clients share, int32[M, R].
    both = self._submodels.narrower(learners, tiers)
    for k, share in enumerate(self._submodels.shares):
      of_tier = apart(vectors * masks[k])
      total += tf.where(
          tf.equal(both, k), of_tier / tf.constant(share, of_tier.dtype), 0
      )
    return total

  def with_capacity(
      self, d: tf.Tensor, client_of_row: tf.Tensor, learner_rows: tf.Tensor,
      sizes: tf.Tensor,
  ) -> tf.Tensor:
    """Returns c_j from d_ij, [M, R], and n_j, `sizes` [R]; see `pairwise`."""
    if self.parts is None or not self.vc:
      return d
    numbers = [float(tier.num_parameters) for tier in self.parts.tiers]
    tiers = self.tier(client_of_row)
    dimension = tf.gather(
        numbers, tf.gather(tiers, learner_rows)[:, None]
        if self.vc_of == 'learner' else tiers[None],
    )
    added = self.vc * tf.sqrt(dimension / tf.maximum(sizes, 1.0))
    return d + tf.cast(added, d.dtype)

  def scaled_variance(self, variance: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Returns the variance of a client's gradient in the unit of distances."""
    if not self._compares_parts:
      return variance
    return variance / tf.cast(self.share(index), variance.dtype)

  def tier(self, index: tf.Tensor) -> tf.Tensor:
    """Returns the tiers of clients, int32 as `index`."""
    assert self.assign is not None  # It is set with `parts`.
    return self.assign(None, None, index)

  @property
  def _submodels(self) -> submodels.Submodels:
    """`parts`, known not to be None: for type checkers."""
    assert self.parts is not None
    return self.parts

  @property
  def _compares_parts(self):
    return self.parts is not None and self.compare == 'intersection'

  def _masks(self):
    """Returns which coordinates of a gradient each tier has, [tiers, d]."""
    return tf.stack([
        distances.flatten(submodels.mask(self.model, self._submodels.static(k)))
        for k in range(len(self._submodels.widths))
    ])


def build_devices(task: task_lib.Task, hyperparameters: Any) -> Devices:
  """Returns the devices of a task's clients.

  Raises:
    ValueError: If tiers are drawn in every round, or the model has only
      one size.
  """
  if hyperparameters.tiers == 'none':
    return Devices(task.model)
  if task.tier_assignment != 'fixed':
    raise ValueError(
        '`tier_assignment` must be fixed for perm[tiers], whose clients own'
        f' models, found {task.tier_assignment!r}.'
    )
  widths = hyperparameters.ratios(task.rank_ratios)
  return Devices(
      task.model,
      submodels.Submodels(task.model, widths, hyperparameters.width_rounding),
      tier_assignment.assign(task.num_clients, len(widths), given=task.tiers),
      hyperparameters.compare, hyperparameters.vc, hyperparameters.vc_of,
  )
