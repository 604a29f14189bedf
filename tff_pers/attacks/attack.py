"""Base class of attacks, and attacks by name: `parse('ipm[eps=0.1]')`."""

import dataclasses
from typing import Any, ClassVar, NamedTuple, TypeVar

import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.config import registry
from tff_pers.data import brackets


class Seen(NamedTuple):
  """What omniscient attackers see in a round, before its rule draws anything.

  It contains only finite messages of clients that are present.

  Attributes:
    honest: float[h, d], the honest messages, flattened.
    indices: int32[h], their clients.
    own: float[f, d], the messages that attackers would send by the protocol.
    rule: The rule of the server, see `attacks_adaptive.Rule`.
  """

  honest: Any
  indices: Any
  own: Any
  rule: Any


class Sender(NamedTuple):
  """The attacker that sends a message.

  Attributes:
    client: int32, its index.
    place: float64 in (0, 1), its place among all attackers: (k + 1/2) / f for
      the k-th of f, counted from 0 in the order of their indices.
  """

  client: Any
  place: Any


@dataclasses.dataclass(frozen=True)
class Attack(hp.Options):
  """An attack; its fields are its options.

  The base class does nothing: attackers follow the protocol.

  Attributes:
    name: Name as users write it.
    flips_labels: Whether attackers train on flipped labels; if only some of
      them do, `flips` tells which.
    is_omniscient: Whether attackers see all messages. If so, `plan` gets them,
      and messages must have a known length.
    is_silent: Whether attackers send nothing; if only some, see `is_absent`.
  """

  name: ClassVar[str] = 'none'
  flips_labels: ClassVar[bool] = False
  is_omniscient: ClassVar[bool] = False
  is_silent: ClassVar[bool] = False

  def start(self, dim: Any, dtype: tf.DType) -> Any:
    """Returns the initial memory of attackers, a structure of tensors.

    Args:
      dim: d, or None if the length of messages is unknown.
      dtype: Dtype of messages.
    """
    del dim, dtype
    return ()

  def plan(
      self, memory: Any, seen: Any, key: tf.Tensor
  ) -> tuple[Any, Any]:
    """Returns (memory, plan), once per round for all attackers.

    Args:
      memory: Result of `start` or of the last round.
      seen: `Seen`; None without omniscience.
      key: int64[2], key of this round.

    Returns:
      The memory of attackers, and a structure of tensors that each attacker
      gets for its message.
    """
    del seen, key
    return memory, ()

  def flips(self, sender: Sender) -> Any:
    """Returns whether an attacker trains on flipped labels, a bool.

    Args:
      sender: The attacker.
    """
    del sender  # By default all do the same.
    return self.flips_labels

  def is_absent(self, sender: Sender) -> Any:
    """Returns whether an attacker sends nothing, a bool.

    Args:
      sender: The attacker.
    """
    del sender
    return self.is_silent

  def message(
      self, own: tf.Tensor, plan: Any, key: tf.Tensor, sender: Sender
  ) -> tf.Tensor:
    """Returns the message of one attacker, float[d].

    Args:
      own: float[d], its message by the protocol.
      plan: See `plan`.
      key: int64[2], key of this round and attacker.
      sender: Who sends it.
    """
    del plan, key, sender
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
  """Returns the attack that `name[option=value,...]` names.

  Args:
    text: The attack as users write it.

  Raises:
    ValueError: If there is no such attack, or an option is bad.
  """
  name, options = brackets.parse(text)
  return brackets.fill(_ATTACKS.get(name)(), options, f'the attack {name}')
