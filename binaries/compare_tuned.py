"""Compares variants of methods, each tuned over a grid on validation data.

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
chooses the value with the best mean validation accuracy over clients (the loss
in regression; test data are not used), and trains with that value on all seeds.
A diverged run is never chosen; if a later seed diverges, the next best value
replaces it. --grid='A:1,2;B:3,4' tries all combinations of two hyperparameters
('perm.B' if only perm has B); all variants must have grids of equal size.

If the best value of a variant is at an end of its grid, the next value beyond
that end is tried too: at most three times, within the range of the
hyperparameter, and not if the value at the end diverged. Whenever one grid
grows, every other variant also gets one more trial. A best value that is still
at an end after that is marked.

Every run is a training run in OUTPUT_DIR/<variant>/seed<seed>, as in compare;
finished runs are not repeated, interrupted runs are resumed. Writes trials.csv,
runs.csv, summary.csv, summary.md, tiers.csv and the plots of compare."""

_DEFAULTS: dict[str, Any] = dict(
    algos='fedavg,fedavg_finetuned,local_only', seeds='0',
    grid='learning_rate:0.03,0.1,0.3', extensions=3, jobs=1,
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
          'One or more hyperparameters with the values to try.',
      ),
      flags.own_flag(
          'extensions', _DEFAULTS['extensions'],
          'How often a grid may grow while the best is at an end.', minimum=0,
      ),
      flags.own_flag(
          'seeds', _DEFAULTS['seeds'],
          'Seeds of the runs, such as 0,1,2; values are chosen on the first.',
      ),
      timing.targets_flag(),
      sweep.jobs_flag(_DEFAULTS['jobs']),
      sweep.validation_flag(_DEFAULTS['validation_fraction']),
      without=('seed', 'validation_fraction'),
  )


if __name__ == '__main__':
  sys.exit(main(sys.argv))
