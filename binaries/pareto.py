"""The trade-off of speed and accuracy that local updates make.

    python -m binaries.pareto --mu=1 --L=10 --gamma=0.05 --num_steps=10
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import compare_tuned
from tff_pers.analysis import frontiers
from tff_pers.analysis import paper_figures
from tff_pers.experiments import flags
from tff_pers.experiments import pareto

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
  return flags.program('pareto', SUMMARY, flag_table, pareto.run, argv)


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


if __name__ == '__main__':
  sys.exit(main(sys.argv))
