"""Tables that compare variants of methods over seeds."""

import math
import os
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tff_pers.evaluation import results
from tff_pers.evaluation import summary

RUN_COLUMNS = (
    'algo', 'seed', 'accuracy', 'accuracy_worst_decile', 'loss',
    'seconds_per_round',
)
SUMMARY_COLUMNS = (
    'algo', 'seeds', 'accuracy_mean', 'accuracy_std', 'accuracy_worst_decile',
    'loss_mean', 'share_hurt_vs_fedavg', 'share_hurt_vs_local',
    'seconds_per_round', 'bytes_down_per_client_round',
    'bytes_up_per_client_round',
)
# Reference variant of each `share_hurt_vs_*`.
REFERENCES = {
    'share_hurt_vs_fedavg': 'fedavg', 'share_hurt_vs_local': 'local_only'
}

# Runs by (variant, seed); None for a run that diverged.
Runs = Mapping[tuple[str, int], Optional[results.Run]]


def run_rows(runs: Runs) -> list[dict[str, Any]]:
  """Returns the rows of `runs.csv`: last evaluated round; NaN if diverged."""
  return [
      dict(
          algo=variant, seed=seed,
          accuracy=_last(run, 'accuracy_mean', runs),
          accuracy_worst_decile=_last(run, 'accuracy_worst_decile', runs),
          loss=_last(run, 'loss_mean', runs),
          seconds_per_round=_seconds_per_round(run),
      )
      for (variant, seed), run in runs.items()
  ]


def summary_rows(runs: Runs) -> list[dict[str, Any]]:
  """Returns the rows of `summary.csv`, one per variant, in order.

  Numbers are means over seeds; a variant with a diverged seed has NaN.
  `accuracy_std` is the sample standard deviation over seeds (divided by S - 1),
  None for one seed. `share_hurt_vs_X` is None unless X is among the variants.
  Columns are `SUMMARY_COLUMNS` and those of `more_columns`.
  """
  rows = run_rows(runs)
  more = more_columns(runs)
  table = []
  for variant in dict.fromkeys(variant for variant, _ in runs):
    own = [row for row in rows if row['algo'] == variant]
    column = lambda name, own=own: [row[name] for row in own]
    members = [run for (name, _), run in runs.items() if name == variant]
    table.append(dict(
        algo=variant,
        seeds=len(own),
        accuracy_mean=mean(column('accuracy')),
        accuracy_std=std(column('accuracy')),
        accuracy_worst_decile=mean(column('accuracy_worst_decile')),
        loss_mean=mean(column('loss')),
        seconds_per_round=mean(column('seconds_per_round')),
        **{
            f'{name}_per_client_round': mean(
                [_last(run, name, runs) for run in members]
            ) for name in ('bytes_down', 'bytes_up')
        },
        **{
            column: _share_hurt(runs, variant, reference)
            for column, reference in REFERENCES.items()
        },
        **{
            column: mean([
                _over_clients(run, column.removesuffix('_mean'))
                for run in members
            ]) for column in more
        },
    ))
  return table


def more_columns(runs: Runs) -> list[str]:
  """Returns the further metric columns that any `clients.csv` has."""
  return list(dict.fromkeys(
      f'{metric}_mean' for run in runs.values() if run is not None
      for metric in run.clients or ()
      if metric not in results.CLIENT_COLUMNS
  ))


def _over_clients(run: Optional[results.Run], metric: str) -> float:
  """Returns the mean over clients that train and have the metric, or NaN."""
  if run is None or run.clients is None or metric not in run.clients:
    return math.nan
  values = run.clients[metric][run.clients['seen'] == 1]
  # A client with a single class has no AUC.
  values = values[~np.isnan(values)]
  return float(values.mean()) if values.size else math.nan


def final_summary(
    run: Optional[results.Run], metric: str, seen: int = 1
) -> summary.Summary:
  """Returns the summary of a metric on test data; NaN if the run diverged.

  `seen` is 1 for clients that train, 0 for those that never do. Clients without
  a metric, as the AUC of a single class, are left out; every one has a loss.
  """
  values = examples = np.array([])
  if run is not None:
    clients = run.final_clients
    which = clients['seen'] == seen
    if metric not in summary.COMMON:
      which &= ~np.isnan(clients[metric])
    values, examples = clients[metric][which], clients['num_test'][which]
  return summary.summarize(
      values, examples, higher_is_better=summary.is_higher_better(metric)
  )


def sample_sentence(runs: Runs) -> str:
  """Returns a note if not all clients were evaluated, else ''."""
  # Runs older than the flag evaluated all clients.
  numbers = {
      run.config['flags'].get('eval_clients', 0)
      for run in runs.values() if run is not None
  } - {0}
  if not numbers:
    return ''
  sizes = ' or '.join(map(str, sorted(numbers)))
  return (
      f'\n\nOf the clients that train, each run evaluated a fixed sample of'
      f' {sizes} (`--eval_clients`).'
  )


def write_tiers(top: str, runs: Runs) -> None:
  """Merges the runs' `tiers.csv`; removes a table of other variants."""
  rows = [
      # Runs of before had no rounds.
      {'round': '', **row} for run in runs.values() if run is not None
      for row in results.read_rows(run.folder, results.TIERS)
  ]
  path = os.path.join(top, results.TIERS)
  if rows:
    results.write_tiers(top, rows)
  elif os.path.exists(path):
    os.remove(path)


def tier_summary(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
  """Returns a row per variant and tier: means over seeds of the last round.

  `rows` are those of `tiers.csv`, as texts.
  """
  table = []
  last = {(row['algo'], row['tier'], row['seed']): row for row in rows}
  for key in dict.fromkeys(key[:2] for key in last):
    own = [row for (*names, _), row in last.items() if tuple(names) == key]
    numbers = {
        # Without classes there is no accuracy.
        name: [float(row[name]) if row[name] else None for row in own]
        for name in ('accuracy', 'loss')
    }
    table.append(dict(
        algo=key[0], tier=key[1], parameters=int(float(own[0]['parameters'])),
        seeds=len(own), accuracy=mean(numbers['accuracy']),
        accuracy_std=std(numbers['accuracy']), loss=mean(numbers['loss']),
    ))
  return table


def _last(run, column: str, runs: Runs) -> Optional[float]:
  """Returns a metric of the last row; None on tasks without that metric."""
  if not any(_has(other, column) for other in runs.values()):
    # Every task has a loss: if no run has one, all of them diverged.
    return math.nan if column == 'loss_mean' else None
  return float(run.metrics[column][-1]) if run is not None else math.nan


def _has(run, column: str) -> bool:
  return run is not None and not np.all(np.isnan(run.metrics[column]))


def _seconds_per_round(run) -> float:
  if run is None:
    return math.nan
  return float(run.metrics['seconds'][-1] / run.metrics['round'][-1])


def mean(values: Sequence[Optional[float]]) -> Optional[float]:
  """Returns the mean: NaN without values, None if a value is None."""
  if not values:
    return math.nan
  known = [value for value in values if value is not None]
  return float(np.mean(known)) if len(known) == len(values) else None


def std(values: Sequence[Optional[float]]) -> Optional[float]:
  """Returns the sample standard deviation; None for fewer than two values."""
  known = [value for value in values if value is not None]
  if len(known) < len(values) or len(known) < 2:
    return None
  return float(np.std(known, ddof=1))


def _share_hurt(runs: Runs, variant: str, reference: str) -> Optional[float]:
  """Returns the mean over seeds of the share of clients that are worse off."""
  shares = []
  for (name, seed), run in runs.items():
    if name != variant or (reference, seed) not in runs:
      continue
    other = runs[reference, seed]
    if run is None or other is None:
      return math.nan
    if run.clients is None or other.clients is None:  # Not finished.
      continue
    is_regression = np.all(np.isnan(run.clients['accuracy']))
    metric = 'loss' if is_regression else 'accuracy'
    shares.append(summary.share_hurt(
        *(
            r.final_clients[metric][r.final_clients['seen'] == 1]
            for r in (run, other)
        ),
        higher_is_better=metric == 'accuracy',
    ))
  return mean(shares) if shares else None
