"""The default number of rounds for users' data."""

import math

_LEAST, _MOST = 100, 1000
# PERM trains as many models as there are clients, each at one client per round.
# This is the number of visits of every model to every client.
_PER_CLIENT = 5
# Passes of a client over its training data in a run.
_PASSES = 20


def number(
    num_clients: int, cohort_size: int, passes_per_round: float
) -> int:
  """Returns the default of `--rounds` for your own data, a multiple of 10.

      N / m * max(100, 5 N, 20 / passes), at most 1000

  where m of the N clients take part in a round and pass over their training
  data this many times, repeats included; 0 passes are unknown, and ignored. It
  is a round figure from runs on tables and writers, not an optimum;
  `--rounds=auto` uses validation data.
  """
  rounds: float = max(_LEAST, _PER_CLIENT * num_clients)
  if passes_per_round:
    rounds = max(rounds, _PASSES / passes_per_round)
  rounds *= num_clients / cohort_size
  return min(math.ceil(rounds / 10) * 10, _MOST)
