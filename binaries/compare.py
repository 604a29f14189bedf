"""Compares methods, and variants of them, over seeds on one task.

    python -m binaries.compare --algos='perm,perm[lambda=0.1],local_only'
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import itertools
import sys
from typing import Any, Sequence

from tff_pers.evaluation import plots
from tff_pers.experiments import flags
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.experiments import timing

SUMMARY = """\
python -m binaries.compare --algos=A,B,... --seeds=0,1,2 [--flag=value ...]

Runs methods (or variants, as perm[lambda=0.1]) times seeds on one task, each as
a training run in OUTPUT_DIR/<variant>/seed<seed>. Finished runs are not run
again, interrupted ones are resumed. Writes runs.csv, summary.csv, summary.md,
tiers.csv (models of capacity tiers) and plots, at the end; in the folders of
the first seed are those that have no place in a comparison, as of mixing
weights (binaries.plot makes all of a run, also meanwhile). With --delays, or a
method that events drive, times.csv: the virtual time until an accuracy. A
method's flags apply to all its variants; brackets go before."""

DEFAULT_ALGOS = 'perm,fedavg_finetuned,fedavg,local_only'


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('compare', SUMMARY, flag_table, _compare, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return flags.all_flags(
      flags.own_flag('algos', DEFAULT_ALGOS, 'Variants to compare.'),
      flags.own_flag('seeds', '0', 'Seeds of the runs, as 0,1,2.'),
      timing.targets_flag(),
      flags.own_flag(
          'jobs', 1, 'Runs at a time, each in a process with cores of its own;'
          ' 0: as many as there are cores, at most 2.', minimum=0,
      ),
      without=('seed',),
  )


def _compare(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  variants = sweep_lib.parse_variants(given.get('algos', DEFAULT_ALGOS))
  seeds = sweep_lib.parse_seeds(given.get('seeds', '0'))
  targets = timing.parse_targets(given.get('targets', ''))
  with flags.sentences():
    given = timing.on_one_clock(given, variants)
  sweep = sweep_lib.of_flags('compare', given, table, variants)
  points = list(itertools.product(variants, seeds))
  sweep.check(points)
  with sweep:
    runs = sweep.run_all(
        points, processes=given.get('jobs', 1), draw=plots.plot_compared_run
    )
    text = sweep_lib.write(sweep.folder, runs)
    text += timing.write(sweep.folder, runs, targets)
  print(f'{text}\nResults are in {sweep.folder}.')
  return int(None in runs.values())


if __name__ == '__main__':
  sys.exit(main(sys.argv))
