"""Runs methods and workloads on a device, for `gpu_check`.

    python -m binaries.speed.gpu_check_child DEVICE FOLDER NAME...

Writes NAME.npz (arrays after the last round) and NAME.json (the findings).
"""

import dataclasses
import functools
import json
import os
import sys
import time
from typing import Any, Callable

import numpy as np
import tensorflow as tf
import tree

from binaries.speed import processes
from binaries.speed import workloads
from tff_pers.core import files
from tff_pers.runtime import fused
from tff_pers.runtime.fused import choices as choices_lib
from tff_pers.runtime.fused import devices
from tff_pers.testing import rounds
from tff_pers.testing import tiny
from tff_pers import tff

STAND_IN = 'stand_in'
_SIZES = (8, 8, 8, 8)
_WORKLOAD_ROUNDS = 2
_DRAWS, _LAST_BIT = 3, 1e-7
# Singular vectors of FedHM's server: the library chooses their signs; the
# products computed from them are compared instead.
_FREE = 'state/factors'


def main() -> None:
  device, folder, *names = sys.argv[1:]
  for name in names:
    choices = choices_lib.Choices()
    use(device, choices)
    try:
      seen, arrays = _play(name)
      if device == 'cpu' and name in workloads.WORKLOADS:
        seen.update(sensitivity=_sensitivity(name, arrays))
      np.savez(os.path.join(folder, f'{name}.npz'), **arrays)
    except Exception as error:  # pylint: disable=broad-except  It is a finding.
      lines = str(error).strip().splitlines() or ['']
      seen = dict(error=f'{type(error).__name__}: {lines[0][:300]}')
    stages = choices.stages()
    seen.update(
        stages=len(stages),
        vectorized=sum(stage.strategy == 'vectorized' for stage in stages),
    )
    # Written last and atomically: if it exists, so do the arrays.
    files.write_text(os.path.join(folder, f'{name}.json'), json.dumps(seen))


def use(device: str, choices: choices_lib.Choices) -> None:
  """Installs a fresh fused runtime on the device; `choices` records schedules.

  The device is `gpu:0`, `cpu` or `STAND_IN`.
  """
  names, strategy = ['/CPU:0'], 'loop'
  if device in (STAND_IN, 'cpu'):
    tf.config.set_visible_devices([], 'GPU')
  if device == STAND_IN:
    cpu = tf.config.list_physical_devices('CPU')[0]
    if len(tf.config.get_logical_device_configuration(cpu) or ()) < 2:
      tf.config.set_logical_device_configuration(
          cpu, [tf.config.LogicalDeviceConfiguration()] * 2
      )
    names, strategy = ['/CPU:1'], 'auto'
    # `auto` depends on it.
    setattr(devices, 'has_gpu', lambda _: True)
  elif device != 'cpu':
    fused.use(device, deterministic=True)  # Sets what a GPU needs.
    names, strategy = fused.find_devices(device), 'auto'
  executor = fused.Executor(names, strategy, choices)
  tff.framework.set_default_context(fused.FusedContext(executor))


def _play(name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """Returns findings, and arrays by name after the last round."""
  if name in workloads.WORKLOADS:
    play = lambda times: _workload(name, times)
  else:
    # Clients of one size can be vectorized.
    task = dataclasses.replace(
        tiny.task(), train=tiny.clients(_SIZES, 0),
        test=tiny.clients(_SIZES, 1),
    )
    process = tiny.build(name, task)
    play = lambda times: _method(process, task, times)
  times: list[float] = []
  arrays, again = play(times), play([])
  repeats = all(again[key].tobytes() == arrays[key].tobytes() for key in arrays)
  seen = dict(
      repeats=repeats, first_seconds=times[0], later_seconds=min(times[1:])
  )
  return seen, arrays


def _workload(name: str, times: list[float]) -> dict[str, np.ndarray]:
  played = processes.build(workloads.WORKLOADS[name])
  for _ in range(_WORKLOAD_ROUNDS):
    _timed(played.play, times)
  return _named(played)


def _named(played) -> dict[str, np.ndarray]:
  return {str(i): w for i, w in enumerate(played.weights())}


def _sensitivity(name: str, expected: dict[str, np.ndarray]) -> float:
  """Returns how far one last bit of the initial weights changes the results.

  An activation at a kink, or equal values under a pooling, may switch sides; no
  other order of additions can be held to a smaller difference.
  """
  workload, most = workloads.WORKLOADS[name], 0.0
  for seed in range(_DRAWS if workload.algorithm != 'tff_learning' else 0):
    rng = np.random.default_rng(seed)
    played = processes.build(workload)
    weights = played.state['weights']
    moved = [
        np.asarray(w * (1 + _LAST_BIT * rng.normal(size=w.shape)), np.float32)
        for w in map(np.asarray, weights)
    ]
    played.state = dict(played.state, weights=type(weights)(moved))
    for _ in range(_WORKLOAD_ROUNDS):
      played.play()
    most = max(most, *(
        distance(w, expected[key]) for key, w in _named(played).items()
    ))
  return most


def distance(a: np.ndarray, b: np.ndarray) -> float:
  """Returns ||a - b|| / ||b||, where b is the reference."""
  a, b = a.astype(np.float64), b.astype(np.float64)
  difference = np.linalg.norm(np.where(a == b, 0.0, a - b))
  return float(difference) / max(float(np.linalg.norm(b)), 1e-3)


def _method(process, task, times: list[float]) -> dict[str, np.ndarray]:
  snapshot = rounds.Snapshot(process.initialize_seeded(rounds.SEED), {})
  everybody = range(task.num_clients)
  for _ in range(rounds.NUM_ROUNDS):
    snapshot, metrics = _timed(
        functools.partial(
            rounds.play, process, snapshot, everybody, task.train
        ), times,
    )
  found = dict(
      state=snapshot.state, clients=snapshot.clients, metrics=metrics,
      evaluation=rounds.evaluate(
          rounds.Case(process, task, [snapshot]), snapshot
      ),
  )
  arrays = {
      '/'.join(map(str, path)): np.asarray(leaf)
      for path, leaf in tree.flatten_with_path(found)
  }
  return {k: v for k, v in arrays.items() if not k.startswith(_FREE)}


def _timed(call: Callable[[], Any], times: list[float]) -> Any:
  start = time.perf_counter()
  result = call()
  tf.test.experimental.sync_devices()
  times.append(time.perf_counter() - start)
  return result


if __name__ == '__main__':
  main()
