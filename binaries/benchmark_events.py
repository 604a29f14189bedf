"""Measures what simulating events costs, with few and with many clients.

    python -m binaries.benchmark_events
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import json
import os
import sys
from typing import Any, Sequence

from binaries.speed import events
from binaries.speed import harness
from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.experiments import flags

SUMMARY = """\
python -m binaries.benchmark_events [--updates=2000] [--flag=value ...]

Runs FedAsync of a logistic regression, one message after the other, with 50
clients and with 10,000, each in its own process, and reports the CPU seconds of
a server update, the share of the time spent outside TensorFlow, and the memory
at the beginning and at the end. Writes events.csv and events.md."""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'benchmark_events', SUMMARY, flag_table, _benchmark, argv
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag(
          'sizes', '50:25,10000:500',
          'Clients, and how many of them in flight.',
      ),
      flags.own_flag(
          'updates', 2000, 'Number of measured server updates.', minimum=1
      ),
      flags.own_flag(
          'measure', '', 'Measures one size in this process and prints JSON.'
      ),
      flags.own_flag(
          'output_dir', '', 'Folder of the results; empty: runs/events.'
      ),
  ])


def _benchmark(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  given = {**flags.own_defaults(table), **given}
  updates = given['updates']
  if given['measure']:
    row = events.measure(*events.parse_size(given['measure']), updates)
    print(json.dumps(row))
    return 0
  folder = given['output_dir'] or flags.resolve_path('runs/events')
  # All are checked before the first is measured.
  sizes = [events.parse_size(text) for text in given['sizes'].split(',')]
  rows = []
  for clients, in_flight in sizes:
    print(f'{clients} clients, {in_flight} in flight ...', flush=True)
    rows.append(harness.in_own_process(
        'binaries.benchmark_events', measure=f'{clients}:{in_flight}',
        updates=updates,
    ))
  os.makedirs(folder, exist_ok=True)
  results.write_csv(os.path.join(folder, 'events.csv'), events.COLUMNS, rows)
  text = results.markdown(events.COLUMNS, rows)
  costs = [row['cpu_seconds_per_update'] for row in rows]
  text += f'\n\nLast / first CPU seconds: {costs[-1] / costs[0]:.2f}.\n'
  files.write_text(os.path.join(folder, 'events.md'), text)
  print(f'{text}Results are in {folder}.')
  return 0


if __name__ == '__main__':
  sys.exit(main(sys.argv))
