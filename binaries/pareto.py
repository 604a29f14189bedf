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

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import functools
import sys
from typing import Sequence

from binaries import compare
from binaries import compare_tuned
from tff_pers.analysis import paper_figures
from tff_pers.experiments import flags
from tff_pers.experiments import pareto
from tff_pers.experiments import pareto_trained

# With the figures that are computed.
_HELP = (__doc__ or '') + '\n'.join(
    f'  --figure={number:<4}{figure.summary}'
    for number, figure in paper_figures.FIGURES.items()
)


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  number, rest = startup.take(argv[1:], 'figure')
  if number not in ('6', '12', '13') or flags.wants_help(argv):
    own = flags.Program(
        'pareto', _HELP, pareto.run, *pareto.FLAGS, without=(), fills=()
    )
    return own(argv)
  if number == '6':
    folder = f"--output_dir={flags.resolve_path('runs/pareto')}"
    return compare_tuned.main(['pareto', *pareto_trained.TUNED, folder, *rest])
  body = functools.partial(pareto_trained.run, number=int(number))
  trained = flags.Program(
      'pareto', _HELP, body, *compare.main.own, without=('seed',),
      fills=('seeds', 'targets', 'jobs'), resumes=True,
  )
  return trained(['pareto', *rest])


if __name__ == '__main__':
  sys.exit(main(sys.argv))
