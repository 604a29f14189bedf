"""Tests of the split of each client's examples."""

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import split


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=6),
    train=st.floats(0.01, 1.0),
    seed=st.integers(0, 1000),
)
def test_split_deals_out_all_rows_and_keeps_one_to_train_and_test(
    sizes, train, seed
):
  splits = split.split_clients(sizes, seed, train)
  for size, parts in zip(sizes, splits):
    rows = np.concatenate(parts)
    np.testing.assert_array_equal(np.sort(rows), np.arange(size))
    assert len(parts.train) >= 1 and len(parts.test) >= 1
    assert abs(len(parts.train) - train * size) <= 1


@pytest.mark.parametrize('size, train, counts', [
    (10, 0.56, [6, 4]), (36, 1.0, [35, 1]),
])
def test_split_has_rounded_counts_and_an_example_to_test_on(
    size, train, counts
):
  parts = split.split_clients([size], 0, train)[0]
  assert [len(rows) for rows in parts] == counts


def test_seed_decides_and_clients_differ():
  a, b = split.split_clients([30, 30], 0, 0.5)
  again, _ = split.split_clients([30, 30], 0, 0.5)
  other, _ = split.split_clients([30, 30], 1, 0.5)
  np.testing.assert_array_equal(a.train, again.train)
  assert a.train.tolist() != other.train.tolist()
  assert a.train.tolist() != b.train.tolist()


def _contents(rows, seed=0, use=1):
  """Returns rows of numbers in the order in which they are drawn."""
  columns = np.asarray(rows, np.uint64).T
  order = split.drawn_order(split.content_keys(columns), seed, use)
  return np.asarray(rows)[order].tolist()


def test_contents_are_drawn_however_rows_are_sorted():
  rows = [[row % 7, row // 7] for row in range(40)]
  drawn = _contents(rows)
  assert drawn == _contents(rows[::-1]) and drawn != rows
  assert drawn not in (_contents(rows, seed=1), _contents(rows, use=2))
  assert sorted(drawn) == sorted(rows)
  # Columns differ, and so do equal rows.
  assert drawn != [row[::-1] for row in _contents([row[::-1] for row in rows])]
  twice = _contents([[0], [1]] * 50)
  assert 15 < sum(value for [value] in twice[:50]) < 35


def test_keys_take_the_place_of_positions():
  keys = split.content_keys([np.arange(60, dtype=np.uint64)])
  sizes, parts = [30, 30], [keys[:30], keys[30:]]
  one = split.split_clients(sizes, 3, 0.8, keys=parts)
  two = split.split_clients(sizes, 3, 0.8, keys=parts[::-1])[::-1]
  for a, b in zip(one, two):
    np.testing.assert_array_equal(a.test, b.test)
    assert len(a.test) == 6


@pytest.mark.parametrize('size', [0, 1])
def test_raises_on_client_with_too_few_examples(size):
  with pytest.raises(
      errors.DataError,
      match=f'f.npz: client anna must have at least 2 .* found {size}',
  ):
    split.split_clients([5, size], 0, 0.5, names=['bob', 'anna'], where='f.npz')
  with pytest.raises(errors.DataError, match='^client 1 must'):
    split.split_clients([5, size], 0, 0.5)


@pytest.mark.parametrize('train', [0.0, -0.1, 1.1, float('nan')])
def test_raises_on_train_fraction_out_of_range(train):
  with pytest.raises(ValueError, match=r'`train_fraction` must be in \(0, 1\]'):
    split.split_clients([5], 0, train)
