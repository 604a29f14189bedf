"""The table of several tasks: who is where, and what that can tell.

Demsar: "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR
2006. Benavoli, Corani, Demsar, Zaffalon: "Time for a Change: a Tutorial for
Comparing Multiple Classifiers Through Bayesian Analysis", JMLR 2017.
"""

import math
import pathlib
from typing import Callable, Mapping, Sequence

from matplotlib import figure
import numpy as np
import pandas as pd
from scipy import stats

from tff_pers.evaluation import results

# Differences of this size do not count as one.
_EQUAL = 0.01
_LEVEL = 0.05
# Fewer tasks say too little about ranks.
_FEWEST_TASKS = 6

# The rows of each task, see `result_tables.read`.
Rows = Mapping[str, Sequence[Mapping[str, str]]]


def scores(rows: Rows) -> pd.DataFrame:
  """Returns a row for each run, with `task`, `method`, `score`, `shown`, `MB`.

  A score is an accuracy. Where there is none it is minus the loss in units of
  the least mean loss of the task, so that .01 is one percent of it. `whole`
  says whether the method has as many seeds as any on that task; a run that
  diverged has no row.

  Raises:
    ValueError: If a method has runs of different flags on a task.
  """
  runs = pd.DataFrame([
      dict(task=task, **row) for task, own in rows.items() for row in own
  ]).rename(columns=dict(variant='method'))
  columns = ['accuracy', 'loss', 'rounds', 'bytes_down', 'bytes_up']
  runs[columns] = runs[columns].apply(pd.to_numeric)
  grouped = runs.groupby(['task', 'method'])
  mixed = grouped[['algo', 'flags']].nunique().max(axis=1)
  if mixed.max() > 1:
    task, method = mixed.idxmax()
    raise ValueError(
        f'Runs of a method must have equal flags, found others of {method} on'
        f' {task}.'
    )
  seeds = grouped['seed'].transform('nunique')
  runs['whole'] = seeds == seeds.groupby(runs['task']).transform('max')
  runs['MB'] = runs['rounds'] * (runs['bytes_down'] + runs['bytes_up']) / 1e6
  runs['shown'] = runs['accuracy'].fillna(runs['loss'])
  least = grouped['loss'].mean().groupby('task').min()
  runs['score'] = runs['accuracy'].fillna(
      -runs['loss'] / runs['task'].map(least)
  )
  return runs


def means(runs: pd.DataFrame) -> pd.DataFrame:
  """Returns mean scores by method and task, of methods that have all tasks.

  A mean over other tasks, or over fewer seeds, compares nothing. The first row
  is the method with the best mean rank.
  """
  whole = runs[runs['whole']]
  found = whole.groupby(['method', 'task'])['score'].mean().unstack()
  found = found.reindex(columns=runs['task'].unique()).dropna()
  rank = ranks(found).mean(axis=1)
  return found.loc[rank.sort_values(kind='stable').index]


def ranks(of_tasks: pd.DataFrame) -> pd.DataFrame:
  """Returns the ranks of `means` on each task, 1 for the best."""
  return of_tasks.rank(ascending=False)


def friedman(of_tasks: pd.DataFrame) -> float:
  """Returns the p-value of the hypothesis that all methods rank alike."""
  return stats.friedmanchisquare(*of_tasks.to_numpy()).pvalue


def critical_difference(num_methods: int, num_tasks: int) -> float:
  """Returns by how much mean ranks must differ at the level .05 (Nemenyi)."""
  quantile = stats.studentized_range.ppf(1 - _LEVEL, num_methods, math.inf)
  return quantile / math.sqrt(2) * math.sqrt(
      num_methods * (num_methods + 1) / (6 * num_tasks)
  )


def signed_ranks(differences: Sequence[float]) -> tuple[float, float, float]:
  """Returns the Bayesian signed-rank test of differences on tasks.

  With the differences weighted by a Dirichlet posterior (a half for a prior
  difference of 0, one for each task), these are the expected shares of means of
  two differences above .01, within .01 and below -.01: the probabilities that
  they are so on two new tasks.
  """
  z = np.concatenate([[0.0], differences])
  weights = np.concatenate([[0.5], np.ones(len(differences))])
  total = weights.sum()
  # The second moments of a Dirichlet distribution.
  shares = (np.outer(weights, weights) + np.diag(weights)) / (
      total * (total + 1)
  )
  sums = z[:, None] + z
  better = shares[sums > 2 * _EQUAL].sum()
  worse = shares[sums < -2 * _EQUAL].sum()
  return better, 1 - better - worse, worse


def page(
    rows: Rows, stale: Callable[[Mapping[str, str]], str], picture: str
) -> str:
  """Returns the table of methods and tasks, and what the ranks say.

  Args:
    rows: The rows.
    stale: Why a row is stale, or an empty text.
    picture: Where the page finds the picture of `write_picture`.
  """
  runs = scores(rows)
  of_tasks = means(runs)
  rank = ranks(of_tasks).mean(axis=1)
  runs['mark'] = [
      ('*' if row['at_border'] == 'yes' else '') + ('†' if stale(row) else '')
      for own in rows.values() for row in own
  ]
  grouped = runs.groupby(['method', 'task'])[['shown', 'mark', 'whole']]
  cells = grouped.apply(_cell).unstack().fillna('')
  sent = runs.groupby('method')['MB'].mean()
  # Methods that lack tasks follow, in alphabetical order.
  names = [*rank.index, *sorted(set(cells.index) - set(rank.index))]
  lines = [{
      'method': f'`{name}`',
      'mean rank': f'{rank[name]:.1f}' if name in rank else '',
      **{task: cells.loc[name, task] for task in rows},
      'MB': f'{sent[name]:.2f}' if name in rank else '',
  } for name in names]
  if len(rows) > len(names):  # A long table is easier to read than a wide one.
    lines = [{
        'task': title, **{line['method']: line[title] for line in lines}
    } for title in list(lines[0])[1:]]
  table = results.markdown(list(lines[0]), lines)
  star = ' \\*: the best value is at an end of its grid;' * ('*' in table)
  text = [
      table,
      f'(Means over seeds ± the standard deviation;{star} MB of a client in a'
      ' whole run, mean over tasks.)',
  ]
  if is_enough(of_tasks):
    text += [*_verdict(of_tasks), f'![Mean ranks]({picture})']
  return '\n\n'.join(text)


def is_enough(of_tasks: pd.DataFrame) -> bool:
  """Whether there are enough methods and tasks to say something of ranks."""
  return len(of_tasks) > 2 and len(of_tasks.columns) >= _FEWEST_TASKS


def _cell(runs: pd.DataFrame) -> str:
  """Returns the cell of a method's runs on a task."""
  mean = runs['shown'].mean()
  digits = 3 if mean >= 0.1 else 4
  text = f'{mean:.{digits}f}'
  if len(runs) > 1:
    text += f" ± {runs['shown'].std():.{digits}f}"
  text += ''.join(sorted(set(''.join(runs['mark'])))).replace('*', '\\*')
  return text if runs['whole'].all() else f'{text} (fewer seeds)'


def _verdict(of_tasks: pd.DataFrame) -> list[str]:
  """Returns sentences about the ranks, and the pairs of the best method."""
  methods, tasks = of_tasks.shape
  best, *others = of_tasks.index
  lines = []
  for other in others:
    differences = of_tasks.loc[best] - of_tasks.loc[other]
    better, equal, worse = signed_ranks(differences)
    lines.append({
        f'`{best}` against': f'`{other}`',
        'better by more than .01': f'{better:.2f}',
        'within .01': f'{equal:.2f}',
        'worse by more than .01': f'{worse:.2f}',
    })
  return [
      f'Of the {methods} methods that have all {tasks} tasks, the hypothesis that'
      f' all rank alike has p = {friedman(of_tasks):.1g} (Friedman). Two of them'
      ' differ at the level .05 if their mean ranks are'
      f' {critical_difference(methods, tasks):.1f} apart (Nemenyi).',
      'The probabilities, by the Bayesian signed-rank test, of the mean'
      ' difference on two new tasks of this kind (of losses, .01 is 1 %):',
      results.markdown(list(lines[0]), lines),
  ]


def joined(rank: Sequence[float], difference: float) -> list[tuple[int, int]]:
  """Returns the first and last of each longest run of near mean ranks.

  Args:
    rank: Mean ranks, in order.
    difference: `critical_difference`.
  """
  bars: list[tuple[int, int]] = []
  for i, first in enumerate(rank):
    j = max(k for k, last in enumerate(rank) if last - first <= difference)
    if j > max(i, bars[-1][1] if bars else 0):  # Not within the run before.
      bars.append((i, j))
  return bars


def write_picture(path: pathlib.Path, of_tasks: pd.DataFrame) -> None:
  """Writes mean ranks as dots, with a bar beside methods that are `joined`."""
  rank = ranks(of_tasks).mean(axis=1)
  canvas = figure.Figure(figsize=(7, 0.28 * len(rank) + 1.2))
  axes = canvas.subplots()
  axes.plot(rank, range(len(rank)), 'o')
  axes.set_yticks(range(len(rank)), rank.index)
  axes.invert_yaxis()
  axes.set_xlabel(
      f'mean rank on {of_tasks.shape[1]} tasks; a bar joins methods of which no'
      ' two differ'
  )
  axes.grid(axis='x', alpha=0.3)
  bars = joined(list(rank), critical_difference(*of_tasks.shape))
  for number, bar in enumerate(bars):
    at = rank.max() + 0.5 + 0.3 * number
    axes.plot([at, at], bar, color='black', linewidth=3)
  canvas.tight_layout()
  canvas.savefig(path)
