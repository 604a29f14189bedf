"""Tests of what is kept of the caller's values."""

import numpy as np

from tff_pers.runtime.fused.values import cache


def _arrays(count):
  return [np.zeros([2]) for _ in range(count)]


def test_is_for_the_same_objects_and_use():
  memory, values = cache.Cache(max_bytes=10), _arrays(2)
  memory.put('a', values, 'made', 4)
  assert memory.get('a', values) == 'made'
  assert memory.get('b', values) is None
  assert memory.get('a', values[::-1]) is None
  assert memory.get('a', values[:1]) is None


def test_is_void_when_one_of_the_values_is_gone():
  memory, values = cache.Cache(max_bytes=10), _arrays(2)
  memory.put('a', values, 'made', 10)
  del values[0]
  other = _arrays(1)
  memory.put('a', other, 'other', 10)  # There is room for it again.
  assert memory.get('a', other) == 'other'


def test_what_was_asked_for_longest_ago_goes_first():
  memory, values = cache.Cache(max_bytes=10), _arrays(4)
  for value in values[:2]:
    memory.put('a', [value], 'made', 5)
  assert memory.get('a', values[:1])
  memory.put('a', values[2:3], 'made', 5)
  memory.put('a', values[3:], 'made', 11)  # Larger than the memory.
  assert [bool(memory.get('a', [value])) for value in values] == [
      True, False, True, False
  ]


def test_the_same_twice_counts_once():
  memory, values = cache.Cache(max_bytes=10), _arrays(2)
  for made in ['first', 'second']:
    memory.put('a', values[:1], made, 5)
  memory.put('a', values[1:], 'other', 5)
  assert memory.get('a', values[:1]) == 'second'
  assert memory.get('a', values[1:]) == 'other'


def test_clear():
  memory, values = cache.Cache(max_bytes=10), _arrays(1)
  memory.put('a', values, 'made', 10)
  memory.clear()
  assert memory.get('a', values) is None
  memory.put('a', values, 'made', 10)
  assert memory.get('a', values) == 'made'
