"""Cohort samplers: which clients take part in which round.

A sampler is a pure function `(seed, round) -> indices`, int32 and ascending, so
that a resumed run draws the same cohorts.
"""

from typing import Callable, Sequence

import numpy as np

# (seed, round) -> int32[cohort size], ascending.
Sampler = Callable[[int, int], np.ndarray]

# First numbers of seed sequences: 2 belongs to held-out clients
# (`data/holdout.py`), 3 and 4 to events (`asynchrony`, `asynchrony_clocks`).
# Different kinds of draws must not share a number.
_COHORT = 1
_EVALUATED = 5


def uniform(num_clients: int, clients_per_round: int = 0) -> Sampler:
  """Returns a sampler of cohorts, uniform without replacement.

  Args:
    num_clients: Number N of clients to sample from.
    clients_per_round: Cohort size m; 0: all clients, in index order.

  Raises:
    ValueError: If the cohort size is not in 0..N.
  """
  if not 0 <= clients_per_round <= num_clients:
    raise ValueError(
        '`clients_per_round` must be >= 0 and <= the'
        f' {num_clients} clients that train, found {clients_per_round}.'
    )
  if clients_per_round in (0, num_clients):
    return lambda seed, round_num: np.arange(num_clients, dtype=np.int32)

  def sample(seed, round_num):
    generator = np.random.default_rng([_COHORT, seed, round_num])
    chosen = generator.choice(num_clients, clients_per_round, replace=False)
    return np.sort(chosen).astype(np.int32)

  return sample


def evaluated(honest: np.ndarray, number: int, seed: int) -> np.ndarray:
  """Returns the clients that a run evaluates, the same in every round, int[K].

  These are K = `number` of the honest clients that train, int[H], drawn without
  replacement. Both are ascending.

  Raises:
    ValueError: If `number` is not in 1..H.
  """
  if not 1 <= number <= len(honest):
    raise ValueError(
        f'`eval_clients` must be <= the {len(honest)} honest clients that'
        f' train, found {number}. Tip: 0 evaluates all of them.'
    )
  generator = np.random.default_rng([_EVALUATED, seed])
  return np.sort(generator.choice(honest, number, replace=False))


def fixed(schedule: Sequence[Sequence[int]]) -> Sampler:
  """Returns a sampler that repeats a schedule of cohorts, whatever the seed.

  The cohort of round t is entry t modulo the length of the schedule.

  Raises:
    ValueError: If the schedule or a cohort is empty, or names a client twice.
  """
  cohorts = [np.sort(np.asarray(entry, np.int32)) for entry in schedule]
  if not cohorts:
    raise ValueError('`schedule` must have at least one cohort, found none.')
  for position, entry in enumerate(cohorts):
    if not entry.size or len(np.unique(entry)) < entry.size:
      raise ValueError(
          '`schedule` must name distinct clients in every cohort, found'
          f' {entry.tolist()} at position {position}.'
      )
  return lambda seed, round_num: cohorts[round_num % len(cohorts)]
