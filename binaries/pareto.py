"""Computes the trade-off between speed and accuracy of local updates.

    python -m binaries.pareto --mu=1 --L=10 --gamma=0.05 --num_steps=10
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import compare
from binaries import compare_tuned
from tff_pers.analysis import paper_figures
from tff_pers.experiments import flags
from tff_pers.experiments import pareto
from tff_pers.experiments import pareto_trained

# Figure 6 is trained: Theta_{1:50}, and GD, Nesterov, heavy ball, or GD with
# several alpha at the server. In delta form, the server step of the methods is
# eta / gamma. The paper does not state its alpha, and tries 9 x 9 rates.
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

More local steps K make the server converge faster (rate rho), but to a model
farther (distance Delta) from the best common one, before clients adapt it.
Exact for quadratic clients with Hessians between mu and L. Without --figure:
one point per server optimizer, with its best learning rate and momentum.
--recommend says what to use for a number of rounds. With --task, mu, L and the
spread of client optima are measured on a model and its data, and the point of
FedAvg is shown. Writes pareto.csv and a plot, PNG and SVG.

Figures of Charles and Konecny (2021), mu = 1:
{_FIGURES}
  --figure=6   trains FedAvg (GD), FedAvgM (Nesterov, heavy ball) and FedProx
               (alpha = 0.01, 0.1, 1) with 50 local steps on --task; tunes the
               client and server rates on a grid; flags and files of
               compare_tuned
  --figure=12  trains Theta_{{1:10}} with gamma = 0, 0.001, ..., 10 and eta =
               0.01 on --task: the mean loss of the local steps over rounds;
               flags and files of compare; clients alike, as in the paper
  --figure=13  as 12, for each gamma the best eta of 0.001 to 10 by this loss"""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  number = startup.value_of(argv, 'figure')
  if number not in ('6', '12', '13') or flags.wants_help(argv):
    return flags.program('pareto', SUMMARY, flag_table, pareto.run, argv)
  rest = startup.without(argv[1:], 'figure')
  folder = flags.resolve_path('runs/pareto')
  if number == '6':
    # The grid belongs to the figure and does not grow. The given flags come
    # last and override it.
    return compare_tuned.main(
        ['pareto', f'--algos={_TRAINED}', f'--grid={_TRAINED_GRID}',
         '--extensions=0', f'--output_dir={folder}', *rest]
    )
  return flags.program(
      'pareto', SUMMARY, compare.flag_table,
      lambda given, table: pareto_trained.run(
          {'output_dir': folder, **given}, table, int(number), compare.compare
      ),
      ['pareto', *rest],
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags: the program's own, and those that make a task."""
  return flags.all_flags(*pareto.FLAGS, without=('rounds',))


if __name__ == '__main__':
  sys.exit(main(sys.argv))
