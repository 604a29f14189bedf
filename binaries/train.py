"""Trains one method on one task with one seed.

    python -m binaries.train --algo=perm --task=digits
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Mapping, Sequence

from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import exports
from tff_pers.experiments import flags
from tff_pers.experiments import runner

SUMMARY = """\
python -m binaries.train --algo=NAME --task=NAME [--flag=value ...]

Trains one method on one task with one seed. Writes config.json, metrics.csv,
clients.csv, checkpoint.sqlite, TensorBoard events and plots to --output_dir."""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('train', SUMMARY, flag_table, _train, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return flags.all_flags(
      flags.own_flag(
          'algo', runner.DEFAULT_ALGO,
          'Method, see above; brackets set its options: perm[lambda=0.1].',
      ),
      flags.own_flag(
          'fork', '',
          'Folder of a run: starts a new run from its last checkpoint, with its'
          ' flags unless others are given, such as another learning rate.',
      ),
      *exports.FLAGS,
  )


def _train(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  fork = flags.resolve_path(given['fork']) if given.get('fork') else ''
  folder = given.get('output_dir') or _default_folder(given, fork)
  experiment = runner.prepare(
      given, table, folder, resume=given.get('resume', False), fork=fork
  )
  runner.execute(experiment, folder, export=exports.request(given), fork=fork)
  return 0


def _default_folder(given: Mapping[str, Any], fork: str) -> str:
  """Returns runs/<algo>_<task>_seed<seed>, or for a fork <fork>_fork."""
  if fork:
    return f'{fork}_fork'
  algo = experiment_lib.folder_name(given.get('algo', runner.DEFAULT_ALGO))
  task = given.get('task', flags.DEFAULTS['task'])
  seed = given.get('seed', flags.DEFAULTS['seed'])
  return flags.resolve_path(os.path.join('runs', f'{algo}_{task}_seed{seed}'))


if __name__ == '__main__':
  sys.exit(main(sys.argv))
