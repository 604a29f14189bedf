"""The table of several tasks: who is where, and what that can tell.

Demsar: "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR
2006. Benavoli, Corani, Demsar, Zaffalon: "Time for a Change: a Tutorial for
Comparing Multiple Classifiers Through Bayesian Analysis", JMLR 2017.
"""

import itertools
import math
import pathlib
from typing import Mapping, NamedTuple, Sequence

import baycomp
from matplotlib import figure
import numpy as np
import pandas as pd
from scipy import stats

from tff_pers.evaluation import results

# Differences of this size do not count as one.
_EQUAL = 0.01
_LEVEL = 0.05
# Fewer tasks cannot give a p-value below _LEVEL, whatever comes out.
_FEWEST_TASKS = 6


class Pair(NamedTuple):
  """Two methods, and how sure it is that they differ.

  Attributes:
    first: The method with the better mean rank.
    second: The other one.
    p_value: Of Wilcoxon's signed-rank test, corrected as Holm does.
    better: Probability that `first` is better by more than .01 on a new task.
    equal: Probability that they are within .01 of each other.
  """

  first: str
  second: str
  p_value: float
  better: float
  equal: float


def scores(rows: Mapping[str, Sequence[Mapping[str, str]]]) -> pd.DataFrame:
  """Returns a row for each run: task, method, score, text, MB.

  A score is an accuracy. Where there is none it is minus the loss in units of
  the least mean loss of the task, so that .01 is one percent of it.
  """
  runs = pd.DataFrame([
      dict(task=task, **row) for task, own in rows.items() for row in own
  ])
  runs['method'] = runs['variant']
  columns = ['accuracy', 'loss', 'rounds', 'bytes_down', 'bytes_up']
  runs[columns] = runs[columns].apply(pd.to_numeric)
  runs['MB'] = runs['rounds'] * (runs['bytes_down'] + runs['bytes_up']) / 1e6
  runs['shown'] = runs['accuracy'].fillna(runs['loss'])
  least = runs.groupby(['task', 'method'])['loss'].mean().groupby('task').min()
  runs['score'] = runs['accuracy'].fillna(
      -runs['loss'] / runs['task'].map(least)
  )
  return runs


def ranks(runs: pd.DataFrame) -> pd.DataFrame:
  """Returns ranks by method and task, 1 for the best mean over seeds.

  Only of methods that have all tasks, since a mean over other tasks compares
  nothing; the first row is the method with the best mean rank.
  """
  means = runs.groupby(['method', 'task'])['score'].mean().unstack().dropna()
  of_tasks = means.rank(ascending=False)
  return of_tasks.loc[of_tasks.mean(axis=1).sort_values(kind='stable').index]


def friedman(of_tasks: pd.DataFrame) -> float:
  """Returns the p-value of the hypothesis that all methods rank alike."""
  return stats.friedmanchisquare(*of_tasks.to_numpy()).pvalue


def pairs(runs: pd.DataFrame, of_tasks: pd.DataFrame) -> list[Pair]:
  """Returns all pairs of methods that have all tasks; see `Pair`."""
  means = runs.groupby(['method', 'task'])['score'].mean().unstack()
  names = list(itertools.combinations(of_tasks.index, 2))
  p_values = [
      1.0 if np.array_equal(means.loc[a], means.loc[b])
      else stats.wilcoxon(means.loc[a], means.loc[b]).pvalue for a, b in names
  ]
  found = []
  for (a, b), p_value in zip(names, holm(p_values)):
    np.random.seed(0)  # baycomp has no other way.
    better, equal, _ = baycomp.two_on_multiple(
        means.loc[a].to_numpy(), means.loc[b].to_numpy(), rope=_EQUAL
    )
    found.append(Pair(a, b, p_value, better, equal))
  return found


def holm(p_values: Sequence[float]) -> np.ndarray:
  """Returns p-values corrected for their number by Holm's step-down method."""
  p_values = np.asarray(p_values)
  order = np.argsort(p_values, kind='stable')
  factors = len(p_values) - np.arange(len(p_values))
  corrected = np.empty(len(p_values))
  corrected[order] = np.minimum(
      np.maximum.accumulate(p_values[order] * factors), 1.0
  )
  return corrected


def page(rows: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
  """Returns the table of methods and tasks, and what the ranks say."""
  runs = scores(rows)
  of_tasks = ranks(runs)
  grouped = runs.groupby(['method', 'task'])
  means, spreads = (getattr(grouped['shown'], name)().unstack()
                    for name in ('mean', 'std'))
  rank = of_tasks.mean(axis=1)
  # Methods that lack tasks follow, in alphabetical order.
  names = [*rank.index, *sorted(set(means.index) - set(rank.index))]
  lines = [{
      'method': f'`{name}`',
      'mean rank': f'{rank[name]:.1f}' if name in rank else '',
      **{task: _cell(means.loc[name, task], spreads.loc[name, task])
         for task in rows},
      'MB': f"{runs[runs['method'] == name]['MB'].mean():.2f}",
  } for name in names]
  text = [results.markdown(list(lines[0]), lines)]
  if len(of_tasks) > 2 and len(of_tasks.columns) >= _FEWEST_TASKS:
    text += _verdict(runs, of_tasks)
  return '\n\n'.join(text)


def _cell(mean: float, spread: float) -> str:
  if math.isnan(mean):
    return ''
  return f'{mean:.3f}' + ('' if math.isnan(spread) else f' ± {spread:.3f}')


def _verdict(runs: pd.DataFrame, of_tasks: pd.DataFrame) -> list[str]:
  """Returns sentences about the ranks, and the pairs of the best method."""
  methods, tasks = of_tasks.shape
  found = pairs(runs, of_tasks)
  differ = sum(pair.p_value < _LEVEL for pair in found)
  best = of_tasks.index[0]
  lines = [{
      f'`{best}` against': f'`{pair.second}`',
      'p': f'{pair.p_value:.2f}',
      'better by more than .01': f'{pair.better:.2f}',
      'within .01': f'{pair.equal:.2f}',
      'worse by more than .01': f'{1 - pair.better - pair.equal:.2f}',
  } for pair in found if pair.first == best]
  return [
      f'Mean ranks of the {methods} methods that have all {tasks} tasks: the'
      ' hypothesis that all rank alike has p ='
      f' {friedman(of_tasks):.1g} (Friedman). Of {len(found)} pairs'
      f' {differ} differ by Wilcoxon\'s signed-rank test with Holm\'s'
      f' correction (p < {_LEVEL}); without a correction {tasks} tasks give no'
      f' p below {2 ** (1 - tasks):.2g}.',
      results.markdown(list(lines[0]), lines),
      'The last three columns are the probabilities of the Bayesian signed-rank'
      ' test that on a new task of this kind the first method is better, as'
      ' good or worse (of losses, .01 is 1 %).',
  ]


def joined(
    of_tasks: pd.DataFrame, found: Sequence[Pair]
) -> list[tuple[int, int]]:
  """Returns the first and last of each longest run of alike methods.

  Args:
    of_tasks: `ranks`.
    found: `pairs`. Methods are alike where no two of them differ.
  """
  differ = {frozenset(pair[:2]) for pair in found if pair.p_value < _LEVEL}
  bars = []
  for i in range(len(of_tasks)):
    j = max(
        k for k in range(i, len(of_tasks)) if not any(
            frozenset(two) in differ
            for two in itertools.combinations(of_tasks.index[i:k + 1], 2)
        )
    )
    if j > max(i, bars[-1][1] if bars else 0):  # Not within the run before.
      bars.append((i, j))
  return bars


def write_picture(
    path: pathlib.Path, of_tasks: pd.DataFrame, found: Sequence[Pair]
) -> None:
  """Writes mean ranks as dots, with a bar beside methods that are `joined`."""
  mean = of_tasks.mean(axis=1)
  canvas = figure.Figure(figsize=(7, 0.28 * len(mean) + 1.2))
  axes = canvas.subplots()
  axes.plot(mean, range(len(mean)), 'o')
  axes.set_yticks(range(len(mean)), mean.index)
  axes.invert_yaxis()
  axes.set_xlabel(
      f'mean rank on {of_tasks.shape[1]} tasks; a bar joins methods of which no'
      ' two differ'
  )
  axes.grid(axis='x', alpha=0.3)
  for number, bar in enumerate(joined(of_tasks, found)):
    at = mean.max() + 0.5 + 0.3 * number
    axes.plot([at, at], bar, color='black', linewidth=3)
  canvas.tight_layout()
  canvas.savefig(path)
