"""Tunes the hyperparameters of methods with equal effort for each.

    python -m binaries.tune --algos=A,B,... --trials=20 --seeds=0,1,2
        [--budget=20m] [--flag=value ...]

Searches the hyperparameters of every variant with Optuna, in the ranges that
its method declares; hyperparameters set by flags or brackets are not searched.
The first trial uses the method's defaults on the task. A trial that is behind
most others after as many rounds is pruned. The trial with the best mean
validation accuracy over clients (loss in regression) wins; test data are not
used. Its values are then trained with all seeds. Every variant has the same
number of trials, or with --budget the same time: the budget is the time of all
searches, --jobs of them in parallel, and excludes the runs with all seeds. To
resume after a kill, rerun the command, also with more --trials; no trial is
lost or repeated, and several processes may share the work. The column near_end
lists chosen values within a tenth of an end of their range. Writes trials.csv,
best.json, runs.csv, summary.csv, summary.md and plots; the studies and all runs
are in OUTPUT_DIR/<variant>.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import kept_runs
from tff_pers.experiments import search
from tff_pers.experiments import sweep

main = flags.Program(
    'tune', __doc__, search.run,
    flags.own_flag(
        'algos', 'fedavg,fedavg_finetuned,local_only', 'Variants to tune.'
    ),
    flags.own_flag(
        'trials', search.TRIALS, 'Trials per variant; not with --budget.',
        minimum=1,
    ),
    flags.own_flag(
        'budget', '', 'Total time of all searches, such as 90s, 20m or 1.5h, in'
        ' equal parts per variant; empty: use --trials.'
    ),
    flags.own_flag(
        'seeds', '0,1,2',
        'Seeds of the final runs, such as 0,1,2; trials use the first.',
    ),
    sweep.jobs_flag(0), kept_runs.FLAG, sweep.VALIDATION_FLAG,
    without=('seed',),
    fills=('algos', 'seeds', 'jobs', 'validation_fraction'), resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
