"""The adaptive attack: searches the worst message against a known rule."""

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from tff_pers.attacks import attack
from tff_pers.numerics import attacks
from tff_pers.numerics import attacks_adaptive

_IPM_EPS = 10.0


@attack.register
@dataclasses.dataclass(frozen=True)
class Adaptive(attack.Attack):
  """The worst message against the rule of the server.

  Besides the search of `attacks_adaptive` it tries all honest messages, those
  of `alie`, `ipm` and `sign_flip`, and the honest message of each attacker on
  flipped labels. If the rule cannot give any result, it is -mu.
  """

  name: ClassVar[str] = 'adaptive'
  flips_labels: ClassVar[bool] = True
  is_omniscient: ClassVar[bool] = True

  def plan(
      self, memory: Any, seen: Any, key: tf.Tensor
  ) -> tuple[Any, Any]:
    honest, rule = seen.honest, seen.rule
    attackers = tf.shape(seen.own)[0]
    # The f that the rule was made with, or the number of the round.
    num_byzantine = attackers if rule.f < 0 else rule.f
    messages = tf.shape(honest)[0] + attackers
    possible = tf.reduce_all([
        tf.shape(honest)[0] > 0, attackers > 0,
        rule.is_possible(messages, num_byzantine),
    ])

    def search():
      return attacks_adaptive.search(
          honest, attackers, rule, num_byzantine, key, _others(seen)
      ).message

    return memory, tf.cond(
        possible, search, lambda: attacks.sign_flip(honest)
    )

  def message(
      self, own: Any, plan: Any, key: tf.Tensor, sender: attack.Sender
  ) -> tf.Tensor:
    return plan


def _others(seen: attack.Seen):
  """Returns float[k, d], further messages to try besides the search."""
  honest, attackers = seen.honest, tf.shape(seen.own)[0]
  z = attacks.alie_z(tf.shape(honest)[0] + attackers, attackers)
  made = tf.stack([
      attacks.alie(honest, z), attacks.ipm(honest, _IPM_EPS),
      attacks.sign_flip(honest),
  ])
  return tf.concat([honest, made, seen.own], axis=0)
