"""Derives the randomness of aggregators from the run's seed.

An aggregator with random draws (the buckets of a robust rule, the messages of
an attack) keeps a key in a field `seed` (int64[2]) of its state, and derives
its draws from it. TFF initializes aggregators without arguments, so the code
that composes a method sets these keys afterwards.
"""

from typing import Any

import tensorflow as tf

from tff_pers.core import random

_USE = -5  # Separates the keys from other draws of a run.


def seed_state(state: Any, seed: tf.Tensor) -> Any:
  """Returns the state of an aggregator with every field `seed` set.

  Every key is different, at any depth of the state, because aggregators wrap
  each other. TFF's own random aggregators (noise, rotations) have no such
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
