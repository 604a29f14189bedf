"""Chooses the clients that never train; nothing is fitted to their data."""

from typing import Optional

import numpy as np

from tff_pers.data import split

# First number of a seed sequence; 1 belongs to cohorts
# (`simulation/cohort.py`), and different kinds of draws must not share numbers.
_HOLDOUT = 2


def choose(
    num_clients: int, num_held_out: int, seed: int,
    keys: Optional[np.ndarray] = None,
) -> np.ndarray:
  """Returns the clients that never train, int32 and ascending.

  With keys, uint64[N], the choice depends on these instead of the clients'
  positions.

  Raises:
    ValueError: If not at least one client remains to train.
  """
  if not 0 <= num_held_out < num_clients:
    raise ValueError(
        f'`holdout_clients` must be >= 0 and < the {num_clients} clients of the'
        f' task, found {num_held_out}.'
    )
  if keys is not None:
    chosen = split.drawn_order(keys, seed, _HOLDOUT)[:num_held_out]
  else:
    generator = np.random.default_rng([_HOLDOUT, seed])
    chosen = generator.choice(num_clients, num_held_out, replace=False)
  return np.sort(chosen).astype(np.int32)
