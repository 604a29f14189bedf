"""Measures seconds per round and the share spent outside TensorFlow.

A cohort of 50 clients of 100 examples trains an MLP 784-200-200-10 for 20 local
steps of batch 20. Reports per method the median wall and CPU seconds (this
process and, on the native runtime, TFF's worker) per round, and the CPU seconds
of the same client work as one `tf.function` call per client, which is the share
inside TensorFlow. Then times the server's update of the mixing weights alone.

With --clients_per_round, instead runs rounds of PERM with that many clients: 20
examples of 64 features each, logistic regression of 650 weights, 5 local steps.
Reports CPU seconds per round (clients included) beside FedAvg's, and the peak
memory of the process so far; first with 20 cluster models, then with one model
per client.

  python -m binaries.benchmark_round --rounds=5
  python -m binaries.benchmark_round --clients=10000 --clients_per_round=100
"""

import collections
import itertools
import os
import resource
import statistics
import time
from typing import Any, Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app  # pylint: disable=g-import-not-at-top
from absl import flags
import numpy as np
import psutil
import tensorflow as tf

from baselines import fedavg
from tff_pers import runtime
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.data import client_data
from tff_pers.models import zoo
from tff_pers.runtime import native

_ROUNDS = flags.DEFINE_integer(
    'rounds', 5, 'Measured rounds per method.', lower_bound=1
)
_CLIENTS = flags.DEFINE_integer(
    'clients', 50, 'Number of clients.', lower_bound=2
)
_COHORT = flags.DEFINE_integer(
    'clients_per_round', 0, 'Clients that take part in a round; 0: all.',
    lower_bound=0,
)
_RUNTIME = flags.DEFINE_enum(
    'runtime', 'fused', ['fused', 'native'], 'Runtime that runs the rounds.'
)
_EXAMPLES = 100
_FEW_MODELS = 20
_TRAINING: dict[str, Any] = dict(
    local_steps=20, batch_size=20, learning_rate=0.05
)


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'No positional arguments, found {argv[1]!r}.')
  runtime.use(_RUNTIME.value)
  num_clients = _CLIENTS.value
  if _COHORT.value > num_clients:
    raise app.UsageError(
        f'`--clients_per_round` must be <= {num_clients}, the number of'
        f' clients, found {_COHORT.value}.'
    )
  if _COHORT.value:
    _many_clients(num_clients, _COHORT.value)
    return
  model = zoo.build('mlp', tf.TensorSpec([None, 784]), 10)
  data = _clients(num_clients)
  processes = collections.OrderedDict(
      fedavg=fedavg.build_fedavg(
          model, fedavg.FedAvgHyperparameters(**_TRAINING)
      ),
      perm_two_stage=_perm(model, num_clients, 'two_stage'),
      perm_single_loop=_perm(model, num_clients, 'single_loop'),
  )
  inside = _tensorflow_seconds(model, data)
  print(
      f'{num_clients} clients x {_EXAMPLES} examples, MLP with'
      f' {model.num_parameters:,} weights, 20 local steps of batch 20,'
      f' {_RUNTIME.value} runtime\n'
  )
  print('| method | wall s / round | CPU s / round | of it TensorFlow |'
        ' share outside | wall vs fedavg |')
  print('|---|---|---|---|---|---|')
  reference = None
  for name, process in processes.items():
    wall, cpu = _measure(process, itertools.repeat(data))
    reference = reference or wall
    floor = inside['training'] + (
        inside['gradient'] if name == 'perm_single_loop' else 0.0
    )
    print(
        f'| {name} | {wall:.2f} | {cpu:.2f} | {floor:.2f} |'
        f' {max(0.0, 1 - floor / cpu):.0%} | {wall / reference:.2f} |',
        flush=True,
    )
  alpha = _mixing_seconds(num_clients, model.num_parameters)
  print(
      f'\nThe server solves for the mixing weights in {alpha:.3f} CPU s,'
      f' {alpha / cpu:.1%} of a round of perm_single_loop.'
  )


def _many_clients(num_clients: int, cohort_size: int):
  """Prints the cost of PERM rounds with a cohort drawn from many clients."""
  model = zoo.build('logistic_regression', tf.TensorSpec([None, 64]), 10)
  training: dict[str, Any] = dict(
      local_epochs=0, local_steps=5, batch_size=20, learning_rate=0.05
  )
  rng = np.random.default_rng(0)
  data = [
      client_data.dense(
          i, rng.random((20, 64), np.float32),
          rng.integers(0, 10, 20).astype(np.int32),
      )
      for i in range(num_clients)
  ]
  built = lambda **values: perm.build_perm(
      model, num_clients,
      perm.PermHyperparameters(
          warmup_rounds=0, lambda_scale=10.0, **training, **values
      ),
      full_participation=False,
  )
  few = min(_FEW_MODELS, num_clients)
  processes = {
      'fedavg': fedavg.build_fedavg(
          model, fedavg.FedAvgHyperparameters(**training)
      ),
      f'perm[models={few}]': built(models=few),
      'perm': built(),
  }
  print(
      f'{cohort_size} of {num_clients} clients per round,'
      f' {model.num_parameters} weights, {_RUNTIME.value} runtime\n'
  )
  print('| method | wall s / round | CPU s / round | peak memory, MB |')
  print('|---|---|---|---|')
  for name, process in processes.items():
    cohorts = (
        [data[i] for i in rng.choice(num_clients, cohort_size, replace=False)]
        for _ in itertools.count()
    )
    wall, cpu = _measure(process, cohorts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f'| {name} | {wall:.2f} | {cpu:.2f} | {peak:.0f} |', flush=True)


def _perm(model, num_clients, variant):
  """Returns PERM past its first stage, as in most rounds of a run."""
  first = 'stage1_rounds' if variant == 'two_stage' else 'warmup_rounds'
  none: dict[str, Any] = {first: 0}
  return perm.build_perm(
      model, num_clients,
      perm.PermHyperparameters(
          variant=variant, lambda_scale=10.0, **none, **_TRAINING
      ),
  )


def _clients(num_clients):
  rng = np.random.default_rng(0)
  return [
      client_data.dense(
          i, rng.random((_EXAMPLES, 784), np.float32),
          rng.integers(0, 10, _EXAMPLES).astype(np.int32),
      )
      for i in range(num_clients)
  ]


def _cpu_seconds():
  """Returns CPU seconds of this process and of TFF's worker."""
  processes = [psutil.Process()]
  if native.worker_pid() is not None:
    processes.append(psutil.Process(native.worker_pid()))
  times = [process.cpu_times() for process in processes]
  return sum(t.user + t.system for t in times)


def _measure(process, cohorts):
  """Returns median (wall, CPU) seconds per round, after two rounds.

  Args:
    process: The method.
    cohorts: Yields the data of the clients of a round.
  """
  state = process.initialize()
  wall, cpu = [], []
  for t, data in zip(range(2 + _ROUNDS.value), cohorts):
    start, start_cpu = time.perf_counter(), _cpu_seconds()
    state = process.next(state, [()] * len(data), data)['state']
    # The first rounds trace and compile.
    if t >= 2:
      wall.append(time.perf_counter() - start)
      cpu.append(_cpu_seconds() - start_cpu)
  return statistics.median(wall), statistics.median(cpu)


def _tensorflow_seconds(model, data):
  """Returns CPU seconds of a round's client work in plain `tf.function`s."""
  weights = model.initial_weights(0)
  budget: dict[str, Any] = dict(batch_size=20, num_steps=20)
  message = dict(seed=tf.constant(0, tf.int64), round=tf.constant(0))
  tensors = [tf.nest.map_structure(tf.constant, client) for client in data]

  @tf.function
  def training(client):
    return local_sgd.train(
        model, weights, client, learning_rate=0.05,
        seed=client_work.key(message, client), **budget
    )

  @tf.function
  def gradient(client):
    return local_gradient.compute(
        model, weights, client, seed=client_work.key(message, client)
    )

  seconds = {}
  for name, work in (('training', training), ('gradient', gradient)):
    work(tensors[0])  # Traces.
    found = []
    for _ in range(3):
      start = _cpu_seconds()
      for client in tensors:
        work(client)
      found.append(_cpu_seconds() - start)
    seconds[name] = statistics.median(found)
  return seconds


def _mixing_seconds(num_clients, dimension):
  """Returns CPU seconds of PERM's (b): distances, lambda, all rows of A."""
  rng = np.random.default_rng(0)
  column = lambda value: tf.fill([num_clients], np.float32(value))
  table = dict(
      fingerprints=tf.constant(
          rng.standard_normal((num_clients, dimension), np.float32)
      ),
      rows=column(_EXAMPLES), sizes=column(_EXAMPLES), variances=column(1.0),
  )
  hyperparameters = perm.PermHyperparameters()
  # Whole gradients need no model.
  setting = setting_lib.PermSetting(
      perm_devices.Devices(None),  # type: ignore[arg-type]
      hyperparameters, num_clients,
  )

  @tf.function
  def update():
    lambda_ = perm_mixing.choose_lambda(table, 10.0, hyperparameters)
    problem = perm_mixing.Problem(setting, table, lambda_)
    return problem.all_rows(tf.eye(num_clients))

  update()  # Traces.
  start = _cpu_seconds()
  for _ in range(5):
    update()
  return (_cpu_seconds() - start) / 5


def run() -> None:
  app.run(main)


if __name__ == '__main__':
  run()
