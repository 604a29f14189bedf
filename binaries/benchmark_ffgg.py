"""Reproduces Figure 1 of the partial personalization paper.

    python -m binaries.benchmark_ffgg --output_dir=DIR [--rounds=1000]
        [--taus=...]

Figure 1: the norm of F, the mean gradient after fine-tuning, against rounds.
Panel (a) is FFGG with conjugate gradient, (b) to (d) FFGG with gradient descent
against Local GD, Scaffold and L2GD with as many local steps, on the
overpersonalized task and on its control. All clients in every round, full
gradients, float64, fused runtime. A round of L2GD is one `next`: local steps
until the coin first says to average, which takes 1 / p = tau steps on average.

A round at the paper's scale takes about 0.05 CPU seconds per 100 of tau; each
curve first compiles for up to a minute, which --strategy=loop avoids. The whole
figure takes about two hours on one core; --taus=100 takes 20 minutes.

Writes a CSV file per curve, figure1.csv, and a figure per task. Rerun the same
command to resume after the last finished curve.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.ffgg_benchmark import running
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_ffgg', __doc__, running.run,
    flags.own_flag('rounds', 1000, 'Rounds of each curve.', minimum=1),
    flags.own_flag('every', 10, 'Rounds between two points.', minimum=1),
    flags.own_flag(
        'taus', '100,200,500', 'Local steps of the panels (b), (c), ...'
    ),
    flags.own_flag(
        'cg_taus', '1,2,3,5,10,20',
        'Iterations of conjugate gradient in panel (a).',
    ),
    flags.own_flag(
        'tasks', ','.join(running.TASKS), 'Tasks; one figure for each.'
    ),
    flags.own_flag(
        'scale', 'paper', 'Scale of the tasks.', choices=('paper', 'tiny')
    ),
    flags.own_flag('seed', 0, 'Seed of data and coins.', minimum=0),
    flags.own_flag(
        'strategy', 'xla', 'Strategy of the fused runtime: xla compiles for a'
        ' minute per curve, then takes a quarter of the time per round.',
    ),
    flags.own_flag(
        'device', '', 'cpu or gpu; empty: the GPU if there is one.'
    ),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: runs/figure1.'
    ),
    resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
