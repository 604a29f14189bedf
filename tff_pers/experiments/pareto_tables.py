"""Prints tables of points and recommendations for `pareto`."""

import itertools
import math
from typing import Any, Mapping, Optional

from tff_pers.analysis import bounds
from tff_pers.analysis import federations
from tff_pers.analysis import frontiers
from tff_pers.analysis import rates
from tff_pers.analysis import recommend as recommend_lib
from tff_pers.analysis import surrogate as surrogate_lib
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.numerics import thetas

DISTANCES = (
    'clients', 'server', 'distance', 'V1', 'V2', 'theorem_4', 'error',
    'corollary_1',
)
# Simulated clients: 20 of 10 weights, whose optima are unit vectors, C = 1.
_CLIENTS = {
    'common extremes': federations.shared_extremes,
    'rotated': federations.rotated,
}


def show(spectrum: Any, own: Mapping[str, Any]) -> list[frontiers.Point]:
  """Returns and prints each server's point and the settings that attain it."""
  gamma = own['gamma']
  if gamma == 'auto':
    gradients = frontiers.local_update(
        own['family'], own['num_steps'], 0.0, own['alpha']
    ).theta
    gamma = 1 / (2 * (spectrum.L + own['alpha']))
    if isinstance(gradients, thetas.LastGradient):
      gamma /= gradients.num_steps
  setting = dict(num_steps=own['num_steps'], gamma=gamma, alpha=own['alpha'])
  update = frontiers.local_update(own['family'], **setting)
  points = [
      frontiers.point(spectrum, own['family'], server, **setting)
      for server in rates.SERVERS
  ]
  low, high = (math.exp(value) for value in update.h_range(spectrum))
  rows = []
  for point in points:
    # Far beyond the closed form the last gradient underflows to 0, and no step
    # size is large enough.
    step: tuple[Optional[float], Optional[float]] = (None, None)
    if low > 0:
      step = rates.server_step(high, low, point.server)
    rows.append({
        **point._asdict(), **dict(zip(('server_learning_rate', 'beta'), step))
    })
  _print(rows)
  if not update.has_closed_form(spectrum):
    print(
        'gamma exceeds 1 / (K L + alpha), the limit of Eq. 13: kappa is taken'
        ' over all eigenvalues between mu and L, delta is the distortion\'s.'
    )
  return points


def distances(
    spectrum: Any, own: Mapping[str, Any], points: list[frontiers.Point]
) -> list[dict[str, Any]]:
  """Returns and prints exact distances of simulated clients, and the bounds.

  `points` are what `show` returned, `own` the values of the program's own
  flags.

  Returns:
    Rows of `DISTANCES`, one per simulation and server, in units of C: the exact
    ||xtil* - x*||, its bounds (V1), (V2) and Theorem 4's; the exact ||x_T -
    x*|| after `rounds` from a model at `distance` from xtil*, and Corollary 1's
    bound on it. (V2) is None without common eigenvectors.
  """
  update = frontiers.local_update(
      points[0].family, points[0].num_steps, points[0].gamma, points[0].alpha
  )
  rows = []
  for name, simulate in _CLIENTS.items():
    clients = simulate(20, 10, spectrum.mu, spectrum.L, 0)
    surrogate = surrogate_lib.Surrogate(clients, update)
    known = {row['bound']: row['value'] for row in bounds.table(surrogate)}
    start = surrogate.optimum + own['distance'] / math.sqrt(clients.dim)
    low, high = surrogate.extremes
    for point in points:
      step = rates.server_step(high, low, point.server)
      last = next(itertools.islice(
          surrogate.rounds(start, point.server, step), own['rounds'], None
      ))
      printed = known['paper, 8 C Delta']
      rows.append(dict(zip(DISTANCES, (
          name, point.server, surrogate.distance, known['V1'], known.get('V2'),
          printed, math.dist(last, clients.optimum),
          # With momentum the corollary holds with an unknown constant.
          point.rho ** own['rounds'] * own['distance'] + printed
          if point.server == 'gd' else None,
      ))))
  print(
      f"20 simulated clients of 10 weights, C = 1; {own['rounds']} rounds from"
      f" a model at {own['distance']:g} from where training ends:\n"
  )
  _print(rows)
  return rows


def recommend(
    spectrum: Any, own: Mapping[str, Any], task_flags: Mapping[str, Any]
) -> list[frontiers.Point]:
  """Prints the best settings in order, the best first; returns their points.

  `task_flags` make the task, for the training commands; empty without a task.
  """
  found = recommend_lib.recommend(
      spectrum, num_rounds=own['rounds'], accuracy=own['accuracy'],
      distance=own['distance'],
  )
  _print([setting._asdict() for setting in found])
  best = found[0]
  # With local steps, the error in several dimensions is only an expectation.
  kind = 'an error of at most' if best.num_steps == 1 else (
      'an expected error of'
  )
  verdict = 'reaches' if best.error <= own['accuracy'] else 'does not reach'
  needed = best.rounds_needed
  print(
      f"Use server {best.server} (learning rate"
      f" {best.server_learning_rate:.6g}, momentum {best.beta:.6g}), gamma ="
      f" {best.gamma:.6g}, K = {best.num_steps}, alpha = {best.alpha:g}:"
      f" {kind} {best.error:.6g} C after {own['rounds']} rounds, which"
      f" {verdict} {own['accuracy']:g} C; "
      + ('no number of rounds below 10^9 does.' if needed is None
         else f'that is expected to take {needed} round{"s" * (needed > 1)}'
         ' with the best setting for that many.')
  )
  without = ''
  if task_flags and own['l2']:
    without = (
        f"; they train without the L2 penalty --l2={own['l2']:g}, which is part"
        ' of mu and L, because train has no such flag'
    )
  print(
      'This holds for full gradients of all clients and quadratic losses; for'
      ' K > 1 it is proven in one dimension and a guide in more. It ignores the'
      ' noise of minibatches: with minibatches, try the settings of all servers'
      f' in short runs. The commands, the best first{without}:\n'
  )
  for setting in found:
    words = _command(setting, own['rounds'], task_flags)
    print('  ' + ' '.join(words) + '\n')
  return [
      frontiers.point(
          spectrum, 'fedavg', setting.server, num_steps=setting.num_steps,
          gamma=setting.gamma, alpha=setting.alpha,
      )
      for setting in found
  ]


def _command(setting, num_rounds, task_flags) -> list[str]:
  """Returns the words of the command that trains with a setting."""
  values = dict(
      algo='local_update', task='NAME', rounds=num_rounds, clients_per_round=0,
      client_weighting='uniform',  # As in the mean whose optimum is measured.
      local_update_num_steps=setting.num_steps,
      local_update_gamma=setting.gamma,
      local_update_eta=setting.server_learning_rate,
      local_update_batch_size=0,
  )
  if setting.server != 'gd':
    values.update(
        local_update_server_optimizer=setting.server,
        local_update_beta=setting.beta,
    )
  return [
      'python -m binaries.train', *flags.as_typed({**values, **task_flags})
  ]


def _print(rows) -> None:
  """Prints a table with six significant digits."""
  cells = [
      {name: f'{value:.6g}' if isinstance(value, float) else value
       for name, value in row.items()}
      for row in rows
  ]
  print(results.markdown(list(rows[0]), cells))
