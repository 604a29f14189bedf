"""Rounds and events on one virtual clock, and the table of their times."""

import os
from typing import Any, Mapping, Sequence

from tff_pers.config import methods
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import results
from tff_pers.evaluation import times
from tff_pers.experiments import events
from tff_pers.experiments import flags

CSV = 'times.csv'


def targets_flag() -> tuple[str, flags.Flag]:
  """Returns --targets of programs that compare."""
  return flags.own_flag(
      'targets', '', 'Accuracies (distances or losses where there is none), as'
      ' 0.5,0.7, whose virtual time is in times.csv; empty: what all variants'
      ' come to.'
  )


def on_one_clock(
    given: Mapping[str, Any], variants: Sequence[str]
) -> dict[str, Any]:
  """Returns the flags of a comparison, with delays if events drive a variant.

  Then its rounds have a clock too: the delays that events have by default.

  Raises:
    ValueError: If a method is unknown, or events cannot drive it.
  """
  def driver(variant):
    name, options = brackets.parse(variant)
    asked = options.get('driver', given.get('driver'))
    return events.driver_of(
        methods.get(name), {} if asked is None else dict(driver=asked)
    )
  if any([driver(variant) == 'events' for variant in variants]):
    return {'delays': events.DEFAULT_DELAYS, **given}
  return dict(given)


def parse_targets(text: str) -> list[float]:
  """Returns the numbers of `--targets`.

  Raises:
    flags.UsageError: If one is no number > 0.
  """
  try:
    targets = [float(item) for item in text.split(',') if item]
  except ValueError:
    targets = [0.0]
  if not all(0.0 < target < float('inf') for target in targets):
    raise flags.UsageError(
        '`--targets` must be numbers > 0 with commas between them, as 0.5,0.7,'
        f' found {text!r}.'
    )
  return targets


def write(
    top: str, runs: comparison.Runs, targets: Sequence[float]
) -> str:
  """Writes `times.csv` if the runs have a clock; returns the table to print.

  A table of other runs is removed.
  """
  finished = [run for run in runs.values() if run is not None]
  path = os.path.join(top, CSV)
  if not times.are_timed(finished):
    if os.path.exists(path):
      os.remove(path)
    return ''
  rows = times.rows(finished, targets)
  results.write_csv(path, times.COLUMNS, rows)
  return f'\n\nVirtual time:\n\n{results.markdown(times.COLUMNS, rows)}'
