"""Measures the memory of PERM's model table: N models of d weights.

Reports the size of the table (N x d x 4 bytes), and the peak memory of this
process (which holds the server state between rounds) and, on the native
runtime, of TFF's worker (which runs the round), beside those of a run with few
models, which are the fixed cost.

  python -m binaries.benchmark_memory --clients=200
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app  # pylint: disable=g-import-not-at-top
from absl import flags
import numpy as np
import tensorflow as tf

from tff_pers import runtime
from tff_pers.algorithms.perm import perm
from tff_pers.data import client_data
from tff_pers.models import zoo
from tff_pers.runtime import native

_CLIENTS = flags.DEFINE_integer(
    'clients', 200, 'N, number of personalized models.', lower_bound=2
)
_ROUNDS = flags.DEFINE_integer('rounds', 3, 'Rounds.', lower_bound=1)
_RUNTIME = flags.DEFINE_enum(
    'runtime', 'fused', ['fused', 'native'], 'Runtime that runs the rounds.'
)
_MEASURE = flags.DEFINE_enum(
    'measure', None, ['two_stage', 'single_loop'],
    'Measures one variant in this process and prints JSON; default: a table of'
    ' all, each measured in its own process.',
)
_FEW = 2  # Clients of the run that shows the fixed cost.
# No rounds before those with a table; variants name that flag differently.
_BEFORE: dict[str, dict[str, Any]] = {
    'two_stage': dict(stage1_rounds=0), 'single_loop': dict(warmup_rounds=0),
}


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'No positional arguments, found {argv[1]!r}.')
  model = zoo.build('mlp', tf.TensorSpec([None, 784]), 10)
  if _MEASURE.value:
    print(json.dumps(_measure(model, _CLIENTS.value, _MEASURE.value)))
    return
  table = _CLIENTS.value * model.num_parameters * 4
  print(
      f'N = {_CLIENTS.value} models of d = {model.num_parameters:,} weights:'
      f' the table is {_mib(table)}; {_RUNTIME.value} runtime\n'
  )
  print('| variant | process | fixed | peak | (peak - fixed) / table |')
  print('|---|---|---|---|---|')
  for variant in ('two_stage', 'single_loop'):
    # The peak memory of a process never falls: one process per number.
    fixed, peak = _in_own_process(variant, _FEW), _in_own_process(
        variant, _CLIENTS.value
    )
    for name in peak:
      copies = (peak[name] - fixed[name]) / table
      print(
          f'| {variant} | {name} | {_mib(fixed[name])} | {_mib(peak[name])} |'
          f' {copies:.1f} |', flush=True,
      )


def _mib(num_bytes):
  return f'{num_bytes / 2**20:.0f} MiB'


def _in_own_process(variant, num_clients):
  """Returns peak bytes by process name, measured by a fresh interpreter."""
  output = subprocess.run(
      [
          sys.executable, '-m', 'binaries.speed.memory',
          f'--measure={variant}', f'--clients={num_clients}',
          f'--rounds={_ROUNDS.value}', f'--runtime={_RUNTIME.value}',
      ],
      check=True, stdout=subprocess.PIPE, text=True,
  ).stdout
  return json.loads(output.splitlines()[-1])


def _measure(model, num_clients, variant):
  """Runs some rounds; returns peak bytes of this process and of the worker."""
  runtime.use(_RUNTIME.value)
  process = perm.build_perm(
      model, num_clients,
      perm.PermHyperparameters(
          variant=variant, local_steps=1, lambda_scale=10.0, **_BEFORE[variant]
      ),
  )
  rng = np.random.default_rng(0)
  data = [
      client_data.dense(
          i, rng.random((20, 784), np.float32), np.zeros(20, np.int32)
      )
      for i in range(num_clients)
  ]
  state = process.initialize()
  for _ in range(_ROUNDS.value):
    state = process.next(state, [()] * num_clients, data)['state']
  pids = {'python': os.getpid()}
  worker = native.worker_pid()
  if worker is not None:
    pids['worker'] = worker
  return {name: _peak_bytes(pid) for name, pid in pids.items()}


def _peak_bytes(pid):
  status = pathlib.Path(f'/proc/{pid}/status').read_text()
  peak = next(
      line for line in status.splitlines() if line.startswith('VmHWM')
  )
  return int(peak.split()[1]) * 1024


def run() -> None:
  app.run(main)


if __name__ == '__main__':
  run()
