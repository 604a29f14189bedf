"""FedHM where the server joins rounds without a client of full rank.

    python -m tests.algorithms.fedhm.server_joins FILE.csv

writes the table of docs/fedhm.md in two minutes: accuracies of the full model on
the digits after 60 rounds, three seeds. In the code of the authors the server's
own model is one of full rank that arrives in such a round; the library averages
what clients send.
"""

import sys

import numpy as np

from tff_pers.core import random
from tff_pers.data import tiers
from tff_pers.evaluation import results
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.runtime import fused
from tff_pers.simulation import cohort

_TABLE = flags.all_flags(flags.own_flag('algo', '', ''))
_CLIENTS, _ROUNDS, _SEEDS = 20, 60, (0, 1, 2)
_COLUMNS = (
    'digits', 'clients of a round', 'rounds without full rank', 'as they arrive',
    'with the server',
)


def accuracies(partition: str, per_round: int, seed: int) -> tuple[int, list]:
  """Returns the number of such rounds, and both accuracies."""
  built = experiment.build(
      dict(
          algo='fedhm', task='digits', model='mlp', partition=partition,
          num_clients=_CLIENTS, clients_per_round=per_round, seed=seed,
      ),
      _TABLE,
  )
  task = built.task
  tiered = built.hyperparameters.tiered(task.model, task.rank_ratios)
  is_full = tiers.fixed(_CLIENTS, len(tiered.ratios)) == 0
  cohorts = [
      cohort.uniform(_CLIENTS, per_round)(seed, t) for t in range(_ROUNDS)
  ]
  process = built.method.build(task, built.hyperparameters)
  found = []
  for joins in (False, True):
    state = process.initialize_seeded(seed)
    for clients in cohorts:
      before = state['weights']
      state = process.next(
          state, [()] * per_round, [task.train[i] for i in clients]
      )['state']
      if joins and not is_full[clients].any():
        weights = tuple(
            (per_round * mean + own) / (per_round + 1)
            for mean, own in zip(state['weights'], before)
        )
        key = random.key(seed, state['round'])
        state.update(
            weights=weights, factors=tiered.decompose(weights, key)
        )
    data = [process.evaluate_global(state, one)['1'] for one in task.test]
    rows = [one['num_examples'] for one in data]
    found.append(np.average([one['accuracy'] for one in data], weights=rows))
  return sum(not is_full[clients].any() for clients in cohorts), found


def main(path: str) -> None:
  fused.use()
  rows = []
  for name, partition in (
      ('IID', 'iid'), ('Dirichlet(0.5)', 'dirichlet[alpha=0.5]')
  ):
    for per_round in (10, 4):
      numbers, found = zip(*(
          accuracies(partition, per_round, seed) for seed in _SEEDS
      ))
      shown = [
          f'{np.mean(column):.3f} ± {np.std(column, ddof=1):.3f}'
          for column in zip(*found)
      ]
      rows.append(dict(zip(_COLUMNS, (
          name, per_round, ', '.join(map(str, numbers)), *shown
      ))))
  results.write_csv(path, _COLUMNS, rows)


if __name__ == '__main__':
  main(*sys.argv[1:])
