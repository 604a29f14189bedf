"""Each client's examples split into train and test."""

from typing import NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.data import errors
from tff_pers.data import partition


class Split(NamedTuple):
  """Row numbers of one client, each sorted."""

  train: np.ndarray
  test: np.ndarray


# The use of the data seed, see `partition.generator`. Both functions below can
# share it because a task calls only one of them.
_SPLIT = 1
MIN_REDUCED = 10


def split_clients(
    sizes: Sequence[int],
    seed: int,
    train_fraction: float,
    names: Optional[Sequence[str]] = None,
    where: str = '',
) -> list[Split]:
  """Returns a random split of every client's rows 0..size-1.

  Counts are rounded to the nearest; at least one training and one test example
  are kept, so `train_fraction=1` leaves one test example.

  Args:
    sizes: Number of examples of each client, >= 2.
    seed: The same seed gives the same split.
    train_fraction: Share of the examples to train on, in (0, 1].
    names: Clients' names for messages; None: their numbers.
    where: The file, for messages.

  Raises:
    ValueError: If the fraction is out of range.
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
    # Neither side may be empty: a client must train and be evaluated.
    num_train = int(np.clip(round(train_fraction * size), 1, size - 1))
    rows = np.split(rng.permutation(size), [num_train])
    splits.append(Split(*map(np.sort, rows)))
  return splits


def reduce_clients(
    sizes: Sequence[int], seed: int, train_fraction: float
) -> list[np.ndarray]:
  """Returns a random share of every client's training rows, each sorted.

  At least `MIN_REDUCED` rows are kept, or all there are: "reduced" data in
  papers/floral.md 5.2. `train_fraction=1` keeps all. Test sets stay whole.

  Args:
    sizes: Number of training examples of each client.
    seed: The same seed gives the same rows.
    train_fraction: Share to keep, in (0, 1].

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
