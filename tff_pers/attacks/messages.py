"""Attacks on the messages that clients send.

mu and std are the mean and the standard deviation of the honest messages of the
round. For sources see partial personalization 3.4 and baselines 10.
"""

import collections
import dataclasses
from typing import Any, ClassVar, Union

import numpy as np
import tensorflow as tf

from tff_pers.attacks import attack
from tff_pers.config import hyperparameters as hp
from tff_pers.numerics import attacks
from tff_pers.numerics import attacks_mimic


@attack.register
@dataclasses.dataclass(frozen=True)
class BitFlip(attack.Attack):
  """-kappa times the attacker's own message."""

  name: ClassVar[str] = 'bit_flip'
  kappa: float = hp.field(1.0, 'Factor of the flipped message.', above=0.0)

  def message(
      self, own: tf.Tensor, plan: Any, key: tf.Tensor, sender: attack.Sender
  ) -> tf.Tensor:
    return -tf.constant(self.kappa, own.dtype) * own


@attack.register
@dataclasses.dataclass(frozen=True)
class LabelFlip(attack.Attack):
  """Honest work on flipped labels, see `labels`."""

  name: ClassVar[str] = 'label_flip'
  flips_labels: ClassVar[bool] = True


@attack.register
@dataclasses.dataclass(frozen=True)
class Nan(attack.Attack):
  """NaN everywhere."""

  name: ClassVar[str] = 'nan'

  def message(
      self, own: tf.Tensor, plan: Any, key: tf.Tensor, sender: attack.Sender
  ) -> tf.Tensor:
    return tf.fill(tf.shape(own), tf.constant(np.nan, own.dtype))


@attack.register
@dataclasses.dataclass(frozen=True)
class Inf(attack.Attack):
  """Infinity everywhere."""

  name: ClassVar[str] = 'inf'

  def message(
      self, own: tf.Tensor, plan: Any, key: tf.Tensor, sender: attack.Sender
  ) -> tf.Tensor:
    return tf.fill(tf.shape(own), tf.constant(np.inf, own.dtype))


@attack.register
@dataclasses.dataclass(frozen=True)
class Huge(attack.Attack):
  """A huge but finite number everywhere, which ruins a plain mean."""

  name: ClassVar[str] = 'huge'
  value: float = hp.field(
      1e30, 'The number; the largest float32 is 3.4e38.', above=0.0
  )

  def message(
      self, own: tf.Tensor, plan: Any, key: tf.Tensor, sender: attack.Sender
  ) -> tf.Tensor:
    return tf.fill(tf.shape(own), tf.constant(self.value, own.dtype))


@attack.register
@dataclasses.dataclass(frozen=True)
class Silent(attack.Attack):
  """Sends nothing."""

  name: ClassVar[str] = 'silent'
  is_silent: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class _Common(attack.Attack):
  """An attack in which all attackers send the same message."""

  is_omniscient: ClassVar[bool] = True

  def message(self, own, plan, key, sender):
    return plan

  def plan(self, memory, seen, key):
    return memory, self.vector(seen)

  def vector(self, seen: attack.Seen):
    """Returns the message, float[d]."""
    raise NotImplementedError


@attack.register
@dataclasses.dataclass(frozen=True)
class SignFlip(_Common):
  """-mu."""

  name: ClassVar[str] = 'sign_flip'

  def vector(self, seen: attack.Seen) -> tf.Tensor:
    return attacks.sign_flip(seen.honest)


@attack.register
@dataclasses.dataclass(frozen=True)
class Ipm(_Common):
  """-eps mu: inner product manipulation."""

  name: ClassVar[str] = 'ipm'
  eps: float = hp.field(10.0, 'Factor of the mean.', above=0.0)

  def vector(self, seen: attack.Seen) -> tf.Tensor:
    return attacks.ipm(seen.honest, tf.constant(self.eps, seen.honest.dtype))


@attack.register
@dataclasses.dataclass(frozen=True)
class Alie(_Common):
  """mu - z std: a little is enough."""

  name: ClassVar[str] = 'alie'
  z: Union[float, str] = hp.field(
      'auto', 'Number of standard deviations from the mean; auto: from the'
      ' numbers of honest and Byzantine messages of the round.', auto=True,
  )

  def vector(self, seen: attack.Seen) -> tf.Tensor:
    if self.z != 'auto':
      return attacks.alie(seen.honest, tf.constant(self.z, seen.honest.dtype))
    honest, byzantine = (tf.shape(x)[0] for x in (seen.honest, seen.own))
    return attacks.alie(
        seen.honest, attacks.alie_z(honest + byzantine, byzantine)
    )


@attack.register
@dataclasses.dataclass(frozen=True)
class Noise(attack.Attack):
  """Normal noise, independent for each attacker."""

  name: ClassVar[str] = 'noise'
  std: float = hp.field(
      0.0, 'Standard deviation of every coordinate; 0: use scale instead.',
      minimum=0.0,
  )
  scale: float = hp.field(
      10.0, 'Standard deviation in units of that of the honest messages (root'
      ' mean square over coordinates).', above=0.0, when='std=0',
  )

  # For other attacks it is a class attribute.
  @property
  def is_omniscient(self) -> bool:  # type: ignore[override]
    """Whether the scale is that of the honest messages."""
    return not self.std

  def plan(
      self, memory: Any, seen: Any, key: tf.Tensor
  ) -> tuple[Any, Any]:
    if self.std:
      return memory, ()
    scale = tf.constant(self.scale, seen.honest.dtype)
    return memory, attacks.noise_scale(seen.honest, scale)

  def message(
      self, own: tf.Tensor, plan: Any, key: tf.Tensor, sender: attack.Sender
  ) -> tf.Tensor:
    sigma = tf.constant(self.std, own.dtype) if self.std else plan
    drawn = tf.random.stateless_normal(tf.shape(own), key, dtype=own.dtype)
    return sigma * drawn


@attack.register
@dataclasses.dataclass(frozen=True)
class Mimic(_Common):
  """A copy of one honest message, bit for bit.

  Without warm-up it copies the present honest client of smallest index. With
  warm-up, it copies the client that is farthest in the direction of the largest
  variance in the first rounds; if this client is absent, the farthest one of
  the cohort.
  """

  name: ClassVar[str] = 'mimic'
  warmup: int = hp.field(
      0, 'T_w: rounds to find the client to copy; 0: a fixed client.',
      minimum=0,
  )

  def start(self, dim: Any, dtype: tf.DType) -> Any:
    if not self.warmup:
      return ()
    return collections.OrderedDict(
        attacks_mimic.start(dim, dtype)._asdict()
    )

  def plan(
      self, memory: Any, seen: Any, key: tf.Tensor
  ) -> tuple[Any, Any]:
    if not self.warmup:
      return memory, attacks_mimic.follow_first(seen.honest, seen.indices)
    known = attacks_mimic.update(
        attacks_mimic.Direction(**memory), seen.honest, seen.indices, key,
        self.warmup,
    )
    copied = attacks_mimic.follow(known, seen.honest, seen.indices)
    return collections.OrderedDict(known._asdict()), copied
