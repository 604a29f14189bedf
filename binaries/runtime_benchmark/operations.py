"""Shows where the time of a round goes, by TensorFlow operation.

    python -m binaries.runtime_benchmark.operations W7 fused

Prints the CPU milliseconds of a round; the operations with the largest self
time on the thread that started them; and how many graph nodes a round
processes, how many of them are control flow, and how many are dead, that is, in
a branch not taken, which TensorFlow nevertheless processes.
"""

import collections
import glob
import sys
import tempfile
import time
from typing import Any, Iterator

import tensorflow as tf
# The format of TensorFlow's profiler, which TensorFlow does not export.
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from binaries.speed import cell

_WARM_UP, _ROUNDS = 5, 10
_MOST = 16
# The profiler does not see the native runtime's worker process.
_RUNTIMES = ('fused', 'loop')
# Levels of the profiler: operations that take time, or all operations.
_COSTLY, _ALL = 2, 3
_NODE = 'ExecutorPropagateOutputs'
_CONTROL_FLOW = frozenset({
    'Enter', 'Exit', 'LoopCond', 'Merge', 'NextIteration', 'Switch',
})


def main() -> None:
  if len(sys.argv) != 3 or sys.argv[2] not in _RUNTIMES:
    raise SystemExit(
        'The arguments must be a workload and fused or loop, such as W7 fused,'
        f' found {" ".join(sys.argv[1:]) or "nothing"!r}.'
    )
  name, runtime = sys.argv[1:]
  rounds = cell.build(name, runtime, 'cpu')
  for _ in range(_WARM_UP):
    rounds.play()
  start = time.process_time()
  for _ in range(_ROUNDS):
    rounds.play()
  milliseconds = 1000 * (time.process_time() - start) / _ROUNDS
  print(f'{name} on {runtime}: {milliseconds:.1f} CPU ms per round')
  _print_times(_recorded(rounds, _COSTLY))
  _print_counts(_recorded(rounds, _ALL))


def _recorded(rounds, level: int) -> Any:
  """Returns what the profiler records of some rounds."""
  with tempfile.TemporaryDirectory() as folder:
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=level, python_tracer_level=0
    )
    with tf.profiler.experimental.Profile(folder, options):
      for _ in range(_ROUNDS):
        rounds.play()
    [path] = glob.glob(f'{folder}/**/*.xplane.pb', recursive=True)
    with open(path, 'rb') as file:
      return xplane_pb2.XSpace.FromString(file.read())


def _threads(space) -> Iterator[list[tuple[str, int, int]]]:
  """Yields the (name, start, end) of each thread's events, in picoseconds."""
  for plane in space.planes:
    if 'CPU' in plane.name:
      for line in plane.lines:
        yield [
            (
                plane.event_metadata[event.metadata_id].name, event.offset_ps,
                event.offset_ps + event.duration_ps,
            )
            for event in line.events
        ]


def _kind(name: str) -> str:
  """Returns the kind of the operation of an event; '' if it is none."""
  node, _, kind = name.split('#')[0].rpartition(':')
  # TensorFlow's own events have names like `Executor::Process`.
  return kind if kind.isidentifier() and not node.endswith(':') and node else ''


def _print_times(space) -> None:
  milliseconds: dict[str, float] = collections.defaultdict(float)
  calls: collections.Counter[str] = collections.Counter()
  for events in _threads(space):
    around: list[tuple[str, int]] = []
    for name, start, end in sorted(events, key=lambda e: (e[1], -e[2])):
      while around and around[-1][1] <= start:
        around.pop()
      if around:  # Nested events do not count as self time.
        milliseconds[around[-1][0]] -= (end - start) / 1e9 / _ROUNDS
      kind = _kind(name)
      milliseconds[kind] += (end - start) / 1e9 / _ROUNDS
      calls[kind] += 1
      around.append((kind, end))
  milliseconds.pop('', None)
  kinds = sorted(milliseconds.items(), key=lambda item: -item[1])
  for kind, total in kinds[:_MOST]:
    print(f'  {kind}: {total:.2f} ms in {calls[kind] / _ROUNDS:.0f} calls')


def _print_counts(space) -> None:
  counts: collections.Counter[str] = collections.Counter()
  for events in _threads(space):
    for name, _, _ in events:
      counts[_NODE if name.startswith(_NODE) else _kind(name)] += 1
  nodes = counts.pop(_NODE)
  counts.pop('', None)
  control_flow = sum(counts[kind] for kind in _CONTROL_FLOW)
  dead = max(nodes - sum(counts.values()), 0)
  print(
      f'  {nodes / _ROUNDS:.0f} nodes per round:'
      f' {control_flow / _ROUNDS:.0f} of control flow,'
      f' {dead / _ROUNDS:.0f} dead'
  )


if __name__ == '__main__':
  main()
