"""What an attack is, and attacks by name: `parse('ipm[eps=0.1]')`."""

import dataclasses
from typing import Any, ClassVar, NamedTuple, TypeVar

import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.config import registry
from tff_pers.data import brackets


class Seen(NamedTuple):
  """What omniscient attackers see of a round, before its rule draws anything.

  Only finite messages of clients that are present are here.

  Attributes:
    honest: float[h, d], the honest messages, flattened.
    indices: int32[h], whose they are.
    own: float[f, d], what the attackers themselves would send.
    rule: The rule of the server, see `attacks_adaptive.Rule`.
  """

  honest: Any
  indices: Any
  own: Any
  rule: Any


@dataclasses.dataclass(frozen=True)
class Attack:
  """An attack; its fields are its options.

  This one does nothing: attackers follow the protocol.

  Attributes:
    name: As users write it.
    flips_labels: Whether attackers train on flipped labels.
    is_omniscient: Whether attackers see the messages of all. If so, `plan` gets
      them, and messages must have a length that is known.
    is_silent: Whether attackers send nothing.
  """

  name: ClassVar[str] = 'none'
  flips_labels: ClassVar[bool] = False
  is_omniscient: ClassVar[bool] = False
  is_silent: ClassVar[bool] = False

  def __post_init__(self):
    hp.validate(self)

  def start(self, dim: Any, dtype: tf.DType) -> Any:
    """Returns what attackers remember at first, a structure of tensors.

    Args:
      dim: d, or None if messages have no known length.
      dtype: Of messages.
    """
    del dim, dtype
    return ()

  def plan(
      self, memory: Any, seen: Any, key: tf.Tensor
  ) -> tuple[Any, Any]:
    """Returns (memory, plan), once per round for all attackers.

    Args:
      memory: What `start` or the last round returned.
      seen: `Seen`; None without omniscience.
      key: int64[2], of this round.

    Returns:
      What attackers remember, and a structure of tensors that each of them gets
      for its message.
    """
    del seen, key
    return memory, ()

  def message(self, own: tf.Tensor, plan: Any, key: tf.Tensor) -> tf.Tensor:
    """Returns what one attacker sends, float[d].

    Args:
      own: float[d], its message by the protocol.
      plan: See `plan`.
      key: int64[2], of this round and attacker.
    """
    del plan, key
    return own


_Attack = TypeVar('_Attack', bound=Attack)
_ATTACKS: registry.Registry[type[Attack]] = registry.Registry('attack')


def register(attack: type[_Attack]) -> type[_Attack]:
  """Registers a class of attacks under its name."""
  return _ATTACKS.register(attack.name, lambda decorated: decorated)(attack)


register(Attack)


def names() -> list[str]:
  """Returns the names of all attacks, sorted."""
  return _ATTACKS.names()


def parse(text: str) -> Attack:
  """Returns the attack that `name[option=value,...]` means.

  Args:
    text: As users write it.

  Raises:
    ValueError: If there is none of that name, or an option is wrong.
  """
  name, options = brackets.parse(text)
  return brackets.fill(_ATTACKS.get(name)(), options, f'the attack {name}')
