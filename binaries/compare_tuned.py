"""Compares variants of methods, each tuned over a grid on validation data.

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
runs.csv, summary.csv, summary.md, tiers.csv and the plots of compare.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import sweep
from tff_pers.experiments import timing
from tff_pers.experiments import tuned_sweep

main = flags.Program(
    'compare_tuned', __doc__, tuned_sweep.run,
    flags.own_flag(
        'algos', 'fedavg,fedavg_finetuned,local_only', 'Variants to compare.'
    ),
    flags.own_flag(
        'grid', 'learning_rate:0.03,0.1,0.3',
        'One or more hyperparameters with the values to try.',
    ),
    flags.own_flag(
        'extensions', 3,
        'How often a grid may grow while the best is at an end.', minimum=0,
    ),
    flags.own_flag(
        'seeds', '0',
        'Seeds of the runs, such as 0,1,2; values are chosen on the first.',
    ),
    timing.TARGETS_FLAG, sweep.jobs_flag(1), sweep.VALIDATION_FLAG,
    without=('seed',), resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
