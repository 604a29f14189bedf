"""Training losses by the rates of clients and server, Figures 6, 12 and 13.

Theta_{1:10}, gradient descent at the server, clients alike. Figure 12 has one
rate eta of the server, Figure 13 for every gamma the eta with the least mean
training loss of the evaluated ones among the last 100 rounds. The loss is that
along the clients' local steps (`train_loss`), which a large gamma lowers by
itself; the paper's is that of the server's model. Runs that diverge are left
out.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021. Appendix D.2.
"""

import os
from typing import Any, Sequence

import numpy as np

from tff_pers.evaluation import curves
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import sweep

COLUMNS = ('gamma', 'eta', 'train_loss', 'chosen')
_GAMMAS = (0, 0.001, 0.01, 0.1, 1, 10)
# From 10^-3 to 10^1 by half decades.
_ETAS = {12: (0.01,), 13: tuple(10 ** (half / 2) for half in range(-6, 3))}
_LAST = 100
# Flags of `compare_tuned` for Figure 6: Theta_{1:50}, and GD, Nesterov, heavy
# ball, or GD with several alpha at the server. In delta form, the server step
# of the methods is eta / gamma. The paper does not state its alpha, and tries 9
# x 9 rates.
TUNED = (
    '--algos=' + ','.join(
        f'{algo}local_steps=50,local_epochs=0]' for algo in (
            'fedavg[', 'fedavgm[nesterov=true,', 'fedavgm[', 'fedprox[mu=0.01,',
            'fedprox[mu=0.1,', 'fedprox[mu=1,',
        )
    ),
    '--grid=learning_rate:0.03,0.1,0.3,1;server_learning_rate:0.1,0.3,1',
)


def algos(number: int) -> str:
  """Returns the variants that are compared for a figure."""
  return ','.join(
      f'local_update[num_steps=10,eta={eta:.3g},gamma={gamma:g}]'
      for gamma in _GAMMAS for eta in _ETAS[number]
  )


def run(
    given: dict[str, Any], table: dict[str, flags.Flag], *, number: int
) -> int:
  """Trains the runs of Figure 12 or 13 and draws it, see `flags.Program`.

  Raises:
    flags.UsageError: If flags conflict or cannot be carried out.
  """
  if 'algos' in given:
    raise flags.UsageError(
        f'`--algos` must be left out with --figure={number}, which has its own,'
        f" found {given['algos']}."
    )
  given = {**given, 'output_dir': flags.output_dir(given, 'pareto')}
  # The clients of the paper have equal weights.
  sweep.compare(
      {'client_weighting': 'uniform', **given, 'algos': algos(number)}, table
  )
  write(given['output_dir'], number)
  return 0


def write(folder: str, number: int) -> None:
  """Writes and plots a figure from the runs that `compare` left in a folder.

  `figureN.csv` has a row of `COLUMNS` per pair of rates; without a loss if a
  seed diverged.
  """
  compared = {row['algo'] for row in results.read_rows(folder, 'summary.csv')}
  runs = [run for run in map(results.read_run, results.find_runs(folder))
          if run.variant in compared]
  losses: dict[float, dict[float, float]] = {}
  members: dict[tuple[float, float], list[results.Run]] = {}
  for own in figures.by_variant(runs).values():
    gamma, eta = (
        own[0].config['flags'][f'local_update_{name}']
        for name in ('gamma', 'eta')
    )
    losses.setdefault(gamma, {})[eta] = _loss(own)
    members[gamma, eta] = own
  picture, (axis,) = figures.new_figure(5.0, 3.8, 1)
  rows = []
  for line, (gamma, tried) in enumerate(sorted(losses.items())):
    finite = {eta: loss for eta, loss in tried.items() if np.isfinite(loss)}
    best = min(finite, key=finite.__getitem__, default=None)
    rows += [
        dict(zip(COLUMNS, (
            f'{gamma:g}', f'{eta:g}', finite.get(eta), int(eta == best)
        )))
        for eta in sorted(tried)
    ]
    if best is None:
      continue
    rounds, values = curves.common_rounds(members[gamma, best], 'train_loss')
    figures.draw_seeds(
        axis, f'gamma = {gamma:g}, eta = {best:.3g}', line, rounds, values
    )
  results.write_csv(os.path.join(folder, f'figure{number}.csv'), COLUMNS, rows)
  print(results.markdown(COLUMNS, rows))
  axis.set_xlabel(curves.across(runs))
  axis.set_ylabel('Training loss')
  print(f'{figures.save(picture, folder, f"figure{number}")}.png')


def _loss(seeds: Sequence[results.Run]) -> float:
  """Returns the mean training loss of the last rounds; NaN if one diverged."""
  if any(run.diverged for run in seeds):
    return np.nan
  return float(np.mean([
      run.metrics['train_loss'][
          run.metrics['round'] > run.metrics['round'][-1] - _LAST
      ].mean() for run in seeds
  ]))
