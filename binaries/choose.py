"""Recommends a method for your clients and shows whom it would hurt.

    python -m binaries.choose --task=npz --data_dir=FILE --budget=20m
        [--algos=A,B] [--trials=N] [--seeds=0,1,2] [--splits=K]
        [--flag=value ...]

Recommends a method for a task, usually for your own data. It runs every method
with its defaults, searches the hyperparameters of each for the same time (see
tune), trains the chosen values with all seeds, and writes choice.html, a page
that opens in any browser, with choice.md, choice.csv, differences.csv,
trials.csv, best.json and plots. The page compares every method to the
recommended one on the same clients, and shows which clients a method hurts and
what it costs. Only validation data decide; among methods that they cannot tell
apart, the first in --algos is recommended, so list simple methods first. A
short --budget reduces first the seeds, then the methods; --trials replaces it
by a number of trials per method. After a kill, or with a larger --budget, rerun
the command to resume.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import choice
from tff_pers.experiments import flags
from tff_pers.experiments import kept_runs
from tff_pers.experiments import sweep

main = flags.Program(
    'choose', __doc__, choice.run,
    flags.own_flag(
        'algos', '', 'Variants to choose from, simple ones first; empty: those'
        f' of {", ".join(choice.DEFAULT_ALGOS)} that fit the task.'
    ),
    flags.own_flag(
        'budget', choice.BUDGET,
        'Total time, such as 90s, 20m or 1.5h; not with --trials.',
    ),
    flags.own_flag(
        'trials', 0, 'Trials per method, however long they take; 0: use'
        ' --budget.', minimum=0,
    ),
    flags.own_flag(
        'seeds', '0,1,2',
        'Seeds of the final runs, such as 0,1,2; trials use the first.',
    ),
    flags.own_flag(
        'splits', 1, 'Random splits of the rows on which final runs are'
        ' repeated, one seed each (more than --seeds adds seeds); above 1,'
        ' intervals include the noise of splitting.', minimum=1,
    ),
    sweep.jobs_flag(0), kept_runs.FLAG, sweep.VALIDATION_FLAG,
    without=('seed',), fills=('seeds', 'jobs', 'validation_fraction'),
    resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
