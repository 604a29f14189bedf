"""The trade-off of speed and accuracy that local updates make.

    python -m binaries.pareto --mu=1 --L=10 --gamma=0.05 --num_steps=10
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Sequence

from binaries import compare_tuned
from binaries import pareto_tables
from binaries import pareto_task
from tff_pers.analysis import frontiers
from tff_pers.analysis import local_updates
from tff_pers.analysis import paper_figures
from tff_pers.analysis import pareto_plots
from tff_pers.evaluation import results
from tff_pers.experiments import flags

_POINT = ('gamma', 'num_steps', 'alpha', 'family')
_SPECTRUM = ('mu', 'L')
_RECOMMEND = ('recommend', 'rounds', 'accuracy', 'distance')
# Flags that no other program has, and one of all.
_OWN = (*_POINT, *_SPECTRUM, *_RECOMMEND, 'l2')
# Figure 6 is trained: Theta_{1:50}, the server GD, Nesterov, the heavy ball, GD
# with several alpha. In delta form, whose server step eta / gamma is that of
# the methods. The paper does not say its alpha, and tries 9 x 9 rates.
_TRAINED = ','.join(
    f'{algo}local_steps=50,local_epochs=0]'
    for algo in (
        'fedavg[', 'fedavgm[nesterov=true,', 'fedavgm[', 'fedprox[mu=0.01,',
        'fedprox[mu=0.1,', 'fedprox[mu=1,',
    )
)
_TRAINED_GRID = 'learning_rate:0.03,0.1,0.3,1;server_learning_rate:0.1,0.3,1'
_FIGURES = '\n'.join(
    f'  --figure={number:<4}{figure.summary}'
    for number, figure in paper_figures.FIGURES.items()
)
SUMMARY = f"""\
python -m binaries.pareto --mu=1 --L=10 --gamma=0.05 --num_steps=10
python -m binaries.pareto --figure=2
python -m binaries.pareto --mu=1 --L=10 --recommend --rounds=20 --accuracy=0.05
python -m binaries.pareto --task=digits --model=logistic_regression

Clients that take K local steps make the server converge faster (rho), to
another model than the best common one (Delta, which is about that model before
anybody adapts it). Exact for quadratic clients with Hessians between mu and L.
Without --figure one point for each server optimizer, with its best learning
rate and momentum. --recommend says what to use for so many rounds. With --task:
mu, L and the spread of client optima measured on a model and its data, and
where a run of FedAvg is. Writes pareto.csv and a plot, PNG and SVG.

Figures of Charles and Konecny (2021), mu = 1:
{_FIGURES}
  --figure=6   trains FedAvg (GD), FedAvgM (Nesterov, heavy ball) and FedProx
               (alpha = 0.01, 0.1, 1), 50 local steps, rates of clients and
               server by a grid, on --task; flags and files of compare_tuned"""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  if '--figure=6' in argv and not flags.wants_help(argv):
    rest = [word for word in argv[1:] if word != '--figure=6']
    folder = '--output_dir=' + flags.resolve_path('runs/pareto')
    # The grid is declared as part of the figure, and does not grow. What is
    # given comes later, and wins.
    return compare_tuned.main(
        ['pareto', f'--algos={_TRAINED}', f'--grid={_TRAINED_GRID}',
         '--extensions=0', folder, *rest]
    )
  return flags.program('pareto', SUMMARY, flag_table, _pareto, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags: the program's own, and those that make a task."""
  return flags.all_flags(
      flags.own_flag('mu', 1.0, 'Smallest eigenvalue of clients.', above=0.0),
      flags.own_flag('L', 10.0, 'Largest eigenvalue of clients.', above=0.0),
      flags.own_flag(
          'gamma', 'auto', 'Client learning rate; auto: 1 / (2 (L + alpha)), of'
          ' theta_K and maml that over their number of gradients; with --task'
          ' that of FedAvg on the task.', minimum=0.0, auto=True,
      ),
      flags.own_flag(
          'num_steps', 10, 'Local steps K, of maml those of adaptation; with'
          ' --task by default those of FedAvg on the task.', minimum=1,
      ),
      flags.own_flag('alpha', 0.0, 'Proximal strength.', minimum=0.0),
      flags.own_flag(
          'family', 'fedavg', 'What clients send: all gradients, or the last'
          ' one.', choices=frontiers.FAMILIES,
      ),
      flags.own_flag(
          'figure', 0, 'Number of a figure, see above; 0: none.', minimum=0
      ),
      flags.own_flag(
          'recommend', False, 'Say what to use for --rounds and --accuracy.'
      ),
      flags.own_flag(
          'accuracy', 0.1, 'Distance to the optimum that is asked for, in units'
          ' of the radius C of a ball with all client optima.', above=0.0,
      ),
      flags.own_flag(
          'distance', 10.0, 'Distance from the initial model to the optimum, in'
          ' units of C; with --task by default the measured one.', above=0.0,
      ),
      flags.own_flag(
          'rounds', 100, 'With --recommend: rounds of training.', minimum=1
      ),
      flags.own_flag(
          'l2', 1e-3, 'With --task: L2 penalty of every client\'s loss, without'
          ' which it may have no optimum.', minimum=0.0,
      ),
      without=('rounds',),
  )


def _pareto(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  output_dir = given.pop('output_dir', '') or flags.resolve_path('runs/pareto')
  if given.get('figure'):
    _check_used(given, ('figure',), f"--figure={given['figure']}")
    _figure(given['figure'], output_dir)
  else:
    _curve(given, table, output_dir)
  print(f'Results are in {output_dir}.')
  return 0


def _check_used(given, used: Sequence[str], what: str) -> None:
  """Refuses flags without an effect."""
  for name, value in given.items():
    if name not in used:
      raise flags.UsageError(
          f'`--{name}` must be left out with {what} because it has no effect,'
          f' found {value!r}.'
      )


def _figure(number: int, output_dir: str) -> None:
  """Computes, writes and plots a figure of the paper."""
  if number not in paper_figures.FIGURES:
    known = ', '.join(map(str, sorted([*paper_figures.FIGURES, 6])))
    raise flags.UsageError(
        f'`--figure` must be one of {known}, found {number}.'
    )
  curves = paper_figures.compute(number)
  _write(output_dir, paper_figures.COLUMNS, paper_figures.rows(curves))
  pareto_plots.plot_curves(curves, output_dir, f'figure{number}')
  print(f'Figure {number}: {paper_figures.FIGURES[number].summary}.')


def _curve(given, table, output_dir: str) -> None:
  """Shows a setting, or the best ones, for given or for measured clients."""
  with_task, recommends = 'task' in given, given.get('recommend', False)
  used: tuple[str, ...] = _RECOMMEND if recommends else _POINT
  used += pareto_task.used_flags(given, table) if with_task else _SPECTRUM
  what = '--recommend' if recommends else 'one point'
  _check_used(given, used, what + ' and --task' * with_task)
  own = {name: table[name].spec.default for name in _OWN}
  measured, task_flags = None, {}
  if with_task:
    task_flags = {k: value for k, value in given.items() if k not in own}
    measured = pareto_task.measure(task_flags, given.get('l2', own['l2']))
    own.update(
        gamma=measured.gamma, num_steps=measured.num_steps,
        distance=measured.curvature.start / measured.curvature.radius,
    )
  own.update(given)
  with flags.sentences():
    spectrum = (
        measured.curvature.spectrum if measured
        else local_updates.Spectrum(own['mu'], own['L'])
    )
    points = (
        pareto_tables.recommend(spectrum, own, task_flags) if recommends
        else pareto_tables.show(spectrum, own)
    )
  _write(output_dir, frontiers.Point._fields, [p._asdict() for p in points])
  if measured:
    pareto_task.write(measured, output_dir)
  pareto_plots.plot_points(
      spectrum.kappa0, points, output_dir, 'pareto',
      measured.title if measured else f'mu = {own["mu"]:g}, L = {own["L"]:g}',
  )


def _write(output_dir: str, columns, rows) -> None:
  os.makedirs(output_dir, exist_ok=True)
  results.write_csv(os.path.join(output_dir, 'pareto.csv'), columns, rows)


if __name__ == '__main__':
  sys.exit(main(sys.argv))
