"""Decides how many rounds a run trains: `--rounds=auto`, own data."""

import dataclasses
import math
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tff_pers.config import cadence as cadence_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.data import fitting_rounds
from tff_pers.data import task as task_lib
from tff_pers.evaluation import quality
from tff_pers.evaluation import results
from tff_pers.evaluation import stopping
from tff_pers.evaluation import summary
from tff_pers.experiments import flags
from tff_pers.experiments import outputs

AUTO = 'auto'
# A class with a smaller share of the rows is rare.
_RARE = 0.2
# Default of --validation_fraction with --rounds=auto.
_VALIDATION_FRACTION = 0.2
# Upper bound on rounds, as a multiple of the default rounds.
_DEFAULTS_AT_MOST = 5
_TAKEN = (
    *results.CLIENT_COLUMNS, *results.VALIDATION_COLUMNS, *quality.NAMES
)


def with_validation(given: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the flags; with --rounds=auto, with validation data.

  Raises:
    flags.UsageError: If --rounds=auto has no validation data, or a flag has no
      effect without --rounds=auto.
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
  """Returns the task with its rounds, and the stopping rule; None: no rule.

  Shared flags have been applied to the task; `chosen_by` is the metric of
  validation data that decides, see `metric`.

  Raises:
    flags.UsageError: If no models would be compared before the last round, or
      evaluations would not fall on comparable rounds.
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
  """Returns the metric of validation data by which choices are made.

  Raises:
    flags.UsageError: If the task has no such metric as `--metric` asked for, or
      one of its own has the name of a column of the results.
  """
  taken = {*_TAKEN, *outputs.own_metrics(task.model)}
  for name in task.metrics:
    if name in taken or not summary.is_higher_better(name):
      raise flags.UsageError(
          f'`metrics` of the task {task.name} must have names that no column of'
          ' clients.csv or validation.csv and no metric of an error has, found'
          f' {name!r}.'
      )
  usual = 'accuracy' if task.num_classes else 'loss'
  others: Sequence[str] = ()
  if task.model.has_one_label:
    others = (
        *(summary.OF_LABELS if task.num_classes else summary.OF_TARGETS),
        *task.metrics,
    )
  known = dict.fromkeys(('auto', usual, 'loss', *others))
  if asked not in known:
    raise flags.UsageError(
        f'`--metric` must be one of {", ".join(known)} on this task, found'
        f' {asked!r}.'
    )
  if asked != 'auto':
    return asked
  if not task.fits_rounds or not others:
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
  sizes = task.sizes
  mean = int(sizes.sum()) / len(sizes)
  passes = 0.0
  if isinstance(hyperparameters, hp.LocalBatches):
    passes = hyperparameters.num_visited(math.ceil(mean)) / mean
  return fitting_rounds.number(task.num_clients, cohort_size, passes)


def _at_most(
    task: task_lib.Task, given: Mapping[str, Any], cadence: cadence_lib.Cadence
) -> int:
  """Returns the value or default of `--max_rounds`."""
  most = given.get('max_rounds') or (
      cadence.first + _DEFAULTS_AT_MOST * task.rounds
  )
  if most <= cadence.first:
    raise flags.UsageError(
        f'`--max_rounds` must be > {cadence.first}, because models of this'
        f' method are compared only after that many rounds, found {most}.'
    )
  return most


def _eval_every(
    task: task_lib.Task, given: Mapping[str, Any], cadence: cadence_lib.Cadence
) -> int:
  """Returns `--eval_every`, such that comparable rounds are evaluated."""
  if not cadence.at_ends:
    return task.eval_every
  largest = math.gcd(cadence.first, cadence.cycle)
  if 'eval_every' not in given:
    return largest
  if largest % task.eval_every:
    raise flags.UsageError(
        f'`--eval_every` must divide {largest} with --rounds=auto, because'
        f' models are compared at the ends of epochs of {cadence.cycle} rounds'
        f' after the first {cadence.first}, found {task.eval_every}.'
    )
  return task.eval_every
