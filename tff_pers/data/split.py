"""Splits each client's examples into train and test."""

import collections
from typing import Iterable, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.data import errors
from tff_pers.data import partition


class Split(NamedTuple):
  """Row numbers of one client, sorted."""

  train: np.ndarray
  test: np.ndarray


# Use number of the data seed, see `partition.generator`. Both functions below
# can share it because a task calls only one of them.
_SPLIT = 1
MIN_REDUCED = 10


def split_clients(
    sizes: Sequence[int],
    seed: int,
    train_fraction: float,
    names: Optional[Sequence[str]] = None,
    where: str = '',
    keys: Optional[Sequence[np.ndarray]] = None,
) -> list[Split]:
  """Returns a random split of every client's rows 0..size-1.

  With the keys of each client's rows, see `content_keys`, its split depends
  only on the seed and its rows, else also on its position among the clients.
  Counts are rounded to the nearest integer; at least one training and one test
  example are kept, so `train_fraction=1` leaves one test example. Messages have
  clients' names, or else their numbers, and the file `where`.

  Raises:
    ValueError: If the fraction is out of range, (0, 1].
    errors.DataError: If a client has fewer than 2 examples; names the client.
  """
  check_fraction(train_fraction)
  rng = partition.generator(seed, _SPLIT)
  splits = []
  for client, size in enumerate(sizes):
    if size < 2:
      name = names[client] if names is not None else client
      raise errors.DataError(
          f'{where + ": " if where else ""}client {name} must have at least 2'
          f' examples, one to train and one to test on, found {size}.'
      )
    # Neither part may be empty: a client must train and be evaluated.
    num_train = int(np.clip(round(train_fraction * size), 1, size - 1))
    order = (
        rng.permutation(size) if keys is None
        else drawn_order(keys[client], seed, _SPLIT)
    )
    rows = np.split(order, [num_train])
    splits.append(Split(*map(np.sort, rows)))
  return splits


def content_keys(columns: Iterable[np.ndarray]) -> np.ndarray:
  """Returns a key of every row that depends only on its values, uint64[n].

  There is at least one column, uint64[n].
  """
  keys: np.ndarray = np.zeros(1, np.uint64)
  for column in columns:
    keys = _mixed(keys + column)
  return keys


def drawn_order(keys: np.ndarray, seed: int, use: int) -> np.ndarray:
  """Returns the rows in random order, int64[n].

  With `content_keys` it does not depend on how the rows are sorted. For seed
  and use see `partition.generator`.
  """
  keys = keys.copy()
  # Equal rows would be adjacent, and all be in train or all in test.
  found: collections.Counter[int] = collections.Counter()
  for row, key in enumerate(keys.tolist()):
    keys[row] += np.uint64(found[key])
    found[key] += 1
  salt = partition.generator(seed, use).integers(2**64, size=1, dtype=np.uint64)
  return np.argsort(_mixed(keys ^ salt), kind='stable')


def _mixed(keys: np.ndarray) -> np.ndarray:
  """Returns mixed numbers, uint64[n], by the last step of SplitMix64."""
  for shift, factor in ((30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb)):
    keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
  return keys ^ (keys >> np.uint64(31))


def reduce_clients(
    sizes: Sequence[int], seed: int, train_fraction: float
) -> list[np.ndarray]:
  """Returns a random share of every client's training rows, each sorted.

  At least `MIN_REDUCED` rows are kept, if there are as many: "reduced" data in
  papers/floral.md 5.2. `train_fraction=1` keeps all. Test sets are unchanged.

  Raises:
    ValueError: If the fraction is out of range.
  """
  check_fraction(train_fraction)
  rng = partition.generator(seed, _SPLIT)
  kept = []
  for size in sizes:
    num_train = min(max(round(train_fraction * size), MIN_REDUCED), size)
    kept.append(np.sort(rng.permutation(size)[:num_train]))
  return kept


def check_fraction(train: float) -> None:
  """Raises a ValueError if the share to train on is out of range."""
  if not 0.0 < train <= 1.0:
    raise ValueError(f'`train_fraction` must be in (0, 1], found {train}.')
