"""The scope of an attack: methods built inside it are attacked.

    with attacks.carried_out(attack, task.byzantine):
      process = method.build(task, hyperparameters)

A program builds the method inside the scope, because only the program knows who
is Byzantine: methods neither pass this on nor import this module.
"""

import collections
import contextlib
import dataclasses
from typing import Any, ContextManager, Optional

import numpy as np
import tensorflow as tf

from tff_pers.attacks import aggregation
from tff_pers.attacks import attack as attack_lib
from tff_pers.attacks import labels
from tff_pers.core import interception
from tff_pers.numerics import attacks_adaptive


@dataclasses.dataclass(frozen=True)
class _Threat(interception.Change):
  """The attack on methods being built: the arguments of `carried_out`."""

  attack: attack_lib.Attack
  byzantine: Any
  num_classes: int
  rule: Any
  window: int

  def _is_byzantine(self, data):
    """Returns whether the client of dense data is Byzantine, bool."""
    return tf.gather(tf.constant(self.byzantine, tf.bool), data['index'])

  def _place(self, data):
    """Returns the place of this client among attackers, see `Sender`."""
    number = np.cumsum(self.byzantine)  # k + 1 for the k-th attacker.
    return tf.gather(
        tf.constant((number - 0.5) / max(number[-1], 1), tf.float64),
        data['index'],
    )

  def data(self, data):
    """Returns data whose labels attackers may flip."""
    if not self.attack.flips_labels:
      return data
    sender = attack_lib.Sender(data['index'], self._place(data))
    flips = tf.logical_and(
        self._is_byzantine(data), self.attack.flips(sender)
    )
    return labels.flipped_where(flips, data, self.num_classes)

  def update(self, update, data):
    """Returns a value of an attacked factory, see `aggregation.attacked`."""
    return collections.OrderedDict(
        update=update, byzantine=self._is_byzantine(data), index=data['index'],
        place=self._place(data),
    )

  def aggregator(self, factory):
    """See `aggregation.attacked`."""
    return aggregation.attacked(
        factory, self.attack, self.rule, self.window
    )


def carried_out(
    attack: Optional[attack_lib.Attack],
    byzantine: Optional[np.ndarray],
    *,
    num_classes: int = 0,
    rule: Any = attacks_adaptive.Mean(),
    window: int = 0,
) -> ContextManager[None]:
  """Within the context, built methods are attacked by Byzantine clients.

  Args:
    attack: See `attack.parse`; None and the attack `none` change nothing.
    byzantine: bool[N], the attackers, or None: there are none.
    num_classes: C, for attacks that flip labels; 0: a regression.
    rule: The rule of the server, which the adaptive attack knows, see
      `attacks_adaptive.Rule`.
    window: Number of messages that attackers see, see `aggregation.attacked`.

  Returns:
    A context manager.
  """
  if byzantine is None or attack is None or attack == attack_lib.Attack():
    return contextlib.nullcontext()
  return interception.changing(_Threat(
      attack, byzantine, num_classes, rule, window
  ))
