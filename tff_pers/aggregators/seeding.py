"""The randomness of aggregators comes from the run's seed.

An aggregator that draws something (the buckets of a robust rule, the messages
of an attack) keeps a key in its state, in a field `seed` (int64[2]), and folds
what it needs into it. TFF initializes aggregators without arguments: what
composes a method sets these keys afterwards.
"""

from typing import Any

import tensorflow as tf

from tff_pers.core import random

_USE = -5  # Keeps the keys apart from the other draws of a run.


def seed_state(state: Any, seed: tf.Tensor) -> Any:
  """Returns the state of an aggregator with every field `seed` set.

  Every key is another one, however deep in the state its field is: aggregators
  wrap each other. TFF's own random aggregators (noise, rotations) keep no such
  field; they draw from the operating system.

  Args:
    state: A structure of tensors.
    seed: Integer scalar, the run's seed.
  """
  used = []

  def visit(value, name):
    if isinstance(value, tf.Tensor):
      if name != 'seed' or value.dtype != tf.int64 or value.shape != [2]:
        return value
      used.append(name)
      return random.key(seed, _USE, len(used))
    # Before plain tuples: a named tuple is a tuple too, but its constructor
    # takes one argument per field.
    if hasattr(value, '_asdict'):
      fields = value._asdict()
      return type(value)(**{key: visit(v, key) for key, v in fields.items()})
    if hasattr(value, 'items'):
      return type(value)((key, visit(v, key)) for key, v in value.items())
    return type(value)(visit(item, '') for item in value)

  return visit(state, '')
