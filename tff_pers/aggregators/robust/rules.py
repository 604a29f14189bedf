"""Robust rules: options, and a function of the stacked messages.

Of n messages at most f = delta n are Byzantine. A rule is (delta, c)-robust if
E||rule - xbar||^2 <= c delta sigma^2, where xbar is the mean of the honest
messages and sigma^2 the mean squared distance of two of them.
"""

import dataclasses
from typing import ClassVar, Union

import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.numerics import robust

NOT_GIVEN = -1


@dataclasses.dataclass(frozen=True)
class Rule(hp.Options):
  """Base class of rules.

  Attributes:
    name: Name as users write it.
    is_random: Whether it makes random draws in a round.
    needs: Condition on n and f, in words.
    needs_f: Whether its result depends on f.
    f: The assumed number of Byzantine clients, -1: not given.
  """

  name: ClassVar[str] = ''
  is_random: ClassVar[bool] = False
  needs: ClassVar[str] = 'n > 2 f'
  needs_f: ClassVar[bool] = False

  f: int = hp.field(
      NOT_GIVEN, 'Assumed number of Byzantine clients; -1: not given.',
      minimum=NOT_GIVEN,
  )

  def __call__(self, x, num_byzantine, key):
    """Returns the combined messages, float[d].

    Args:
      x: float[n, d], finite.
      num_byzantine: f, an int or an int32 tensor.
      key: int64[2], key of this round.
    """
    raise NotImplementedError

  def is_possible(
      self, num_messages: Union[int, tf.Tensor],
      num_byzantine: Union[int, tf.Tensor],
  ) -> Union[bool, tf.Tensor]:
    """Returns whether there are enough messages; for ints or tensors."""
    return num_messages > 2 * num_byzantine


@dataclasses.dataclass(frozen=True)
class Mean(Rule):
  """The unweighted mean of all messages.

  Breakdown point 0: a single message moves it anywhere. Cost n d.
  """

  name: ClassVar[str] = 'mean'
  needs: ClassVar[str] = 'n > 0'

  def __call__(self, x, num_byzantine, key):
    return robust.mean(x)

  def is_possible(
      self, num_messages: Union[int, tf.Tensor],
      num_byzantine: Union[int, tf.Tensor],
  ) -> Union[bool, tf.Tensor]:
    return num_messages > 0


@dataclasses.dataclass(frozen=True)
class Median(Rule):
  """The median of every coordinate.

  Breakdown point 1/2. Cost n d log^2 n. Assumes that honest messages are alike:
  by itself it is not a (delta, c)-robust aggregator for heterogeneous messages,
  after bucketing it is, with delta < 1/2 and c = O(d).
  """

  name: ClassVar[str] = 'median'

  def __call__(self, x, num_byzantine, key):
    return robust.median(x)


@dataclasses.dataclass(frozen=True)
class TrimmedMean(Rule):
  """The mean of every coordinate without the f largest and the f smallest.

  Breakdown point f / n. Cost n d log^2 n. Measured: c below 2 for delta = 0.2
  and Gaussian messages, for all attacks of the tests.
  """

  name: ClassVar[str] = 'trimmed_mean'
  needs_f: ClassVar[bool] = True

  def __call__(self, x, num_byzantine, key):
    return robust.trimmed_mean(x, num_byzantine)


@dataclasses.dataclass(frozen=True)
class GeometricMedian(Rule):
  """The geometric median (RFA), by passes of Weiszfeld.

  Breakdown point 1/2. Cost n d per pass, n d log^2 n for the start, which is
  the coordinate-wise median. By itself it is not a (delta, c)-robust
  aggregator, after bucketing it is, with delta < 1/2 and c = O(1). Messages
  have equal weights, because a Byzantine client could claim many examples.
  There is no smoothing, with which the rule would become a mean once all
  messages are close; see `robust.geometric_median` for a pass at a message.
  """

  name: ClassVar[str] = 'geometric_median'

  passes: int = hp.field(8, 'Passes T.', minimum=1)

  def __call__(self, x, num_byzantine, key):
    return robust.geometric_median(x, passes=self.passes)


@dataclasses.dataclass(frozen=True)
class Krum(Rule):
  """The message with the nearest neighbours.

  Breakdown point (n - 3) / (2 n). Cost n^2 d, one matrix product. Assumes that
  honest messages are alike; after bucketing it is (delta, c)-robust with delta
  < 1/4 and c = O(1).
  """

  name: ClassVar[str] = 'krum'
  needs: ClassVar[str] = 'n > 2 f + 2'
  needs_f: ClassVar[bool] = True

  def __call__(self, x, num_byzantine, key):
    return robust.krum(x, num_byzantine)

  def is_possible(
      self, num_messages: Union[int, tf.Tensor],
      num_byzantine: Union[int, tf.Tensor],
  ) -> Union[bool, tf.Tensor]:
    return num_messages > 2 * num_byzantine + 2


@dataclasses.dataclass(frozen=True)
class MultiKrum(Krum):
  """The mean of the m messages with the nearest neighbours; see `Krum`.

  Scores are computed once. m = 1 is Krum, m = n with f = 0 the mean.
  """

  name: ClassVar[str] = 'multi_krum'
  needs: ClassVar[str] = 'n > 2 f + 2 and n - f >= m'

  m: int = hp.field(
      0, 'Number m of averaged messages, at most n - f; 0: n - f.', minimum=0
  )

  def __call__(self, x, num_byzantine, key):
    best = self.m or tf.shape(x)[0] - num_byzantine
    return robust.multi_krum(x, num_byzantine, best)

  def is_possible(
      self, num_messages: Union[int, tf.Tensor],
      num_byzantine: Union[int, tf.Tensor],
  ) -> Union[bool, tf.Tensor]:
    # Not `and`, which does not work for tensors.
    return (num_messages > 2 * num_byzantine + 2) & (
        num_messages - num_byzantine >= self.m
    )


@dataclasses.dataclass(frozen=True)
class CenteredClipping(Rule):
  """Moves a center by the mean of the clipped differences from it.

  Breakdown point 1/2. Cost n d per step, n d log^2 n for the start, which is
  the coordinate-wise median, recomputed in every round. The radius is the
  median distance from the center, recomputed in every step: a fixed one is
  (delta, c)-robust only if it is tied to sigma. A bias of the order f r / n
  remains.
  """

  name: ClassVar[str] = 'centered_clipping'

  steps: int = hp.field(3, 'Steps l.', minimum=1)
  radius: float = hp.field(
      0.0, 'Radius r; 0: the median distance.', minimum=0.0
  )

  def __call__(self, x, num_byzantine, key):
    return robust.centered_clipping(
        x, steps=self.steps, radius=self.radius or None
    )


@dataclasses.dataclass(frozen=True)
class Caf(Rule):
  """The mean after a filter of directions in which messages spread (CAF).

  Breakdown point f / n. Cost n^2 d, one matrix product, and n^3 for each of at
  most n passes. Needs no bound on the covariance of honest messages.
  """

  name: ClassVar[str] = 'caf'
  needs_f: ClassVar[bool] = True

  def __call__(self, x, num_byzantine, key):
    return robust.filtered_mean(x, num_byzantine)


RULES = (
    Mean, Median, TrimmedMean, GeometricMedian, Krum, MultiKrum,
    CenteredClipping, Caf,
)
