"""Puts rounds and events on one virtual clock, and tables their times."""

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


# Of programs that compare.
TARGETS_FLAG = flags.own_flag(
    'targets', '', 'Accuracies, such as 0.5,0.7 (distances or losses if there'
    ' are none), whose virtual time is in times.csv; empty: what all variants'
    ' reach.'
)


def on_one_clock(
    given: Mapping[str, Any], variants: Sequence[str]
) -> dict[str, Any]:
  """Returns flags with delays if any variant of a comparison is event-driven.

  Rounds then have a clock too: the default delays of events.

  Raises:
    ValueError: If a method is unknown, or events cannot drive it.
  """
  def driver(variant):
    name, options = brackets.parse(variant)
    return events.driver_of(methods.get(name), {**given, **options})
  if any([driver(variant) == 'events' for variant in variants]):
    return {'delays': events.DEFAULT_DELAYS, **given}
  return dict(given)


def parse_targets(text: str) -> list[float]:
  """Returns the numbers of `--targets`.

  Raises:
    flags.UsageError: If one is not a number > 0.
  """
  try:
    targets = [float(item) for item in text.split(',') if item]
  except ValueError:
    targets = [0.0]
  if not all(0.0 < target < float('inf') for target in targets):
    raise flags.UsageError(
        '`--targets` must be numbers > 0 with commas between them, such as'
        f' 0.5,0.7, found {text!r}.'
    )
  return targets


def write(
    top: str, runs: comparison.Runs, targets: Sequence[float]
) -> str:
  """Writes `times.csv` if the runs have a clock; returns the table to print.

  Diverged runs have no time; they are named below the table to print. A table
  of other runs is removed.
  """
  finished = [run for run in runs.values() if run is not None]
  path = os.path.join(top, CSV)
  if not times.are_timed(finished):
    if os.path.exists(path):
      os.remove(path)
    return ''
  rows = times.rows(finished, targets)
  results.write_csv(path, times.COLUMNS, rows)
  diverged = ', '.join(
      f'{variant} with seed {seed}'
      for (variant, seed), run in runs.items() if run is None
  )
  return (
      f'\n\nVirtual time:\n\n{results.markdown(times.COLUMNS, rows)}'
      + f'\n\nDiverged, and not in this table: {diverged}.' * bool(diverged)
  )
