"""Compares the runtimes to each other and to hand-written TensorFlow.

    python -m binaries.benchmark_runtime [--workloads=W1,W2] [--runtimes=A,B]

Measures CPU seconds of all processes, wall seconds and peak memory per round,
for each workload on each runtime; `loop` is the same maths written by hand, as
one tf.function. Writes runtime.csv and a bar chart (PNG, SVG) to --output_dir.

Every pair of workload and runtime has its own process, so that its memory and
first rounds are measured separately; the runtimes of a workload run their
rounds in turn, so that machine load affects all alike. Medians over rounds.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import cell
from binaries.speed import runtime
from binaries.speed import workloads
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_runtime', __doc__, runtime.run,
    flags.own_flag(
        'workloads', ','.join(workloads.WORKLOADS),
        'Workloads to run; W6 means both of its forms. '
        + '; '.join(f'{k}: {w.title}' for k, w in workloads.WORKLOADS.items())
        + '.',
    ),
    flags.own_flag(
        'runtimes', ','.join(cell.RUNTIMES),
        'Runtimes, of ' + ', '.join(cell.RUNTIMES) + '.',
    ),
    flags.own_flag('rounds', 7, 'Measured rounds of each.', minimum=1),
    flags.own_flag(
        'device', '',
        'Device of fused, loop and FedJAX: cpu, gpu, gpu:1; empty: the GPU if'
        ' there is one. The native runtime uses the CPU only.',
    ),
    flags.own_flag(
        'fedjax_python', '',
        'Python of an environment with FedJAX, to compare to (W1 to W5).'
    ),
    flags.own_flag(
        'soak_rounds', 0,
        'Instead of the table: runs so many rounds of W1 on fused with varying'
        ' cohorts, and reports whether memory grows.', minimum=0,
    ),
    flags.own_flag(
        'ragged_clients', 0,
        'Instead of the table: the cost of so many clients with vectors of'
        ' different lengths on fused, beside equal lengths.', minimum=0,
    ),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: runs/runtime.'
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
