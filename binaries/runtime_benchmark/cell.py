"""One cell of the table: a workload on a runtime, in a process of its own.

Started by `child.Child`: plays a round for each line that it reads.
"""

import sys

import tensorflow as tf

from binaries.runtime_benchmark import floor
from binaries.runtime_benchmark import lines
from binaries.runtime_benchmark import processes
from binaries.runtime_benchmark import workloads
from tff_pers import runtime as runtimes

RUNTIMES = ('native', 'fused', 'loop')
SOAK = 'soak'


def main() -> None:
  name, runtime, device = sys.argv[1:]
  if runtime == 'native' or device == 'cpu':
    tf.config.set_visible_devices([], 'GPU')
  has_gpu = bool(tf.config.get_visible_devices('GPU'))
  if device == 'gpu' and runtime != 'native' and not has_gpu:
    raise SystemExit('TensorFlow sees no GPU')
  lines.serve(build(name, runtime).play, 'gpu' if has_gpu else 'cpu')


def build(name: str, runtime: str):
  """Returns an object with `play`, one round of a workload on a runtime."""
  if runtime == 'loop':
    return floor.build(workloads.WORKLOADS[name])
  runtimes.use(runtime)
  if name == SOAK:
    return processes.VaryingCohorts(workloads.WORKLOADS['W1'])
  return processes.build(workloads.WORKLOADS[name])


if __name__ == '__main__':
  main()
