"""How many rounds suit data that nobody has looked at."""

import math

_LEAST, _MOST = 100, 1000
# PERM trains as many models as there are clients, one at each client in a
# round: so many visits of every model to every client, if it visits all.
_PER_CLIENT = 5
# Passes of a client over its training data.
_PASSES = 20


def number(
    num_clients: int, cohort_size: int, passes_per_round: float
) -> int:
  """Returns the default of `--rounds` for one's own data, a multiple of 10.

      N / m * max(100, 5 N, 20 / passes), at most 1000

  N clients of which m take part in a round, in which each of these goes so many
  times over its training data. It is a round figure from runs on tables and
  writers, no optimum; `--rounds=auto` asks validation data.

  Args:
    num_clients: N.
    cohort_size: m.
    passes_per_round: Examples that a client visits in a round, repeats
      included, by those it has; 0: not known, and left out.
  """
  rounds: float = max(_LEAST, _PER_CLIENT * num_clients)
  if passes_per_round:
    rounds = max(rounds, _PASSES / passes_per_round)
  rounds *= num_clients / cohort_size
  return min(math.ceil(rounds / 10) * 10, _MOST)
