"""Keys in the states of aggregators."""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import seeding


def _state():
  key = lambda: tf.zeros([2], tf.int64)
  return collections.OrderedDict(
      seed=key(),
      inner=(collections.OrderedDict(seed=key(), norm=tf.constant(1.0)),),
      other=key(),
      scalar=collections.OrderedDict(seed=tf.constant(3)),
  )


def test_every_key_is_set_and_is_another_one():
  state = seeding.seed_state(_state(), 7)
  first, second = state['seed'], state['inner'][0]['seed']
  assert np.any(first != second) and np.any(first != 0)
  tf.nest.assert_same_structure(state, _state())


def test_nothing_else_changes():
  state = seeding.seed_state(_state(), 7)
  assert state['inner'][0]['norm'] == 1.0
  np.testing.assert_array_equal(state['other'], [0, 0])
  assert state['scalar']['seed'] == 3  # No key: not int64[2].


def test_keys_are_a_function_of_the_seed():
  one, same, other = (
      seeding.seed_state(_state(), seed)['seed'].numpy() for seed in (7, 7, 8)
  )
  np.testing.assert_array_equal(one, same)
  assert np.any(one != other)


def test_empty_states_pass():
  assert seeding.seed_state((), 7) == ()
