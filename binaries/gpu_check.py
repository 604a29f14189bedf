"""Checks that a GPU gives correct, repeatable results, and how fast.

    python -m binaries.gpu_check [--parts=methods,speed,edges] [--device=gpu:0]
    python -m binaries.gpu_check --device=stand_in  # On a second CPU.

Checks whether the fused runtime is correct and bit-reproducible on this GPU,
and faster than on the CPU. `methods` runs three rounds of every method on the
tiny task of the contract tests, and two rounds of every workload of
benchmark_runtime, on the GPU, on the CPU, and on the GPU again with the same
seed. `speed` times the workloads on both, beside the same maths written by
hand. `edges` needs no GPU: it reads from traces how many tensors per round move
between host and device, and counts the bytes sent to a second CPU. Writes
gpu_report.md, methods.csv, speed.csv and edges.csv to --output_dir. The exit
code is 1 if a part fails, differs from the CPU or is not bit-identical.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys

from binaries.speed import gpu_check
from binaries.speed import workloads
from tff_pers.experiments import flags

main = flags.Program(
    'gpu_check', __doc__, gpu_check.run,
    flags.own_flag(
        'device', 'gpu',
        f'The GPU: gpu, gpu:1; {gpu_check.STAND_IN}: a second logical CPU that'
        ' treats clients as a GPU does (vectorized).',
    ),
    flags.own_flag(
        'parts', 'methods,speed', f'Parts, of {", ".join(gpu_check.PARTS)}.'
    ),
    flags.own_flag('methods', 'all', 'Methods; all, none or a list.'),
    flags.own_flag(
        'workloads', ','.join(workloads.WORKLOADS),
        'Workloads of benchmark_runtime; none: none.',
    ),
    flags.own_flag('rounds', 7, 'Measured rounds of each.', minimum=1),
    flags.own_flag(
        'jobs', max(1, (os.cpu_count() or 1) // 2),
        'Processes at once in `methods`, half of them on the GPU, and in'
        ' `edges`.', minimum=1,
    ),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: runs/gpu_check.'
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
