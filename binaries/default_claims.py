"""Checks the claims of `benchmark_defaults` about a setting."""

import os
import re
from typing import Any, Sequence

import numpy as np

from binaries import default_settings
from tff_pers.evaluation import results
from tff_pers.experiments import orderings


def check(name: str, folder: str) -> list[dict[str, Any]]:
  """Returns a row of `orderings.COLUMNS` per claim of a setting.

  Args:
    name: The setting.
    folder: What `compare` wrote.
  """
  setting = default_settings.SETTINGS[name]
  rows = [
      row for claim in setting.claims for row in orderings.check(
          folder, claim.expect, metric=claim.metric, in_seeds=claim.in_seeds
      )
  ]
  runs = results.find_runs(folder)
  of_perm = [
      path for path in runs if results.read_config(path)['variant'] == 'perm'
  ]
  if setting.visits:
    rows += [
        _counted('no NaN in a round', [_has_nan(path) for path in runs]),
        _counted(
            'no round of visits without one',
            [_has_idle_round(path) for path in of_perm],
        ),
    ]
  if setting.new_clients is not None:
    rows.append(_near(of_perm, setting.new_clients))
  return rows


def _counted(claim: str, fails: Sequence[bool]) -> dict[str, Any]:
  """Returns the row of a fault that no run may have."""
  good = len(fails) - sum(fails)
  return dict(
      claim=claim, left='', right='', seeds=f'{good} of {len(fails)}',
      holds='yes' if fails and not any(fails) else 'no',
  )


def _has_nan(path: str) -> bool:
  """Whether a metric of a run's rounds, or its log, has a NaN."""
  cells = [
      cell for row in results.read_rows(path, results.METRICS)
      for cell in row.values()
  ]
  with open(os.path.join(path, 'train.log'), encoding='utf-8') as file:
    return 'nan' in cells or bool(re.search(r'\bnan\b', file.read()))


def _has_idle_round(path: str) -> bool:
  """Whether a round since A was first solved for had no visit.

  Rounds that `metrics.csv` lacks, and runs without any round, count as such.
  """
  metrics = results.read_run(path).metrics
  begun = np.flatnonzero(metrics.get('lambda', np.zeros(0)) > 0)
  if not begun.size:
    return True
  is_each_there = np.all(np.diff(metrics['round']) == 1)
  return not is_each_there or bool(
      np.any(metrics['visits_idle'][begun[0]:] >= 1)
  )


def _near(runs: Sequence[str], margin: float) -> dict[str, Any]:
  """Returns the row that compares new clients to those that trained."""
  pairs = np.array([_accuracies(path) for path in runs])
  trained, new = np.mean(pairs, axis=0)
  good = int(np.sum(pairs[:, 0] - margin <= pairs[:, 1]))
  return dict(
      claim=f'trained clients-{margin}<=new clients',
      left=f'{trained - margin:.4g}', right=f'{new:.4g}',
      seeds=f'{good} of {len(pairs)}',
      # A diverged run has NaN, and no comparison with NaN holds.
      holds='yes' if trained - margin <= new else 'no',
  )


def _accuracies(path: str) -> list[float]:
  """Returns the mean accuracies of clients that trained, and of new ones."""
  clients = results.read_clients(path)
  if clients is None:  # A diverged run has no clients.csv.
    return [np.nan, np.nan]
  return [
      float(np.mean(clients['accuracy'][clients['seen'] == seen]))
      for seen in (1, 0)
  ]
