"""Choices of hyperparameters by validation data, and tables of their results.

A value is chosen by the mean over clients of their validation accuracy (loss on
regression tasks) in the last evaluated round, among the runs whose mean
validation loss is finite there. Nothing here uses test data before the value is
chosen.
"""

import math
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from tff_pers.evaluation import comparison
from tff_pers.evaluation import grids as grids_lib
from tff_pers.evaluation import results
from tff_pers.evaluation import summary

TRIAL_COLUMNS = ('algo', 'value', 'metric', 'validation', 'chosen')
# Evaluated clients by prefix of columns: value of `seen` in `clients.csv`.
_CLIENTS = {'': 1, 'new_': 0}


class Choice(NamedTuple):
  """The choice by validation data among the values of a grid.

  Attributes:
    metric: `accuracy` or `loss`.
    scores: Mean of the metric over clients by value, NaN if a run diverged or
      its accuracy comes with a non-finite loss.
    value: The chosen value, None if all diverged.
  """

  metric: str
  scores: Mapping[str, float]
  value: Optional[str]

  @property
  def at_border(self) -> Optional[bool]:
    """Whether one side of the chosen value was not tried.

    A value that diverged was tried, too. For a combination, whether that holds
    for one of its hyperparameters; those with a single value only count if
    there are no others. None if nothing was chosen, or no values are numbers.
    """
    if self.value is None:
      return None
    pairs = [
        (float(chosen), tried) for chosen, tried in zip(
            self.value.split(';'), grids_lib.numbers(self.scores)
        ) if tried
    ]
    varied = [(chosen, tried) for chosen, tried in pairs if len(tried) > 1]
    return any(
        chosen in (tried[0], tried[-1]) for chosen, tried in varied or pairs
    ) if pairs else None


def choose(
    runs: Mapping[str, Mapping[str, Optional[results.Run]]]
) -> dict[str, Choice]:
  """Chooses for every variant the best value on validation data.

  Of equally good values, the first. A run that diverged (None), or has a
  non-finite score or mean loss, loses against every other. Runs are by variant,
  then by value.
  """
  finished = [
      run for own in runs.values() for run in own.values() if run is not None
  ]
  # The column is empty for regression. If all runs diverged, the kind is
  # unknown, but then nothing is chosen by either metric.
  is_regression = bool(finished) and all(
      math.isnan(_validation(_last_row(run), 'accuracy')) for run in finished
  )
  metric = 'loss' if is_regression else 'accuracy'
  if finished:
    metric = finished[0].config.get('metric', metric)
  best = max if summary.is_higher_better(metric) else min
  choices = {}
  for variant, own in runs.items():
    scores = {
        value: math.nan if run is None else score(_last_row(run), metric)
        for value, run in own.items()
    }
    finite = {v: score for v, score in scores.items() if math.isfinite(score)}
    choices[variant] = Choice(
        metric, scores,
        best(finite, key=finite.__getitem__) if finite else None,
    )
  return choices


def trial_rows(choices: Mapping[str, Choice]) -> list[dict[str, Any]]:
  """Returns a row of `TRIAL_COLUMNS` per variant and value of the grid."""
  return [
      dict(
          algo=variant, value=value, metric=choice.metric, validation=score,
          chosen=int(value == choice.value),
      )
      for variant, choice in choices.items()
      for value, score in choice.scores.items()
  ]


def columns(
    grids: Mapping[str, grids_lib.Grid], choices: Mapping[str, Choice],
    has_new: bool,
) -> list[str]:
  """Returns the columns of a table of chosen values.

  Hyperparameters that only some methods have share one column, `own`. `has_new`
  says whether there are clients that never train.
  """
  common = grids_lib.common(grids)
  has_own = any(len(grid.names) > len(common) for grid in grids.values())
  return [
      'algo', *common, *['own'] * has_own, 'at_border', 'validation', 'seeds',
      *(f'{prefix}{name}_{statistic}'
        for prefix in (_CLIENTS if has_new else [''])
        for name in _fields(choices)
        for statistic in ('mean', 'std')),
  ]


def rows(
    grids: Mapping[str, grids_lib.Grid], choices: Mapping[str, Choice],
    runs: comparison.Runs,
) -> list[dict[str, Any]]:
  """Returns a row per variant: its choice, and its test results over seeds.

  `*_mean` and `*_std` are over seeds (the latter divided by S - 1, None for one
  seed) of the mean over clients, and with `pooled_` of the mean weighted by
  test examples; with `new_` for clients that never train. A variant with a
  diverged seed has NaN.
  """
  table = []
  for variant, choice in choices.items():
    own = [run for (name, _), run in runs.items() if name == variant]
    border = {None: None, True: 'yes', False: 'no'}[choice.at_border]
    scores = [f'{value}: {s:.4f}' for value, s in choice.scores.items()]
    chosen: dict[str, Optional[str]] = dict.fromkeys(grids[variant].names)
    alone = None
    if choice.value is not None:
      chosen.update(grids[variant].options(choice.value))
      alone = ' '.join(
          f'{name}={value}' for name, value in chosen.items()
          if name not in grids_lib.common(grids)
      )
    row: dict[str, Any] = {
        'algo': variant, **chosen, 'own': alone, 'at_border': border,
        'validation': '  '.join(scores), 'seeds': len(own),
    }
    for prefix, seen in _CLIENTS.items():
      found = [
          comparison.final_summary(run, choice.metric, seen) for run in own
      ]
      for name, field in _fields(choices).items():
        values = [getattr(one, field) for one in found]
        row[f'{prefix}{name}_mean'] = comparison.mean(values)
        row[f'{prefix}{name}_std'] = comparison.std(values)
    table.append(row)
  return table


def markdown(names: Sequence[str], table: Sequence[Mapping[str, Any]]) -> str:
  """Returns rows as a Markdown table, with mean and deviation combined."""
  heads = [name.removesuffix('_mean') for name in names
           if not name.endswith('_std')]
  def cell(row, head):
    if f'{head}_mean' not in names:
      return row[head]
    deviation = row[f'{head}_std']
    spread = '' if deviation is None else f' ± {deviation:.4f}'
    return f"{row[f'{head}_mean']:.4f}{spread}"
  return results.markdown(
      heads, [{head: cell(row, head) for head in heads} for row in table]
  )


def score(row: Mapping[str, Any], metric: str) -> float:
  """Returns the score of a row of `metrics.csv`; see `Choice.scores`."""
  # Labels of non-finite predictions still have an accuracy.
  if metric != 'loss' and not math.isfinite(_validation(row, 'loss')):
    return math.nan
  return _validation(row, metric)


def _last_row(run: results.Run) -> dict[str, float]:
  """Returns the last evaluated round of a run."""
  return {name: column[-1] for name, column in run.metrics.items()}


def _validation(row: Mapping[str, Any], metric: str) -> float:
  """Returns the mean over clients."""
  return float(row[f'{metric}_validation'])


def _fields(choices: Mapping[str, Choice]) -> dict[str, str]:
  """Returns the shown fields of a summary by their new names."""
  metric = next(iter(choices.values())).metric  # The same for all.
  return {metric: 'mean', f'pooled_{metric}': 'weighted_mean'}
