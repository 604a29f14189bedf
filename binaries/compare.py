"""Compares methods and their variants over seeds on one task.

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
number: FedBuff takes fewer server updates than FedAsync.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import sweep
from tff_pers.experiments import timing

main = flags.Program(
    'compare', __doc__, sweep.compare,
    flags.own_flag(
        'algos', 'perm,fedavg_finetuned,fedavg,local_only',
        'Variants to compare.',
    ),
    flags.own_flag('seeds', '0', 'Seeds of the runs, such as 0,1,2.'),
    timing.TARGETS_FLAG, sweep.jobs_flag(1), without=('seed',), resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
