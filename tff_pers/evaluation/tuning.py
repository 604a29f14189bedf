"""Choices of a hyperparameter by validation data, and tables of what they give.

A value is chosen by the mean over clients of their validation accuracy (on
regression tasks: loss) in the last evaluated round. Nothing here looks at test
data before the value is chosen.
"""

import itertools
import math
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import results
from tff_pers.evaluation import summary

TRIAL_COLUMNS = ('algo', 'value', 'metric', 'validation', 'chosen')
# Who is evaluated, by the prefix of its columns: `seen` in `clients.csv`.
_CLIENTS = {'': 1, 'new_': 0}


class Grid(NamedTuple):
  """Values of one hyperparameter, or all combinations of those of several.

  Attributes:
    names: Of the hyperparameters.
    values: As texts; a combination is one text, in the order of the names and
      with semicolons in between.
  """

  names: tuple[str, ...]
  values: Sequence[str]

  def options(self, value: str) -> dict[str, str]:
    """Returns the value of each hyperparameter by name."""
    return dict(zip(self.names, value.split(';')))


class Choice(NamedTuple):
  """What validation data say of the values of a grid.

  Attributes:
    metric: `accuracy` or `loss`.
    scores: Mean of the metric over clients by value, NaN if a run diverged.
    value: The chosen value, None if there is none that did not diverge.
  """

  metric: str
  scores: Mapping[str, float]
  value: Optional[str]

  @property
  def at_border(self) -> Optional[bool]:
    """Whether no value on one side of the chosen one was tried.

    Of a combination, whether that is so of one of its hyperparameters. None if
    nothing was chosen or the values are no numbers.
    """
    numbers = {
        value: [_number(part) for part in value.split(';')]
        for value in self.scores
    }
    if self.value is None or any(None in own for own in numbers.values()):
      return None
    return any(
        chosen in (min(tried), max(tried))
        for chosen, tried in zip(numbers[self.value], zip(*numbers.values()))
    )


def parse_grid(text: str) -> Grid:
  """Returns the grid `name:value,value,...`, or that of several by semicolons.

    parse_grid('learning_rate:0.03,0.1,0.3')
    parse_grid('learning_rate:0.03,0.1;server_learning_rate:0.5,1')

  Raises:
    ValueError: If `text` has another form, or a name or a value twice.
  """
  table = {}
  for part in text.split(';'):
    name, _, rest = part.partition(':')
    values = [value.strip() for value in rest.split(',')]
    # 0.1 and 0.10 are the same value, of which one run would be idle.
    distinct = {value if _number(value) is None else _number(value)
                for value in values}
    well_formed = name.strip() and all(values)
    if not well_formed or len(distinct) < len(values) or name.strip() in table:
      raise ValueError(
          '`grid` must be a hyperparameter and distinct values, as'
          ' learning_rate:0.03,0.1,0.3, or several of those with semicolons in'
          f' between, found {text!r}.'
      )
    table[name.strip()] = values
  return Grid(
      tuple(table), [';'.join(v) for v in itertools.product(*table.values())]
  )


def with_options(variant: str, grid: Grid, value: str) -> str:
  """Returns the variant with a value of the grid, see `with_option`."""
  for name, own in grid.options(value).items():
    variant = with_option(variant, name, own)
  return variant


def with_option(variant: str, name: str, value: str) -> str:
  """Returns the variant with one option more in its brackets.

    with_option('fedper[split=norm]', 'learning_rate', '0.1')
    # 'fedper[split=norm,learning_rate=0.1]'

  Raises:
    ValueError: If it has that option already.
  """
  if name in brackets.parse(variant)[1]:
    raise ValueError(
        f'`algos` must leave {name} to `grid`, found {variant!r}.'
    )
  head = variant[:-1] + ',' if variant.endswith(']') else variant + '['
  return f'{head}{name}={value}]'


def choose(
    runs: Mapping[str, Mapping[str, Optional[results.Run]]]
) -> dict[str, Choice]:
  """Chooses for every variant the value that did best on validation data.

  The first one of several that did equally well. A run that diverged, or whose
  score is not finite, loses against every other.

  Args:
    runs: By variant, then by value; None if the run diverged.
  """
  finished = [
      run for own in runs.values() for run in own.values() if run is not None
  ]
  # On regression tasks the column is empty. Of runs that all diverged nobody
  # can say; then nothing is chosen by either.
  is_regression = bool(finished) and all(
      math.isnan(_validation(run, 'accuracy')) for run in finished
  )
  metric, best = ('loss', min) if is_regression else ('accuracy', max)
  choices = {}
  for variant, own in runs.items():
    scores = {
        value: math.nan if run is None else _validation(run, metric)
        for value, run in own.items()
    }
    finite = {v: score for v, score in scores.items() if math.isfinite(score)}
    choices[variant] = Choice(
        metric, scores, best(finite, key=finite.get, default=None)
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
    grid: Grid, choices: Mapping[str, Choice], has_new: bool
) -> list[str]:
  """Returns the columns of a table of chosen values.

  Args:
    grid: The grid.
    choices: By variant.
    has_new: Whether there are clients that never train.
  """
  return [
      'algo', *grid.names, 'at_border', 'validation', 'seeds',
      *(f'{prefix}{name}_{statistic}'
        for prefix in (_CLIENTS if has_new else [''])
        for name in _fields(choices)
        for statistic in ('mean', 'std')),
  ]


def rows(
    grid: Grid, choices: Mapping[str, Choice], runs: comparison.Runs
) -> list[dict[str, Any]]:
  """Returns a row per variant: its choice, and its test results over seeds.

  `*_mean` and `*_std` are over seeds (the latter divided by S - 1, None for one
  seed) of the mean over clients, and with `pooled_` of the mean weighted by
  test examples; with `new_` for clients that never train. A variant with a
  diverged seed has NaN.

  Args:
    grid: The grid.
    choices: By variant.
    runs: Those with the chosen values, by (variant, seed).
  """
  table = []
  for variant, choice in choices.items():
    own = [run for (name, _), run in runs.items() if name == variant]
    border = {None: None, True: 'yes', False: 'no'}[choice.at_border]
    scores = [f'{value}: {s:.4f}' for value, s in choice.scores.items()]
    chosen = dict.fromkeys(grid.names)
    if choice.value is not None:
      chosen = grid.options(choice.value)
    row = {
        'algo': variant, **chosen, 'at_border': border,
        'validation': '  '.join(scores), 'seeds': len(own),
    }
    for prefix, seen in _CLIENTS.items():
      found = [_over_clients(run, choice.metric, seen) for run in own]
      for name, field in _fields(choices).items():
        values = [getattr(one, field) for one in found]
        row[f'{prefix}{name}_mean'] = comparison.mean(values)
        row[f'{prefix}{name}_std'] = comparison.std(values)
    table.append(row)
  return table


def markdown(names: Sequence[str], table: Sequence[Mapping[str, Any]]) -> str:
  """Returns rows as a Markdown table, mean and deviation in one column."""
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


def _validation(run: results.Run, metric: str) -> float:
  """Returns the mean over clients in the last evaluated round."""
  return float(run.metrics[f'{metric}_validation'][-1])


def _over_clients(
    run: Optional[results.Run], metric: str, seen: int
) -> summary.Summary:
  """Returns the summary of a metric on test data; NaN if the run diverged."""
  values, examples = [], []
  if run is not None:
    which = run.clients['seen'] == seen
    values = run.clients[metric][which]
    examples = run.clients['num_test'][which]
  return summary.summarize(
      values, examples, higher_is_better=metric == 'accuracy'
  )


def _fields(choices: Mapping[str, Choice]) -> dict[str, str]:
  """Returns the fields of a summary that are shown, by their new names."""
  metric = next(iter(choices.values())).metric  # The same for all.
  return {metric: 'mean', f'pooled_{metric}': 'weighted_mean'}


def _number(text: str) -> Optional[float]:
  try:
    return float(text)
  except ValueError:
    return None
