"""Measures one cell of the table, a workload on a runtime, in a process.

Started by `child.Child`; runs a round for each line that it reads.
"""

import sys

import tensorflow as tf

from binaries.speed import floor
from binaries.speed import lines
from binaries.speed import processes
from binaries.speed import workloads
from tff_pers.runtime import fused
from tff_pers.runtime.fused import devices
from tff_pers.runtime import native

RUNTIMES = ('native', 'fused', 'loop')
SOAK = 'soak'
# Followed by a colon and the number of clients.
EQUAL, RAGGED = 'equal', 'ragged'


def main() -> None:
  name, runtime, device = sys.argv[1:]
  device = _choose_device(runtime, device)
  kind = 'cpu' if device == 'cpu' else 'gpu'
  rounds = build(name, runtime, device)

  def play():
    rounds.play()
    # Devices may still be computing when a call returns.
    tf.test.experimental.sync_devices()

  lines.serve(play, kind)


def _choose_device(runtime: str, device: str) -> str:
  """Hides unused devices; returns the device of the fused runtime."""
  first = fused.find_devices(device or None)[0]
  if runtime == 'native' or first == '/CPU:0':
    tf.config.set_visible_devices([], 'GPU')
    return 'cpu'
  if runtime == 'loop':
    devices.prepare([first])  # As the fused runtime does.
    gpus = tf.config.list_physical_devices('GPU')
    tf.config.set_visible_devices(
        [gpu for gpu in gpus if gpu.name.endswith(first[1:])], 'GPU'
    )
  return device or 'gpu'


def build(name: str, runtime: str, device: str) -> processes.Rounds:
  """Returns the rounds of a workload."""
  if runtime == 'loop':
    return floor.build(workloads.WORKLOADS[name])
  if runtime == 'fused':
    fused.use(device)
  else:
    native.use()
  if name == SOAK:
    return processes.soak(workloads.WORKLOADS['W1'])
  name, _, number = name.partition(':')
  if number:
    return processes.sums(int(number), name == RAGGED)
  return processes.build(workloads.WORKLOADS[name])


if __name__ == '__main__':
  main()
