"""Tables of a page: results and costs of each variant, and every run."""

import math
import os
from typing import Any, Optional, Sequence

import numpy as np

from tff_pers.evaluation import comparison
from tff_pers.evaluation import costs
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.evaluation import summary
from tff_pers.evaluation.report import cells
from tff_pers.evaluation.report import members as members_lib

_METHOD = cells.Column('algo', 'Method', 'text')
_OVER_SEEDS = 'Over clients, then over seeds; last evaluated round.'
_RESULTS = (
    _METHOD,
    cells.Column('seeds', 'Seeds', 'integer'),
    cells.Column('accuracy_mean', 'Test accuracy', 'number', _OVER_SEEDS),
    cells.Column('accuracy_std', '± over seeds', 'number',
                 'Standard deviation over seeds.'),
    cells.Column('accuracy_validation', 'Validation accuracy'),
    cells.Column('accuracy_worst_decile', 'Worst decile', 'number',
                 'Mean test accuracy of the worst tenth of the clients.'),
    cells.Column('loss_mean', 'Test loss', 'number', _OVER_SEEDS),
    cells.Column('loss_validation', 'Validation loss'),
    cells.Column('share_hurt_vs_local', 'Hurt against local_only', 'percent',
                 'Clients that are better off training alone.'),
    cells.Column('share_hurt_vs_fedavg', 'Hurt against fedavg', 'percent',
                 'Clients that are better off with one model for all.'),
    cells.Column('state', 'State', 'text'),
    cells.Column('majority_mean', 'Most frequent class', 'number',
                 'Accuracy of always predicting a client\'s most frequent'
                 ' class.'),
    cells.Column('balanced_accuracy_mean', 'Balanced accuracy', 'number',
                 'Mean recall of the classes that a client has.'),
    cells.Column('auc_mean', 'AUC', 'number',
                 'Over clients that have all classes.'),
    cells.Column('f1_mean', 'F1', 'number',
                 'Mean over the classes that a client has or is predicted; of'
                 ' two classes, F1 of the second.'),
    cells.Column('calibration_error_mean', 'Calibration error', 'number',
                 'Mean distance of confidence and accuracy.'),
    cells.Column('mae_mean', 'MAE', 'number', 'In units of y.'),
    cells.Column('rmse_mean', 'RMSE', 'number', 'In units of y.'),
    cells.Column('r2_mean', 'R2'),
)
_COSTS = (
    _METHOD,
    cells.Column('model', 'Parameters of the model', 'integer'),
    cells.Column('client', 'Parameters that a client handles', 'integer',
                 'What it deploys and keeps, or receives and keeps.'),
    cells.Column('private_share', 'Private share', 'percent'),
    cells.Column('bytes_down', 'Down per round', 'bytes',
                 'Bytes that a client receives in a round.'),
    cells.Column('bytes_up', 'Up per round', 'bytes',
                 'Bytes that a client sends in a round.'),
    cells.Column('bytes', 'Traffic', 'bytes',
                 'Of the run, divided by the clients per round.'),
    cells.Column('macs', 'MACs per example', 'integer',
                 'Multiply-accumulates of one forward pass.'),
    cells.Column('rounds', 'Rounds', 'integer'),
    cells.Column('seconds_per_round', 'Seconds per round', 'seconds'),
    cells.Column('seconds', 'Training time', 'seconds'),
)
_RUNS = (
    _METHOD,
    cells.Column('seed', 'Seed', 'integer'),
    cells.Column('state', 'State', 'text'),
    cells.Column('round', 'Last round', 'integer'),
    cells.Column('rounds', 'of', 'integer'),
    cells.Column('accuracy', 'Test accuracy'),
    cells.Column('accuracy_worst_decile', 'Worst decile'),
    cells.Column('loss', 'Test loss'),
    cells.Column('seconds', 'Training time', 'seconds'),
    cells.Column('folder', 'Folder', 'text'),
)
_TIERS = (
    _METHOD,
    cells.Column('tier', 'Tier', 'text'),
    cells.Column('parameters', 'Parameters', 'integer'),
    cells.Column('seeds', 'Seeds', 'integer'),
    cells.Column('accuracy', 'Accuracy'),
    cells.Column('accuracy_std', '± over seeds'),
    cells.Column('loss', 'Loss'),
)
_FINETUNING = (
    _METHOD,
    cells.Column('seed', 'Seed', 'integer'),
    cells.Column('who', 'Clients', 'text'),
    cells.Column('steps', 'Local steps', 'integer'),
    cells.Column('accuracy_mean', 'Accuracy'),
    cells.Column('accuracy_worst_decile', 'Worst decile'),
    cells.Column('loss_mean', 'Loss'),
    cells.Column('share_hurt', 'Hurt', 'percent',
                 'Clients that are worse off than without a step.'),
)


def results_table(group: members_lib.Group) -> dict[str, Any]:
  """Returns a row per label, like `comparison.summary_rows`.

  Means are over finished runs; a label with a diverged seed has NaN. If no seed
  is finished, the last evaluated rounds of the others are used.
  """
  runs = _comparable(group)
  rows = comparison.summary_rows(runs)
  for row in rows:
    own = group.by_label()[row['algo']]
    states = [member.state for member in own]
    unlike = [s for s in dict.fromkeys(states) if s != members_lib.FINISHED]
    row['state'] = '; '.join(f'{states.count(s)} {s}' for s in unlike) or None
    for name in ('accuracy_validation', 'loss_validation'):
      row[name] = _mean_last(own, name)
      if members_lib.DIVERGED in states and row[name] is not None:
        row[name] = math.nan
  known = [column.name for column in _RESULTS]
  more = [  # Metrics that a user's task brings.
      cells.Column(name, name.removesuffix('_mean'))
      for name in comparison.more_columns(runs) if name not in known
  ]
  return cells.table([*_RESULTS, *more], rows)


def costs_table(group: members_lib.Group) -> dict[str, Any]:
  """Returns a row per label: parameters, bytes, MACs, seconds."""
  rows = []
  for label, own in group.by_label().items():
    runs = [member.run for member in members_lib.tellable(own)]
    if not runs:
      continue
    config, last = runs[0].config, lambda name: _mean_last(own, name)
    rounds, seconds = last('round'), last('seconds')
    assert rounds is not None and seconds is not None  # Every row has them.
    rows.append(dict(
        algo=label, rounds=rounds, seconds=seconds,
        seconds_per_round=seconds / rounds,
        **{name: last(name) for name in ('bytes_down', 'bytes_up')},
        bytes=comparison.mean(
            [float(costs.cumulative_bytes(run)[-1]) for run in runs]
        ),
        macs=(config.get('cost') or {}).get('macs'),
        **{name: (config.get('parameters') or {}).get(name)
           for name in ('model', 'client', 'private_share')},
    ))
  return cells.table(_COSTS, rows)


def runs_table(group: members_lib.Group, top: str) -> dict[str, Any]:
  """Returns a row per run, with its folder relative to `top`."""
  return cells.table(_RUNS, [
      dict(
          algo=member.label, seed=member.seed, state=member.state,
          round=member.last_round, rounds=_planned(member.run),
          accuracy=_last(member.run, 'accuracy_mean'),
          accuracy_worst_decile=_last(member.run, 'accuracy_worst_decile'),
          loss=_last(member.run, 'loss_mean'),
          seconds=_last(member.run, 'seconds'),
          folder=os.path.relpath(member.run.folder, top),
      ) for member in group.members
  ])


def tiers_table(group: members_lib.Group) -> dict[str, Any]:
  """Returns a row per label and capacity tier, means over seeds."""
  rows = [
      dict(row, algo=member.label) for member in group.members
      for row in results.read_rows(member.run.folder, results.TIERS)
  ]
  return cells.table(_TIERS, comparison.tier_summary(rows))


def finetuning_table(group: members_lib.Group) -> dict[str, Any]:
  """Returns a row per run and number of local steps from the global model."""
  rows = []
  for member in group.members:
    found = member.run.finetuning or {}
    for i, seen in enumerate(found.get('seen', ())):
      rows.append(dict(
          {name: None if math.isnan(column[i]) else float(column[i])
           for name, column in found.items()},
          algo=member.label, seed=member.seed,
          who='that train' if seen else 'that never train',
      ))
  return cells.table(_FINETUNING, rows)


def _comparable(group: members_lib.Group) -> comparison.Runs:
  """Returns the runs of a table; None for those that diverged."""
  runs: dict[tuple[str, int], Optional[results.Run]] = {}
  for label, own in group.by_label().items():
    shown = members_lib.tellable(own)
    for member in own:
      if member.state == members_lib.DIVERGED:
        runs[label, member.seed] = None
      elif member in shown:
        runs[label, member.seed] = member.run
  return runs


def _planned(run: results.Run) -> Optional[int]:
  """Returns the requested number of rounds, None if it is not a number."""
  rounds = run.config['flags'].get('rounds')
  return rounds if isinstance(rounds, int) else None


def _mean_last(
    members: Sequence[members_lib.Member], name: str
) -> Optional[float]:
  """Returns the mean over seeds of a column in the last evaluated round."""
  values = [
      _last(member.run, name) for member in members_lib.tellable(members)
  ]
  return comparison.mean(values) if values else None


def _last(run: results.Run, name: str) -> Optional[float]:
  if not figures.has(run.metrics, name):
    return None
  return float(run.metrics[name][-1])


def final_values(group: members_lib.Group) -> dict[str, Any]:
  """Returns each label's metric at the end: mean, and range over its seeds.

  Returns:
    `metric`: See `members.metric_of`; `isHigherBetter`: whether larger values
    are better; `baseline`: accuracy of always predicting the most frequent
    class, or None; `rows`: `label`, `value`, `low`, `high`; labels without a
    finite value are left out.
  """
  metric = members_lib.metric_of(group.members)
  name = f'{metric}_mean'
  rows = []
  for label, own in group.by_label().items():
    if any(member.state == members_lib.DIVERGED for member in own):
      continue
    last = [_last(member.run, name) for member in members_lib.tellable(own)]
    values = [value for value in last if value is not None]
    if last and len(values) == len(last) and np.all(np.isfinite(values)):
      value, low, high = cells.series(
          [float(np.mean(values)), min(values), max(values)]
      )
      rows.append(dict(label=label, value=value, low=low, high=high))
  return dict(
      metric=metric, isHigherBetter=summary.is_higher_better(metric),
      baseline=members_lib.baseline_of(group.members), rows=rows,
  )


def confusion_tables(group: members_lib.Group) -> list[dict[str, Any]]:
  """Returns test rows by class and predicted class, pooled over seeds.

  Returns:
    `label` and `table` of each label whose runs have confusion tables.
  """
  found = []
  for label, own in group.by_label().items():
    read = [results.read_confusion(member.run.folder) for member in own]
    known = [one for one in read if one is not None]
    if known:
      names = known[0][1]
      total = np.sum([counts for counts, _ in known], axis=0)
      columns = [
          cells.Column(f'p{i}', f'predicted {name}', 'integer')
          for i, name in enumerate(names)
      ]
      found.append(dict(label=label, table=cells.table(
          [cells.Column('class', 'Class', 'text'), *columns],
          [{'class': name, **{f'p{i}': count for i, count in enumerate(row)}}
           for name, row in zip(names, total.tolist())],
      )))
  return found
