"""Computes the trade-off between speed and accuracy of local updates.

    python -m binaries.pareto --mu=1 --L=10 --gamma=0.05 --num_steps=10
    python -m binaries.pareto --figure=2
    python -m binaries.pareto --mu=1 --L=10 --recommend --rounds=20
        --accuracy=0.05
    python -m binaries.pareto --task=digits --model=logistic_regression

More local steps K make the server converge faster (rate rho), but to a model
farther (distance Delta) from the best common one, before clients adapt it.
Exact for quadratic clients with Hessians between mu and L. Without --figure:
one point per server optimizer, with its best learning rate and momentum.
--recommend says what to use for a number of rounds. With --task, mu, L and the
spread of client optima are measured on a model and its data, and the point of
FedAvg is shown. Writes pareto.csv and a plot, PNG and SVG.

Figures of Charles and Konecny (2021), mu = 1:
  --figure=6   trains FedAvg (GD), FedAvgM (Nesterov, heavy ball) and FedProx
               (alpha = 0.01, 0.1, 1) with 50 local steps on --task; tunes the
               client and server rates on a grid; flags and files of
               compare_tuned
  --figure=12  trains Theta_{1:10} with gamma = 0, 0.001, ..., 10 and eta =
               0.01 on --task: the mean loss of the local steps over rounds;
               flags and files of compare; clients alike, as in the paper
  --figure=13  as 12, for each gamma the best eta of 0.001 to 10 by this loss
"""

import dataclasses
import functools
import os
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from tff_pers.analysis import curvature as curvature_lib
from tff_pers.analysis import frontiers
from tff_pers.analysis import local_updates
from tff_pers.analysis import paper_figures
from tff_pers.analysis import pareto_plots
from tff_pers.data import client_data
from tff_pers.data import tasks
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import folders
from tff_pers.experiments import pareto_tables
from tff_pers.experiments import pareto_trained
from tff_pers.experiments import startup
from tff_pers.experiments import sweep
from tff_pers.experiments import tuned_sweep

_CURVATURE = ('client', 'mu', 'L', 'distance')
_POINT = ('gamma', 'num_steps', 'alpha', 'family')
_SPECTRUM = ('mu', 'L')
_RUN = ('rounds', 'distance')
_RECOMMEND = ('recommend', 'accuracy', *_RUN)
_FILE = 'pareto.csv'
# Beside those of tasks.
_FLAGS = (
    flags.own_flag('mu', 1.0, 'Smallest eigenvalue of clients.', above=0.0),
    flags.own_flag('L', 10.0, 'Largest eigenvalue of clients.', above=0.0),
    flags.own_flag(
        'gamma', 'auto', 'Client learning rate; auto: 1 / (2 (L + alpha)),'
        ' for theta_K and maml divided by their number of gradients; with'
        ' --task that of FedAvg on the task.', minimum=0.0, auto=True,
    ),
    flags.own_flag(
        'num_steps', 10, 'Local steps K, for maml those of adaptation; with'
        ' --task by default those of FedAvg on the task.', minimum=1,
    ),
    flags.own_flag('alpha', 0.0, 'Proximal strength.', minimum=0.0),
    flags.own_flag(
        'family', 'fedavg', 'Gradients that clients send: all, or only the'
        ' last.', choices=frontiers.FAMILIES,
    ),
    flags.own_flag(
        'figure', 0, 'Number of a figure, see above; 0: none.', minimum=0
    ),
    flags.own_flag(
        'recommend', False, 'Say what to use for --rounds and --accuracy.'
    ),
    flags.own_flag(
        'accuracy', 0.1, 'Wanted distance to the optimum, in units of the'
        ' radius C of a ball that contains all client optima.', above=0.0,
    ),
    flags.own_flag(
        'distance', 10.0, 'Distance from the initial model to the optimum, in'
        ' units of C; with --task by default the measured one.', above=0.0,
    ),
    flags.own_flag(
        'rounds', 100, 'Rounds of training.', minimum=1
    ),
    flags.own_flag(
        'l2', 1e-3, 'With --task: L2 penalty on every client\'s loss, which'
        ' may have no optimum without it.', minimum=0.0,
    ),
)


# With the figures that are computed.
_HELP = (__doc__ or '') + '\n'.join(
    f'  --figure={number:<4}{figure.summary}'
    for number, figure in paper_figures.FIGURES.items()
)


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  number, rest = startup.take(argv[1:], 'figure')
  if number not in ('6', '12', '13') or startup.wants_help(argv):
    own = flags.Program('pareto', _HELP, _run, *_FLAGS, without=(), fills=())
    return own(argv)
  if number == '6':
    folder = f"--output_dir={flags.resolve_path('runs/pareto')}"
    return tuned_sweep.main(['pareto', *pareto_trained.TUNED, folder, *rest])
  body = functools.partial(pareto_trained.run, number=int(number))
  trained = flags.Program(
      'pareto', _HELP, body, *sweep.main.own, without=('seed',),
      fills=('seeds', 'targets', 'jobs'), resumes=True,
  )
  return trained(['pareto', *rest])


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  output_dir = given.pop('output_dir', '') or flags.resolve_path('runs/pareto')
  with flags.usage_errors():
    lock = folders.FolderLock(output_dir)
  with lock:
    if given.get('figure'):
      _check_used(given, ('figure',), f"--figure={given['figure']}")
      _figure(given['figure'], output_dir)
    else:
      _curve(given, table, output_dir)
  print(f'Results are in {output_dir}.')
  return 0


def _check_used(given, used: Sequence[str], what: str) -> None:
  """Refuses flags without effect."""
  for name, value in given.items():
    if name not in used:
      raise flags.UsageError(
          f'`--{name}` must be left out with {what} because it has no effect,'
          f' found {value!r}.'
      )


def _figure(number: int, output_dir: str) -> None:
  """Computes, writes and plots a figure of the paper."""
  if number not in paper_figures.FIGURES:
    known = ', '.join(map(str, sorted([*paper_figures.FIGURES, 6, 12, 13])))
    raise flags.UsageError(
        f'`--figure` must be one of {known}, found {number}.'
    )
  curves = paper_figures.compute(number)
  results.write_csv(
      os.path.join(output_dir, _FILE), paper_figures.COLUMNS,
      paper_figures.rows(curves),
  )
  pareto_plots.plot_curves(curves, output_dir, f'figure{number}')
  print(f'Figure {number}: {paper_figures.FIGURES[number].summary}.')


def _curve(given, table, output_dir: str) -> None:
  """Shows one setting or the best ones, for given or measured clients."""
  with_task, recommends = 'task' in given, given.get('recommend', False)
  used: tuple[str, ...] = _RECOMMEND if recommends else _POINT
  if with_task:
    used += _used_flags(given, table)
  else:
    used += (*_SPECTRUM, *_RUN)
  what = '--recommend' if recommends else 'one point'
  _check_used(given, used, what + ' and --task' * with_task)
  own: dict[str, Any] = {name: flag.spec.default for name, flag in _FLAGS}
  measured, task_flags = None, {}
  if with_task:
    task_flags = {k: value for k, value in given.items() if k not in own}
    measured = _measure(task_flags, given.get('l2', own['l2']))
    own.update(
        gamma=measured.gamma, num_steps=measured.num_steps,
        distance=measured.curvature.start / measured.curvature.radius,
    )
  own.update(given)
  with flags.usage_errors():
    spectrum = (
        measured.curvature.spectrum if measured
        else local_updates.Spectrum(own['mu'], own['L'])
    )
    points = (
        pareto_tables.recommend(spectrum, own, task_flags) if recommends
        else pareto_tables.show(spectrum, own)
    )
    found: list[dict[str, Any]] = []
    # Beyond that, rounding decides where training ends.
    if not with_task and not recommends and points[0].kappa < 1e10:
      found = pareto_tables.distances(spectrum, own, points)
  results.write_csv(
      os.path.join(output_dir, _FILE), frontiers.Point._fields,
      [point._asdict() for point in points],
  )
  if found:
    results.write_csv(
        os.path.join(output_dir, 'distances.csv'), pareto_tables.DISTANCES,
        found,
    )
  if measured:
    _write_curvature(measured, output_dir)
  pareto_plots.plot_points(
      spectrum.kappa0, points, output_dir, 'pareto',
      measured.title if measured else f'mu = {own["mu"]:g}, L = {own["L"]:g}',
  )


class _Measured(NamedTuple):
  """Measurements on a task.

  Attributes:
    title: The task and the model.
    curvature: Curvature of the clients' losses.
    gamma: Step size of FedAvg on the task.
    num_steps: Local steps of FedAvg on the task, mean over clients.
  """

  title: str
  curvature: curvature_lib.Curvature
  gamma: float
  num_steps: int


def _used_flags(
    given: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[str, ...]:
  """Returns the flags that make the task or control the measurement."""
  own = [
      name for name, flag in table.items()
      if (flag.kind, flag.owner) == ('task', given['task'])
  ]
  request = [field.name for field in dataclasses.fields(tasks.TaskRequest)]
  return ('task', 'l2', *request, *own)


def _measure(given: Mapping[str, Any], l2: float) -> _Measured:
  """Measures the clients of the task that flags make; prints the findings.

  Raises:
    flags.UsageError: If the task cannot be built, or a client has no examples.
  """
  table = flags.all_flags(flags.own_flag('algo', '', 'The method.'))
  experiment = experiment_lib.build(dict(given, algo='fedavg'), table)
  task = experiment.task
  clients = [data for data in task.train if data['num_examples'] > 0]
  found = curvature_lib.measure(task.model, clients, l2)
  measured = _Measured(
      f'{task.name}, {task.model.name}', found,
      experiment.hyperparameters.learning_rate,
      _num_steps(experiment.hyperparameters, clients),
  )
  print(
      f'{measured.title}, {len(clients)} clients, l2 = {l2:g}, at the optimum'
      f' of the mean loss:\n'
      f'  mu = {found.smallest.min():.6g}, L = {found.largest.max():.6g} (of'
      f' the least curved client {found.largest.min():.6g})\n'
      f'  client optima within C = {found.radius:.6g} of their mean, which is'
      f' {found.distance:.6g} from the optimum; initial weights are'
      f' {found.start:.6g} from it\n'
      f'  FedAvg on this task: gamma = {measured.gamma:g}, K ='
      f' {measured.num_steps}\n'
  )
  return measured


def _write_curvature(measured: _Measured, output_dir: str) -> None:
  """Writes `curvature.csv`, a row per client."""
  found = measured.curvature
  columns = (found.smallest, found.largest, found.distances)
  results.write_csv(
      os.path.join(output_dir, 'curvature.csv'), _CURVATURE,
      [
          dict(zip(_CURVATURE, (client, *row)))
          for client, row in enumerate(np.transpose(columns).tolist())
      ],
  )


def _num_steps(hyperparameters, clients) -> int:
  """Returns K; for clients that count epochs, the mean over clients."""
  if hyperparameters.local_steps:
    return hyperparameters.local_steps
  steps = [
      client_data.batches_per_epoch(
          data['num_examples'], hyperparameters.batch_size
      )
      for data in clients
  ]
  return round(hyperparameters.local_epochs * float(np.mean(steps)))
