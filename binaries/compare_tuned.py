"""Compares variants of methods, each with a value chosen by validation data.

    python -m binaries.compare_tuned --algos='fedavg,fedper,local_only' \
      --model=mlp --grid=learning_rate:0.03,0.1,0.3 --seeds=0,1,2
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Sequence

from tff_pers.experiments import flags
from tff_pers.experiments import sweep
from tff_pers.experiments import timing
from tff_pers.experiments import tuned_sweep

SUMMARY = """\
python -m binaries.compare_tuned --algos=A,B,... --grid=NAME:VALUE,VALUE,...
    --seeds=0,1,2 [--extensions=3] [--flag=value ...]

Trains every variant with each value of one hyperparameter on the first seed,
chooses the value with the best mean validation accuracy over clients (loss on
regression tasks; test data choose nothing), and trains with it on all seeds. A
run that diverges loses; a value with which that of a later seed does is given
up for the next best. --grid='A:1,2;B:3,4' tries all combinations of two, and
--grid='A:1,2;perm.B:3,4;apfl.C:5,6' those of A with one that the method alone
has; every variant must have a grid of the same size.

While the best value of a variant is at an end of its grid, the value beyond is
tried, too, in the ratio of the two outermost ones: three times at most, within
the hyperparameter's range, and not where that value diverged. Whenever one grid
grows, every other variant has one more trial as well, beyond its own end, or
between its best value and the better neighbour (the geometric mean). Of several
hyperparameters at whose ends the best is, that which gained the least is first,
the others stay as in the best; one with a single value, or with one that is no
number, does not grow. What is at a border after that is marked so.

All are training runs in OUTPUT_DIR/<variant>/seed<seed>, as those of compare:
finished runs are not run again, interrupted ones are resumed. Writes
trials.csv, runs.csv, summary.csv, summary.md, tiers.csv and the plots of
compare, of the chosen values, and of their runs of the first seed those that a
comparison does not have."""

_DEFAULTS: dict[str, Any] = dict(
    algos='fedavg,fedavg_finetuned,local_only', seeds='0',
    grid='learning_rate:0.03,0.1,0.3', extensions=3,
    validation_fraction=0.2,
)


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'compare_tuned', SUMMARY, flag_table, tuned_sweep.run, argv,
      defaults=_DEFAULTS,
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags; some have other defaults here."""
  return flags.all_flags(
      flags.own_flag('algos', _DEFAULTS['algos'], 'Variants to compare.'),
      flags.own_flag(
          'grid', _DEFAULTS['grid'],
          'A hyperparameter and the values to try; or several.',
      ),
      flags.own_flag(
          'extensions', _DEFAULTS['extensions'],
          'How often a grid may grow where the best value is at its end.',
          minimum=0,
      ),
      flags.own_flag(
          'seeds', _DEFAULTS['seeds'],
          'Seeds of the runs, as 0,1,2; values are chosen on the first.',
      ),
      timing.targets_flag(),
      sweep.validation_flag(_DEFAULTS['validation_fraction']),
      without=('seed', 'validation_fraction'),
  )


if __name__ == '__main__':
  sys.exit(main(sys.argv))
