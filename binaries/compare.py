"""Compares methods and their variants over seeds on one task.

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
from tff_pers.experiments import outputs
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.experiments import timing

SUMMARY = """\
python -m binaries.compare --algos=A,B,... --seeds=0,1,2 [--flag=value ...]

Runs each method (or variant, such as perm[lambda=0.1]) with each seed on one
task, as a training run in OUTPUT_DIR/<variant>/seed<seed>. Finished runs are
not repeated; interrupted runs are resumed. At the end, writes runs.csv,
summary.csv, summary.md, tiers.csv (models of capacity tiers) and plots; plots
that cannot be compared, such as mixing weights, go to the folders of the first
seed (binaries.plot draws all plots of a run at any time). With --delays or an
event-driven method, also writes times.csv: the virtual time to an accuracy. A
method's flags apply to all its variants; bracket options override them.
--rounds gives all variants equally many messages, those of a round times this
number: FedBuff takes fewer server updates than FedAsync."""

DEFAULT_ALGOS = 'perm,fedavg_finetuned,fedavg,local_only'


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('compare', SUMMARY, flag_table, compare, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return flags.all_flags(
      flags.own_flag('algos', DEFAULT_ALGOS, 'Variants to compare.'),
      flags.own_flag('seeds', '0', 'Seeds of the runs, such as 0,1,2.'),
      timing.targets_flag(),
      sweep_lib.jobs_flag(1),
      without=('seed',),
  )


def compare(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  """Trains the variants and writes their tables; 1 if a run diverged.

  Args:
    given: Values of the flags that were given.
    table: All flags.

  Raises:
    flags.UsageError: If flags conflict or cannot be carried out.
  """
  variants = sweep_lib.parse_variants(given.get('algos', DEFAULT_ALGOS))
  seeds = sweep_lib.parse_seeds(given.get('seeds', '0'))
  targets = timing.parse_targets(given.get('targets', ''))
  with flags.usage_errors():
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
  print(f'{text}\n{outputs.where(sweep.folder)}')
  return int(None in runs.values())


if __name__ == '__main__':
  sys.exit(main(sys.argv))
