"""Trains one method on one task with one seed.

    python -m binaries.train --algo=perm --task=digits
"""

from binaries import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Mapping, Sequence

from binaries import experiment as experiment_lib
from binaries import flags
from binaries import runner

SUMMARY = """\
python -m binaries.train --algo=NAME --task=NAME [--flag=value ...]

Trains one method on one task with one seed. Writes config.json, metrics.csv,
clients.csv, checkpoint.sqlite, TensorBoard events and plots to --output_dir."""


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('train', _train, argv)


def _train(argv: Sequence[str]) -> int:
  table = flags.all_flags(
      flags.own_flag(
          'algo', runner.DEFAULT_ALGO,
          'Method, see above; brackets set its options: perm[lambda=0.1].',
      ),
      flags.own_flag(
          'export_clients', '',
          'Clients whose weights are written to export/, as 3,17 or alice,bob.',
      ),
  )
  if flags.wants_help(argv):
    print(flags.help_text(SUMMARY, table, argv))
    return 0
  given = flags.parse(argv, table)
  folder = given.get('output_dir') or _default_folder(given)
  experiment = runner.prepare(
      given, table, folder, resume=given.get('resume', False)
  )
  runner.execute(experiment, folder, export=given.get('export_clients', ''))
  return 0


def _default_folder(given: Mapping[str, Any]) -> str:
  """Returns runs/<algo>_<task>_seed<seed>."""
  algo = experiment_lib.folder_name(given.get('algo', runner.DEFAULT_ALGO))
  task = given.get('task', flags.DEFAULTS['task'])
  seed = given.get('seed', flags.DEFAULTS['seed'])
  return flags.resolve_path(os.path.join('runs', f'{algo}_{task}_seed{seed}'))


if __name__ == '__main__':
  run()
