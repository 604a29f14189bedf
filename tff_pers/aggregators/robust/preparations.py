"""Preparations of messages before a rule, and their composition with rules."""

import dataclasses
from typing import ClassVar, Union

import tensorflow as tf

from tff_pers.aggregators.robust import rules
from tff_pers.config import hyperparameters as hp
from tff_pers.core import random
from tff_pers.numerics import robust


@dataclasses.dataclass(frozen=True)
class Preparation(hp.Options):
  """Base class of preparations.

  Attributes:
    name: Name as users write it.
    is_random: Whether it makes random draws in a round.
    f: The assumed number of Byzantine clients, -1: not given.
  """

  name: ClassVar[str] = ''
  is_random: ClassVar[bool] = False

  f: int = hp.field(
      rules.NOT_GIVEN, 'Assumed number of Byzantine clients; -1: not given.',
      minimum=rules.NOT_GIVEN,
  )

  @property
  def needs_f(self) -> bool:
    """Whether its result depends on f."""
    return False

  def __call__(self, x, num_byzantine, key):
    """Returns the prepared messages, float[m, d]; see `rules.Rule`."""
    raise NotImplementedError

  def num_left(
      self, num_messages: Union[int, tf.Tensor]
  ) -> Union[int, tf.Tensor]:
    """Returns m, the number left of n messages; for ints or tensors."""
    return num_messages

  def is_possible(
      self, num_messages: Union[int, tf.Tensor],
      num_byzantine: Union[int, tf.Tensor],
  ) -> Union[bool, tf.Tensor]:
    """Returns whether there are enough messages; for ints or tensors."""
    return num_messages > 2 * num_byzantine


@dataclasses.dataclass(frozen=True)
class NormClipping(Preparation):
  """Shortens long messages.

  Norms are measured from 0, so that updates may be clipped, but not models.
  With the mean it is not robust against many small perturbations (ALIE) or one
  large common direction. Cost n d.
  """

  name: ClassVar[str] = 'norm_clipping'

  radius: str = hp.field(
      'median',
      'Largest norm: a number, median (of all norms), or arc (leaves all but'
      ' the floor(2 f (n - f) / n) largest norms unchanged).',
  )

  def __post_init__(self):
    super().__post_init__()
    if self.radius not in ('median', 'arc') and not _is_positive(self.radius):
      raise ValueError(
          '`radius` must be a number > 0, median or arc, found'
          f' {self.radius!r}.'
      )

  @property
  def needs_f(self) -> bool:
    return self.radius == 'arc'

  def __call__(self, x, num_byzantine, key):
    if self.radius == 'median':
      bound = robust.median_norm(x)
    elif self.radius == 'arc':
      bound = robust.adaptive_norm(x, num_byzantine)
    else:
      bound = tf.constant(float(self.radius), x.dtype)
    return robust.clip_norms(x, bound)


@dataclasses.dataclass(frozen=True)
class Bucketing(Preparation):
  """Means of s random messages each, drawn in every round.

  At most f of the ceil(n / s) buckets hold a Byzantine message, so a rule faces
  the same f among fewer messages. Makes honest messages more alike. Cost n d.
  """

  name: ClassVar[str] = 'bucketing'
  is_random: ClassVar[bool] = True

  s: int = hp.field(2, 'Messages per bucket.', minimum=1)

  def __call__(self, x, num_byzantine, key):
    return robust.bucketing(x, self.s, key)

  def num_left(
      self, num_messages: Union[int, tf.Tensor]
  ) -> Union[int, tf.Tensor]:
    return -(-num_messages // self.s)


@dataclasses.dataclass(frozen=True)
class NearestNeighbourMixing(Preparation):
  """Replaces each message by the mean of the n - f nearest ones.

  Makes honest messages more alike without random draws. With f = 0 all become
  the mean. Cost n^2 d, one matrix product, + n^2 log n.
  """

  name: ClassVar[str] = 'nnm'

  @property
  def needs_f(self) -> bool:
    return True

  def __call__(self, x, num_byzantine, key):
    return robust.nearest_neighbour_mixing(x, num_byzantine)


def _is_positive(text: str) -> bool:
  try:
    return 0 < float(text) < float('inf')
  except ValueError:
    return False


PREPARATIONS = (NormClipping, Bucketing, NearestNeighbourMixing)


@dataclasses.dataclass(frozen=True)
class Composed:
  """A preparation and the rule after it, with one f for both; a rule itself.

  Attributes:
    first: The preparation.
    then: The rule that combines its results.
    f: The assumed number of Byzantine clients, -1: not given. It applies to
      both, whose own f are not given.
  """

  first: Preparation
  then: Union[rules.Rule, 'Composed']
  f: int = rules.NOT_GIVEN

  @property
  def name(self) -> str:
    """Name of the preparation."""
    return self.first.name

  @property
  def is_random(self) -> bool:
    """Whether either makes random draws in a round."""
    return self.first.is_random or self.then.is_random

  @property
  def needs_f(self) -> bool:
    """Whether the result of either depends on f."""
    return self.first.needs_f or self.then.needs_f

  @property
  def needs(self) -> str:
    """The rule's condition on n and f, in words."""
    if isinstance(self.first, Bucketing):
      return f'{self.then.needs}, n being the number of buckets'
    return self.then.needs

  def __call__(self, x, num_byzantine, key):
    prepared = self.first(x, num_byzantine, random.fold_in(key, 0))
    return self.then(prepared, num_byzantine, random.fold_in(key, 1))

  def is_possible(
      self, num_messages: Union[int, tf.Tensor],
      num_byzantine: Union[int, tf.Tensor],
  ) -> Union[bool, tf.Tensor]:
    """See `rules.Rule`."""
    # Not `and`, which does not work for tensors.
    return self.first.is_possible(
        num_messages, num_byzantine
    ) & self.then.is_possible(self.first.num_left(num_messages), num_byzantine)
