"""PERM whose clients own models of different width.

The architecture of client i is the first beta_i C units of every layer of C
units. All weights keep the shape of the whole model, with what lies outside of
an architecture untouched:

    (a) G_i = grad f_i(m_i . w), in the coordinates of m_i and 0 elsewhere;
        w moves in each coordinate by the mean over the clients that have it
    (b) d_ij compares the coordinates that both have, over their share
        (compare=all: all coordinates); c_j = d_ij + rho sqrt(VC / n_j), see
        `perm_comparison`
    (c) at client c model i is trained in min(beta_i, beta_c) C of its units

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023. The paper names the idea; the formulas are ours.
"""

import collections
import dataclasses
import functools
from typing import Any, Callable, Mapping, Optional

import tensorflow as tf

from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.client_works import local_sgd
from tff_pers.data import task as task_lib
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import functional
from tff_pers.models import submodels


@dataclasses.dataclass(frozen=True)
class Devices:
  """What the clients' devices hold of a model: all of it, or the first units.

  Attributes:
    model: The whole model.
    parts: Its sub-models by tier; None: all clients have the whole model.
    assign: The tier of a client, see `data.tiers.assign`; they are fixed.
    compare: In which coordinates gradients are compared.
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
    """The model over what clients deploy."""
    return self.parts.deployed if self.parts else self.model

  def tier(self, index: tf.Tensor) -> tf.Tensor:
    """Returns the tiers of clients, int32 as `index`."""
    assert self.assign is not None  # It comes with `parts`.
    return self.assign(None, None, index)

  def of_client(
      self, index: tf.Tensor,
      compute: Callable[[functional.FunctionalModel], Any],
  ) -> Any:
    """Returns `compute(model)`, with the model that a client owns.

    It takes weights of the whole model, and has no gradient in those that the
    client does not have.

    Args:
      index: int32 scalar.
      compute: Uses the model.
    """
    if self.parts is None:
      return compute(self.model)
    return self.parts.switch(
        self.tier(index), lambda k: compute(self._first_units[k])
    )

  def train(
      self, weights: Any, data: Mapping[str, Any], *, seed: tf.Tensor,
      owner: Optional[tf.Tensor] = None, **options: Any,
  ) -> tuple[Any, tf.Tensor]:
    """Returns (weights, loss) of local SGD, as `local_sgd.train` does.

    Args:
      weights: Of the whole model.
      data: Dense client data.
      seed: Key of the batches.
      owner: Whose model it is; None: the client's own.
      **options: Of `local_sgd.train`.
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

    return self.parts.switch(self.narrower(owned, host), within)

  def sent(self, update: Any, index: tf.Tensor) -> Any:
    """Returns what a client sends of an update of w: the part that it has."""
    if self.parts is None:
      return update
    kept = self.parts.switch(
        self.tier(index),
        lambda k: submodels.mask(self.model, self._submodels.static(k)),
    )
    return collections.OrderedDict(
        kept=kept,
        # Weight decay reaches all of w.
        update=tf.nest.map_structure(tf.multiply, kept, update),
    )

  def own_units(self, weights: Any, index: tf.Tensor) -> Any:
    """Returns what client `index` deploys of weights of the whole model."""
    if self.parts is None:
      return weights
    return self.parts.first_units(weights, self.tier(index))

  def share(
      self, index: tf.Tensor, other: Optional[tf.Tensor] = None
  ) -> tf.Tensor:
    """Returns the share of the parameters that a client has, a float32 scalar.

    Args:
      index: int32 scalar.
      other: Another client's index: of those that both have.
    """
    if self.parts is None:
      return 1.0
    tier = self.tier(index)
    if other is not None:
      tier = self.narrower(tier, self.tier(other))
    return tf.gather(self.shares, tier)

  def narrower(self, tier: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Returns the tier, of two, that keeps fewer units; int32 of any shape."""
    widths = tf.constant(self._submodels.widths)
    return tf.where(
        tf.gather(widths, tier) <= tf.gather(widths, other), tier, other
    )

  @functools.cached_property
  def shares(self) -> list[float]:
    """The share of the parameters that each tier has."""
    whole = self.model.num_parameters
    return [tier.num_parameters / whole for tier in self._submodels.tiers]

  @property
  def _submodels(self) -> submodels.Submodels:
    """`parts`, where devices differ."""
    assert self.parts is not None
    return self.parts

  @functools.cached_property
  def _first_units(self) -> tuple[functional.FunctionalModel, ...]:
    """The models of the tiers, over weights of the whole model."""
    return tuple(
        _within(self.model, tier, self._submodels.static(k))
        for k, tier in enumerate(self._submodels.tiers)
    )


def build_devices(
    task: task_lib.Task,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> Devices:
  """Returns the devices of a task's clients.

  Raises:
    ValueError: If tiers are drawn anew in every round, or the model has but one
      size.
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
      **{
          name: getattr(hyperparameters, name)
          for name in ('compare', 'vc', 'vc_of')
      },
  )


def _within(model, tier, kept) -> functional.FunctionalModel:
  """Returns a tier's model over weights of the whole model."""
  extracted = lambda weights: submodels.extract(model, weights, kept)
  return dataclasses.replace(
      model, takes_factors=False,
      penalty=model.penalty_by(
          lambda weights: tier.penalty(extracted(weights))
      ),
      predict=lambda weights, *rest: tier.predict(extracted(weights), *rest),
  )
