"""Trials of a hyperparameter search: ranking, line, table.

A trial is a training run with some hyperparameters; its value is the mean over
clients of their validation accuracy (loss on regression tasks) in its last
evaluated round.
"""

import math
from typing import Any, Mapping, NamedTuple, Sequence

from tff_pers.evaluation import summary

# States in which a trial may be chosen. The value of a pruned trial is that of
# an early round, in which it was already behind.
MAY_WIN = ('complete', 'stopped')
COLUMNS = ('algo', 'trial', 'state', 'rounds', 'validation', 'seconds')


class Trial(NamedTuple):
  """A trial.

  Attributes:
    number: Its number, from 1; the first has the method's defaults on the task.
    state: `complete`: all rounds; `stopped`: time ran out; `pruned`: worse than
      others after as many rounds; `diverged`: NaN or infinity; `refused`: the
      method cannot be built with these values; `running`: begun and not ended.
    rounds: The last evaluated round, 0: none.
    validation: Its value; NaN: none.
    seconds: Wall-clock seconds that it took in total.
    values: Hyperparameters by flag name, those that are searched and act.
  """

  number: int
  state: str
  rounds: int
  validation: float
  seconds: float
  values: Mapping[str, Any]

  @property
  def has_defaults(self) -> bool:
    """Whether its values are the method's defaults on the task."""
    return self.number == 1

  @property
  def may_win(self) -> bool:
    """Whether it may be chosen."""
    return self.state in MAY_WIN and math.isfinite(self.validation)


def ranked(trials: Sequence[Trial], metric: str) -> list[Trial]:
  """Returns the trials that may be chosen, best first, then by number."""
  sign = -1 if summary.is_higher_better(metric) else 1
  return sorted(
      (trial for trial in trials if trial.may_win),
      key=lambda trial: (sign * trial.validation, trial.number),
  )


def line(trial: Trial, trials: Sequence[Trial], metric: str) -> str:
  """Returns the printed line of a trial that has ended, one of `trials`."""
  values = ' '.join(f'{name}={value}' for name, value in trial.values.items())
  parts = ['defaults: ' * trial.has_defaults + values]
  if math.isfinite(trial.validation):
    parts.append(f'{metric} {trial.validation:.4f}')
  if trial.state != 'complete':
    parts.append(f'{trial.state} after round {trial.rounds}')
  parts.append(f'{trial.seconds:.1f} s')
  best = next(iter(ranked(trials, metric)), trial)
  if best.number != trial.number:
    parts.append(f'best {best.validation:.4f} of trial {best.number}')
  return ', '.join(parts)


def table(
    trials: Mapping[str, Sequence[Trial]]
) -> tuple[list[str], list[dict[str, Any]]]:
  """Returns the columns and the rows of `trials.csv`."""
  names = list(dict.fromkeys(
      name for own in trials.values() for trial in own for name in trial.values
  ))
  rows = [
      dict(
          {name: trial.values.get(name) for name in names},
          algo=algo, trial=trial.number, state=trial.state,
          rounds=trial.rounds, validation=trial.validation,
          seconds=round(trial.seconds, 3),
      )
      for algo, own in trials.items() for trial in own
  ]
  return [*COLUMNS, *names], rows
