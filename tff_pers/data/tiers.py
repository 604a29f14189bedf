"""Assigns clients' devices to tiers, which differ in capacity (FedHM).

See `models/factorized.py` for the paper.
"""

from typing import Callable, Optional

import numpy as np
import tensorflow as tf

from tff_pers.core import random

ASSIGNMENTS = ('fixed', 'dynamic')

# `(seed, round, index) -> int32`, TensorFlow scalars.
Assign = Callable[[object, object, object], object]

_TIER_USE = -3  # Folded into the key of a client's round.
_DEAL = 0  # The seed that assigns clients to fixed tiers.


def assign(
    num_clients: int,
    num_tiers: int,
    *,
    assignment: str = 'fixed',
    given: Optional[np.ndarray] = None,
) -> Assign:
  """Returns the function from (seed, round, client) to a tier.

  fixed: groups of equal size (up to one) for the whole run, from a shuffle that
  is the same in all runs, so that tiers do not correlate with anything that the
  order of clients means, such as clusters. dynamic: drawn uniformly for each
  client and round. A client beyond the `num_clients` has the tier index mod
  `num_tiers` if tiers are fixed. `given` are the known tiers of the clients,
  int32[N or more].

  Raises:
    ValueError: If given tiers would be drawn, or `num_tiers` is too small.
  """
  if assignment not in ASSIGNMENTS:
    raise ValueError(
        f'`tier_assignment` must be one of {", ".join(ASSIGNMENTS)}, found'
        f' {assignment!r}.'
    )
  if assignment == 'dynamic':
    if given is not None:
      raise ValueError(
          '`tier_assignment` must be fixed where the data say the tier of each'
          " client, found 'dynamic'."
      )
    return lambda seed, round_num, index: tf.random.stateless_uniform(
        [], random.key(seed, round_num, index, _TIER_USE), 0, num_tiers,
        tf.int32,
    )
  table = fixed(num_clients, num_tiers) if given is None else np.asarray(given)
  if table.size and not 0 <= table.min() <= table.max() < num_tiers:
    raise ValueError(
        f'`tiers` must be at least {int(table.max()) + 1}, as many as the data'
        f' have, found {num_tiers}.'
    )
  table = table.astype(np.int32)

  def of_client(seed, round_num, index):
    del seed, round_num  # The tier is fixed.
    known = tf.gather(table, tf.minimum(index, len(table) - 1))
    return tf.where(index < len(table), known, index % num_tiers)

  return of_client


def fixed(num_clients: int, num_tiers: int) -> np.ndarray:
  """Returns the tiers assigned to clients, int32[num_clients]."""
  shuffled = np.random.default_rng(_DEAL).permutation(num_clients)
  return (shuffled % num_tiers).astype(np.int32)
