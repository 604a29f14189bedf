"""Which clients never train: what is fitted to data must not see theirs."""

from typing import Optional

import numpy as np

from tff_pers.data import split

# First number of a seed; 1 is that of cohorts (`simulation/cohort.py`), and the
# two kinds of draws must not share their numbers.
_HOLDOUT = 2


def choose(
    num_clients: int, num_held_out: int, seed: int,
    keys: Optional[np.ndarray] = None,
) -> np.ndarray:
  """Returns which clients never train, int32 and ascending.

  Args:
    num_clients: N.
    num_held_out: How many.
    seed: The run's seed.
    keys: uint64[N], numbers of the clients that hang on their rows alone: so
      does the choice. None: it hangs on their places.

  Raises:
    ValueError: If not at least one client is left to train.
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
