"""Measures seconds per round of PERM and of what it is compared with.

    python -m binaries.benchmark_round --rounds=5
    python -m binaries.benchmark_round --clients=10000 --clients_per_round=100

A cohort of 50 clients of 100 examples trains an MLP 784-200-200-10 for 20 local
steps of batch 20. Reports per method the median wall and CPU seconds (this
process and, on the native runtime, TFF's worker) per round; for the part of
TensorFlow in it see benchmark_runtime. Then times the server's update of the
mixing weights alone.

With --clients_per_round, instead runs rounds of PERM with that many clients: 20
examples of 64 features each, logistic regression of 650 weights, 5 local steps.
Reports CPU seconds per round (clients included) beside FedAvg's, and the peak
memory of the process so far; first with 20 cluster models, then with one model
per client.
"""

import itertools
import os
from typing import Any, Iterator, NamedTuple

import numpy as np
import tensorflow as tf

from baselines import fedavg
from baselines import perfedavg
from baselines import pfedme
from binaries.speed import floor
from binaries.speed import harness
from binaries.speed import problems
from tff_pers import runtime
from tff_pers.algorithms.perm import perm
from tff_pers.experiments import flags
from tff_pers.models import zoo

_EXAMPLES = 100
_FEW_MODELS = 20
_WARM_UP = 2  # The first rounds trace and compile.
_RATE, _BATCH, _STEPS = 0.05, 20, 20


def _run(given: dict[str, Any]) -> None:
  clients, cohort_size = given['clients'], given['clients_per_round']
  if cohort_size > clients:
    raise flags.UsageError(
        f'`--clients_per_round` must be <= {clients}, the number of clients,'
        f' found {cohort_size}.'
    )
  runtime.use(given['runtime'])
  setting = (
      _few_of_many(clients, cohort_size) if cohort_size else _everybody(clients)
  )
  print(f'{setting.title}, {given["runtime"]} runtime\n')
  harness.print_header(
      'method', 'wall s / round', 'CPU s / round',
      'peak memory, MB' if cohort_size else 'CPU vs fedavg',
  )
  costs = {}
  for name in setting.processes:
    costs[name] = wall, cpu = _play(setting, name, given['rounds'])
    peak, against = harness.memory(os.getpid()), cpu / costs['fedavg'].cpu
    harness.print_row(
        name, f'{wall:.2f}', f'{cpu:.2f}',
        f'{peak / 2**20:.0f}' if cohort_size else f'{against:.2f}',
    )
  if not cohort_size:
    seconds = _mixing_seconds(clients, setting.model.num_parameters)
    share = seconds / costs['perm_single_loop'].cpu
    print(
        f'\nThe server solves for the mixing weights in {seconds:.3f} CPU s,'
        f' {share:.1%} of a round of perm_single_loop.'
    )


class _Setting(NamedTuple):
  """Methods, and the clients of their rounds.

  Attributes:
    title: What is measured.
    model: The model.
    processes: The methods by name.
    cohorts: Yields the data of the clients of each round.
  """

  title: str
  model: Any
  processes: dict[str, Any]
  cohorts: Iterator[list[Any]]


def _everybody(num_clients: int) -> _Setting:
  """Returns rounds of all clients, with the methods of PERM's Figure 3."""
  training: dict[str, Any] = dict(
      local_steps=_STEPS, batch_size=_BATCH, learning_rate=_RATE
  )
  model = zoo.build('mlp', tf.TensorSpec([None, 784]), problems.CLASSES)
  processes = {
      f'perm_{variant}': perm.build_perm(
          model, num_clients,
          problems.perm_hyperparameters(variant, **training),
      )
      for variant in ('two_stage', 'single_loop')
  }
  processes['perfedavg'] = perfedavg.build_perfedavg(
      model, perfedavg.PerFedAvgHyperparameters(**training)
  )
  processes['pfedme'] = pfedme.build_pfedme(
      model, pfedme.PFedMeHyperparameters(**training)
  )
  data = problems.clients(num_clients, _EXAMPLES, 784)
  return _Setting(
      f'{num_clients} clients x {_EXAMPLES} examples, MLP with'
      f' {model.num_parameters:,} weights, {_STEPS} local steps of batch'
      f' {_BATCH}',
      model, {**_fedavg(model, training), **processes}, itertools.repeat(data),
  )


def _few_of_many(num_clients: int, cohort_size: int) -> _Setting:
  """Returns rounds of a few clients: FedAvg; PERM with few models, and all."""
  training: dict[str, Any] = dict(
      local_epochs=0, local_steps=5, batch_size=_BATCH, learning_rate=_RATE
  )
  model = zoo.build(
      'logistic_regression', tf.TensorSpec([None, 64]), problems.CLASSES
  )
  data, rng = problems.clients(num_clients, 20, 64), np.random.default_rng(0)
  few = min(_FEW_MODELS, num_clients)

  def build(**values):
    return perm.build_perm(
        model, num_clients,
        problems.perm_hyperparameters('single_loop', **training, **values),
        full_participation=False,
    )

  processes = {f'perm[models={few}]': build(models=few), 'perm': build()}
  cohorts = (
      [data[i] for i in rng.choice(num_clients, cohort_size, replace=False)]
      for _ in itertools.count()
  )
  return _Setting(
      f'{cohort_size} of {num_clients} clients per round,'
      f' {model.num_parameters} weights',
      model, {**_fedavg(model, training), **processes}, cohorts,
  )


def _fedavg(model, training) -> dict[str, Any]:
  hyperparameters = fedavg.FedAvgHyperparameters(**training)
  return dict(fedavg=fedavg.build_fedavg(model, hyperparameters))


def _play(setting: _Setting, name: str, num_rounds: int) -> harness.Cost:
  """Returns the median cost of a round of a method."""
  process, costs = setting.processes[name], []
  state = process.initialize()

  def step():
    nonlocal state
    state = process.next(state, [()] * len(data), data)['state']

  for data in itertools.islice(setting.cohorts, _WARM_UP + num_rounds):
    costs.append(harness.timed(step))
  return harness.median(costs[_WARM_UP:])


def _mixing_seconds(num_clients: int, dimension: int) -> float:
  """Returns CPU seconds of PERM's (b): distances, lambda, all rows of A."""
  vectors = tf.constant(np.random.default_rng(0).standard_normal(
      (num_clients, dimension), np.float32
  ))
  update = tf.function(lambda: floor.mixing(
      tf.eye(num_clients), vectors, tf.ones([num_clients]), _EXAMPLES,
      perm.PermHyperparameters(lambda_scale=10.0),
  ))
  update()  # Traces.
  return harness.timed(lambda: [update() for _ in range(5)]).cpu / 5


main = flags.Program(
    'benchmark_round', __doc__, _run,
    flags.own_flag('rounds', 5, 'Measured rounds per method.', minimum=1),
    flags.own_flag('clients', 50, 'Number of clients.', minimum=2),
    flags.own_flag(
        'clients_per_round', 0,
        'Clients that take part in a round; 0: all.', minimum=0,
    ),
    harness.RUNTIME_FLAG,
)
