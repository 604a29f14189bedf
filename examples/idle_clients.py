"""Compares PERM's idle clients with the least that its rows allow.

    python -m examples.idle_clients label_shift iid   # default: all settings

A host trains one model per round. Let P[i, c] be the share of model i's visits
that its row gives to client c. If every model is visited r times per round,
client c is wanted r sum_i P[i, c] times, which is at most 1: no schedule that
visits by the rows and trains models alike has fewer idle clients than 1 - r,
r = 1 / max_c sum_i P[i, c]. If models may train differently, r_i of a linear
program maximizes the visits; that may leave models without any.

Prints the means over the seeds 3, 4 and 5, all with default flags: idle clients
per round of visits in a run of 110 rounds and both bounds (mean over rounds);
then, with the rows of the last round held fixed, idle clients per round of
the schedule in 600 rounds, and both bounds.
"""

import os
import sys
import tempfile
from typing import Any, Mapping, Sequence

import numpy as np
from scipy import optimize
import tensorflow as tf

from tff_pers.algorithms.perm import visit_schedule
from tff_pers.core import random
from tff_pers.data.tasks import digits
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.experiments import runner
from tff_pers.numerics import mixing_rows

SEEDS = (3, 4, 5)
# Clusters of clients that share a permutation of the labels.
CLUSTERS = {
    'unequal': [0] * 14 + [1] * 4 + [2] * 2,
    'loners': [0] * 7 + [1] * 7 + [2, 3, 4, 5, 6, 7],
}
SETTINGS: dict[str, Mapping[str, Any]] = {
    'label_shift': dict(partition='label_shift_clusters'),
    'rotated': dict(partition='rotated_clusters[order=blocks]'),
    'dirichlet': dict(partition='dirichlet[alpha=0.5]'),
    'iid': dict(partition='iid'),
    **{name: dict(task='npz', rounds=110) for name in CLUSTERS},
}


def write(path: str, clusters: Sequence[int], seed: int = 0) -> None:
  """Writes digits of one client for each of `clusters` as npz.

  Half of the rows are test rows; a client subtracts its mean image.
  """
  images, y = digits.load()
  x = images.reshape([len(y), -1])
  rng = np.random.default_rng(seed)
  order = rng.permutation(len(y))
  x, y = x[order], y[order]
  client, split = np.arange(len(y)) % len(clusters), np.zeros(len(y), np.int32)
  names = {cluster: rng.permutation(10) for cluster in sorted(set(clusters))}
  for number, cluster in enumerate(clusters):
    own = np.flatnonzero(client == number)
    y[own], x[own] = names[cluster][y[own]], x[own] - x[own].mean(axis=0)
    split[own[len(own) // 2:]] = 1
  np.savez(path, x=x, y=y, client=client, split=split)


def least_idle(visits: np.ndarray) -> tuple[float, float]:
  """Returns the least share of idle clients, if models train alike and if not.

  Args:
    visits: [N, N], how often model i visits client c in its epoch.
  """
  shares = visits / visits.sum(axis=1, keepdims=True)
  best = optimize.linprog(
      -np.ones(len(shares)), A_ub=shares.T, b_ub=np.ones(shares.shape[1]),
      bounds=(0, 1),
  )
  return 1 - 1 / shares.sum(axis=0).max(), 1 + best.fun / shares.shape[1]


def measure(given: Mapping[str, Any]) -> list[float]:
  """Returns the six columns of a run with these flags."""
  table = flags.all_flags(flags.own_flag('algo', 'perm', 'Method.'))
  experiment = experiment_lib.build(given, table)
  runner.use_runtime(experiment.flag, None)
  process = processes.build(experiment).process
  values = experiment.hyperparameters
  n = experiment.task.num_clients
  state, rows = process.initialize_seeded(experiment.flag('seed')), []
  for t in range(experiment.task.rounds):
    output = process.next(state, [()] * n, experiment.task.train)
    state = output['state']
    if t >= values.first_visit:
      visits = _visits(tf.constant(state['mixing']), values)
      idle = float(output['metrics']['visits_idle'])
      rows.append([idle, *least_idle(visits)])
  fixed = _idle_of_fixed(tf.constant(state['mixing']), values)
  return [*np.mean(rows, axis=0), fixed, *rows[-1][1:]]


def _visits(mixing, values) -> np.ndarray:
  counts = tf.reduce_sum(tf.cast(mixing > 0, tf.int32), axis=1, keepdims=True)
  return visit_schedule.visits_per_epoch(mixing, counts, values).numpy()


def _idle_of_fixed(mixing, values, num_rounds: int = 600) -> float:
  """Returns the share of idle clients in rounds with the same rows."""
  everybody = tf.ones([mixing_rows.MixingRows(mixing).num_clients], tf.bool)

  @tf.function
  def hosted(pending, t):
    return visit_schedule.matching_owners(
        pending, mixing, everybody, random.key(0, 0, t), values
    )

  pending = visit_schedule.no_pending_visits(values, mixing, True)
  for t in tf.range(num_rounds):
    pending = hosted(pending, t)['pending']
  return 1 - float(np.mean(pending['so_far'])) / num_rounds


def main(argv: Sequence[str]) -> None:
  """Prints a row of a table per setting."""
  print(
      '| setting | idle | least, alike | least | fixed rows: idle | least,'
      ' alike | least |\n|---|---|---|---|---|---|---|'
  )
  with tempfile.TemporaryDirectory() as folder:
    for name in argv[1:] or SETTINGS:
      given = dict(SETTINGS[name], algo='perm')
      if name in CLUSTERS:
        given['data_dir'] = os.path.join(folder, f'{name}.npz')
        write(given['data_dir'], CLUSTERS[name])
      values = [measure(dict(given, seed=seed)) for seed in SEEDS]
      cells = ' | '.join(f'{x:.3f}' for x in np.mean(values, axis=0))
      print(f'| {name} | {cells} |', flush=True)


if __name__ == '__main__':
  main(sys.argv)
