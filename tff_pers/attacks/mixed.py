"""The compound attack: some attackers make one attack, the others another."""

import collections
import dataclasses
from typing import Any, Callable, ClassVar

import tensorflow as tf

from tff_pers.attacks import attack
from tff_pers.config import hyperparameters as hp


@attack.register
@dataclasses.dataclass(frozen=True)
class Mixed(attack.Attack):
  """The first `share` of all attackers make one attack, the others another.

    mixed[first=alie,second=ipm[eps=5],share=0.4]

  An attacker keeps its part in all rounds: the k-th of f, counted from 0 in the
  order of the clients, makes the first attack if (k + 1/2) / f < share. Both
  attacks see the same messages, also those of all attackers by the protocol.
  """

  name: ClassVar[str] = 'mixed'
  first: str = hp.field(
      'alie', 'Attack of the first attackers in the order of the clients.'
  )
  second: str = hp.field('ipm', 'Attack of the others.')
  share: float = hp.field(
      0.5, 'Share of the attackers that make the first attack.', above=0.0,
      below=1.0,
  )

  def __post_init__(self):
    super().__post_init__()
    self._parts()

  def _parts(self) -> dict[str, attack.Attack]:
    return dict(
        first=attack.parse(self.first), second=attack.parse(self.second)
    )

  # For other attacks these are class attributes.
  @property
  def flips_labels(self) -> bool:  # type: ignore[override]
    """Whether some attackers train on flipped labels."""
    return any(part.flips_labels for part in self._parts().values())

  @property
  def is_omniscient(self) -> bool:  # type: ignore[override]
    """Whether some attackers see all messages."""
    return any(part.is_omniscient for part in self._parts().values())

  @property
  def is_silent(self) -> bool:  # type: ignore[override]
    """Whether some attackers send nothing."""
    return any(part.is_silent for part in self._parts().values())

  def flips(self, sender: attack.Sender) -> tf.Tensor:
    return self._of_part(sender, lambda _, part, sender: part.flips(sender))

  def is_absent(self, sender: attack.Sender) -> tf.Tensor:
    return self._of_part(sender, lambda _, part, sender: part.is_absent(sender))

  def start(self, dim: Any, dtype: tf.DType) -> Any:
    return collections.OrderedDict(
        (name, part.start(dim, dtype)) for name, part in self._parts().items()
    )

  def plan(
      self, memory: Any, seen: Any, key: tf.Tensor
  ) -> tuple[Any, Any]:
    memories, plans = collections.OrderedDict(), collections.OrderedDict()
    for name, part in self._parts().items():
      memories[name], plans[name] = part.plan(memory[name], seen, key)
    return memories, plans

  def message(
      self, own: tf.Tensor, plan: Any, key: tf.Tensor, sender: attack.Sender
  ) -> tf.Tensor:
    return self._of_part(
        sender,
        lambda name, part, sender: part.message(own, plan[name], key, sender),
    )

  def _of_part(
      self, sender: attack.Sender,
      function: Callable[[str, attack.Attack, attack.Sender], Any],
  ) -> tf.Tensor:
    """Returns `function(name, part, sender)` of the part of the sender.

    The sender's place is that among those who make the same part.
    """
    parts, end = self._parts(), self.share
    first = sender._replace(place=sender.place / end)
    second = sender._replace(place=(sender.place - end) / (1.0 - end))
    return tf.where(
        sender.place < end, function('first', parts['first'], first),
        function('second', parts['second'], second),
    )
