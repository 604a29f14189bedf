"""How long a run trains: `--rounds=auto`, and rounds that fit own data."""

import dataclasses
import math
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import numpy as np

from tff_pers.config import cadence as cadence_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.data import fitting_rounds
from tff_pers.data import on_demand
from tff_pers.data import task as task_lib
from tff_pers.evaluation import stopping
from tff_pers.evaluation import summary
from tff_pers.experiments import flags

AUTO = 'auto'
# A class with a smaller share of the rows is rare.
_RARE = 0.2
# Of --validation_fraction, where something is chosen.
_VALIDATION_FRACTION = 0.2
# A run that validation data do not end has so many times the default rounds.
_DEFAULTS_AT_MOST = 5


def with_validation(given: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the flags, with validation data where they decide on the rounds.

  Raises:
    flags.UsageError: If they are to decide and there are none, or a flag has no
      effect because they are not.
  """
  if given.get('rounds') != AUTO:
    for name in ('patience', 'max_rounds'):
      if given.get(name):
        raise flags.UsageError(
            f'`--{name}` must be left out without --rounds=auto, found'
            f' {given[name]}.'
        )
    return dict(given)
  whole = {'validation_fraction': _VALIDATION_FRACTION, **given}
  if not whole['validation_fraction']:
    raise flags.UsageError(
        '`--validation_fraction` must be > 0 with --rounds=auto, found'
        f' {whole["validation_fraction"]}.'
    )
  return whole


def settle(
    task: task_lib.Task, given: Mapping[str, Any], hyperparameters: Any,
    chosen_by: str,
) -> tuple[task_lib.Task, Optional[stopping.Rule]]:
  """Returns the task with its rounds, and when they end before; None: never.

  Args:
    task: The task, with the shared flags applied.
    given: Values of the flags that were given.
    hyperparameters: Of the method.
    chosen_by: What validation data choose by, see `metric`.

  Raises:
    flags.UsageError: If no models would be compared before the last round, or
      none of those that are alike.
  """
  cohort_size = task.clients_per_round or task.num_clients
  if 'rounds' not in given or given['rounds'] == AUTO:
    task = dataclasses.replace(
        task, rounds=_fitting(task, cohort_size, hyperparameters)
    )
  if given.get('rounds') != AUTO:
    return task, None
  cadence = hyperparameters.cadence(task.num_clients, cohort_size)
  rule = stopping.Rule(
      chosen_by,
      given.get('patience', flags.DEFAULTS['patience']), cadence,
  )
  return dataclasses.replace(
      task, rounds=_at_most(task, given, cadence),
      eval_every=_eval_every(task, given, cadence),
  ), rule


def metric(task: task_lib.Task, asked: str) -> str:
  """Returns what validation data choose by.

  Args:
    task: The task.
    asked: `--metric`.

  Raises:
    flags.UsageError: If the task has no such metric.
  """
  usual = 'accuracy' if task.num_classes else 'loss'
  others: Sequence[str] = ()
  if task.model.has_one_label:
    others = (
        *(summary.OF_LABELS if task.num_classes else summary.OF_TARGETS),
        *task.metrics,
    )
  if asked not in ('auto', usual, 'loss', *others):
    raise flags.UsageError(
        f'`--metric` must be of auto, {", ".join((usual, "loss", *others))} on'
        f' this task, found {asked!r}.'
    )
  if asked != 'auto':
    return asked
  if not task.about or not others:
    return usual
  if not task.num_classes:
    return 'rmse'
  counts = None if task.class_counts is None else task.class_counts.sum(axis=0)
  if counts is None or len(counts) != 2 or min(counts) >= _RARE * sum(counts):
    return usual
  both = [
      len(np.unique(client['examples']['y'])) == 2
      for client in task.validation or ()
  ]
  return 'auc' if np.mean(both or [False]) >= 0.5 else 'loss'


def _fitting(task: task_lib.Task, cohort_size: int, hyperparameters) -> int:
  """Returns the default of `--rounds`."""
  if not task.fits_rounds:
    return task.rounds
  sizes = on_demand.sizes(task.train)
  mean = int(sizes.sum()) / len(sizes)
  passes = 0.0
  if isinstance(hyperparameters, hp.LocalBatches):
    passes = hyperparameters.num_visited(math.ceil(mean)) / mean
  return fitting_rounds.number(task.num_clients, cohort_size, passes)


def _at_most(
    task: task_lib.Task, given: Mapping[str, Any], cadence: cadence_lib.Cadence
) -> int:
  """Returns `--max_rounds`."""
  most = given.get('max_rounds') or (
      cadence.first + _DEFAULTS_AT_MOST * task.rounds
  )
  if most <= cadence.first:
    raise flags.UsageError(
        f'`--max_rounds` must be > {cadence.first}, the first rounds, after'
        f' which the models of this method are compared, found {most}.'
    )
  return most


def _eval_every(
    task: task_lib.Task, given: Mapping[str, Any], cadence: cadence_lib.Cadence
) -> int:
  """Returns `--eval_every`; ends of cycles are evaluated if they must be."""
  if not cadence.at_ends:
    return task.eval_every
  largest = math.gcd(cadence.first, cadence.cycle)
  if 'eval_every' not in given:
    return largest
  if largest % task.eval_every:
    raise flags.UsageError(
        f'`--eval_every` must divide {largest} with --rounds=auto, because'
        f' models are compared at ends of epochs of {cadence.cycle} rounds,'
        f' after the first {cadence.first}, found {task.eval_every}.'
    )
  return task.eval_every


class Ending:
  """Says after each evaluated round whether a run ends.

  Attributes:
    is_over: Whether the rounds before have ended it.
  """

  def __init__(
      self, rule: Optional[stopping.Rule],
      rows: Iterable[Mapping[str, Any]],
      is_enough: Callable[[Mapping[str, Any]], bool],
  ):
    """Sees the rounds before.

    Args:
      rule: When validation data end it, None: they do not.
      rows: Of the metrics of the rounds before, see `saved_runs.rows`.
      is_enough: Who may end it, too.
    """
    self._watch = None if rule is None else stopping.Watch(rule)
    self._is_enough = is_enough
    self.is_over = any([self._sees(row) for row in rows])

  def __call__(self, row: Mapping[str, Any]) -> bool:
    """Takes a row of metrics, with its `round`."""
    return self._sees(row) or self._is_enough(row)

  def _sees(self, row: Mapping[str, Any]) -> bool:
    return self._watch is not None and self._watch(row)

  def sentence(self, round_num: int) -> str:
    """Says why the run ended with a round; '' if all were asked for."""
    return '' if self._watch is None else self._watch.sentence(round_num)
