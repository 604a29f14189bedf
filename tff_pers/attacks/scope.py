"""The scope of an attack: what is built inside it is attacked.

    with attacks.carried_out(attack, task.byzantine):
      process = method.build(task, hyperparameters)

A program builds the method inside, since it alone knows who is Byzantine: no
method has to pass that on. Outside of a scope the functions here return what
they are given.
"""

import collections
import contextlib
import contextvars
import dataclasses
from typing import Any, Iterator, Mapping, Optional

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import structure
from tff_pers.attacks import aggregation
from tff_pers.attacks import attack as attack_lib
from tff_pers.attacks import labels
from tff_pers.client_works import client_work
from tff_pers.numerics import attacks_adaptive


@dataclasses.dataclass(frozen=True)
class _Threat:
  """The arguments of `carried_out`."""

  attack: attack_lib.Attack
  byzantine: Any
  num_classes: int
  rule: Any

  def is_byzantine(self, data):
    """Returns whether the client of dense data is Byzantine, bool."""
    return tf.gather(tf.constant(self.byzantine, tf.bool), data['index'])


_THREAT: contextvars.ContextVar[Optional[_Threat]] = contextvars.ContextVar(
    'threat', default=None
)


@contextlib.contextmanager
def carried_out(
    attack: Optional[attack_lib.Attack],
    byzantine: Optional[np.ndarray],
    *,
    num_classes: int = 0,
    rule: Any = attacks_adaptive.Mean(),
) -> Iterator[None]:
  """What is built inside is attacked by its Byzantine clients.

  Args:
    attack: See `attack.parse`; None and the attack `none` change nothing.
    byzantine: bool[N], who attacks, or None: nobody, and nothing changes.
    num_classes: C, for attacks that flip labels; 0: a regression.
    rule: The rule of the server, which the adaptive attack knows, see
      `attacks_adaptive.Rule`.
  """
  threat = None
  if not (byzantine is None or attack is None or attack == attack_lib.Attack()):
    threat = _Threat(attack, byzantine, num_classes, rule)
  token = _THREAT.set(threat)
  try:
    yield
  finally:
    _THREAT.reset(token)


def build_in(
    work: client_work.ClientWork, factory: structure.Factory
) -> tuple[Any, Any]:
  """Returns (work, factory) with the attack of the scope in both.

  Then a client works on `poisoned` data, its update is `tagged`, and the
  factory is `attacked`.

  Args:
    work: A client work over dense data.
    factory: What aggregates its updates.
  """
  if _THREAT.get() is None:
    return work, factory

  def update(message, client_state, data):
    output = work.update(message, client_state, poisoned(data))
    return output._replace(update=tagged(output.update, data))

  return client_work.ClientWork(update), attacked_in_scope(factory)


def poisoned(data: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns the data that a client trains on: attackers may flip labels.

  Args:
    data: Dense client data.
  """
  threat = _THREAT.get()
  if threat is None or not threat.attack.flips_labels:
    return data
  return labels.flipped_where(
      threat.is_byzantine(data), data, threat.num_classes
  )


def tagged(update: Any, data: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns `<update, byzantine, index>`, the value of an attacked factory.

  Args:
    update: What the client sends.
    data: Its dense data, for its index.
  """
  threat = _THREAT.get()
  if threat is None:
    return update
  return collections.OrderedDict(
      update=update, byzantine=threat.is_byzantine(data), index=data['index']
  )


def attacked_in_scope(factory: structure.Factory) -> structure.Factory:
  """Returns `factory` with the attack of the scope, see `attacked`.

  Args:
    factory: What aggregates the updates, weighted or not.
  """
  threat = _THREAT.get()
  if threat is None:
    return factory
  return aggregation.attacked(factory, threat.attack, threat.rule)
