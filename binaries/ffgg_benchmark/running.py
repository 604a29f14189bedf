"""Reproduces Figure 1 of the partial personalization paper.

    python -m binaries.benchmark_ffgg --output_dir=DIR [--rounds=1000]
        [--taus=...]

Figure 1: the norm of F, the mean gradient after fine-tuning, against rounds.
Panel (a) is FFGG with conjugate gradient, (b) to (d) FFGG with gradient descent
against Local GD, Scaffold and L2GD with as many local steps, on the
overpersonalized task and on its control. All clients in every round, full
gradients, float64, fused runtime. A round of L2GD is one `next`: local steps
until the coin first says to average, which takes 1 / p = tau steps on average.

A round at the paper's scale takes about 0.05 CPU seconds per 100 of tau; each
curve first compiles for up to a minute, which --strategy=loop avoids. The whole
figure takes about two hours on one core; --taus=100 takes 20 minutes.

Writes a CSV file per curve, figure1.csv, its table figure1_rounds.csv, and a
figure per task. Rerun the same command to resume after the last finished curve.
"""

import os
import re
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import tqdm

import baselines  # pylint: disable=unused-import
from tff_pers import runtime
import tff_pers.algorithms  # pylint: disable=unused-import
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data import least_squares
from tff_pers.data import task as task_lib
from tff_pers.data import tasks
from tff_pers.evaluation import error_plots
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import resume_flags

TASKS = ('overpersonalized', 'overpersonalized_control')
_CONFIG = 'benchmark_ffgg.json'
_LAMBDA = 0.1  # lambda of L2GD.
# Rounds in tables.
_ROUNDS = (10, 100, 200, 500, 1000)
_COLUMNS = ('round', 'norm', 'root_mean_square')


class Operator:
  """F of a least-squares task, and the constants that set the step sizes.

  Attributes:
    smoothness: L = max_m lambda_max(G_m).
    private: max_m lambda_max(B_m^T B_m).
    joint: L_f, the smoothness of f_m in (theta, w).
    num_clients: M.
  """

  def __init__(self, task: task_lib.Task):
    assert task.model.layers is not None  # Two layers, linear in each.
    theta_dim = task.model.layers[0].shape[0]
    rows = [data['examples'] for data in task.train]
    self._g, self._h = (np.stack(part) for part in zip(*(
        least_squares.operator(row['x'], row['y'], theta_dim) for row in rows
    )))
    self.smoothness = np.linalg.eigvalsh(self._g).max()
    self.private = max(
        np.linalg.norm(row['x'][:, theta_dim:], 2) ** 2 for row in rows
    )
    self.joint = max(
        float(np.linalg.norm(row['x'], 2)) ** 2 for row in rows
    )
    self.num_clients = len(rows)

  def norms(self, theta: np.ndarray) -> tuple[float, float]:
    """Returns ||F(theta)|| and the root of mean_m ||F_m(theta)||^2."""
    each = self._g @ theta - self._h
    return (
        float(np.linalg.norm(each.mean(axis=0))),
        float(np.sqrt(np.square(each).sum(axis=1).mean())),
    )


class Curve(NamedTuple):
  """A method with hyperparameters.

  Attributes:
    label: In legends and tables.
    algo: Name of the method.
    values: Hyperparameters by flag name.
  """

  label: str
  algo: str
  values: Mapping[str, Any]


def conjugate_gradient(operator: Operator, taus: Sequence[int]) -> list[Curve]:
  """Returns the curves of panel (a): more local work is better."""
  return [
      Curve(f'FFGG, CG, tau = {tau}', 'ffgg', dict(
          tuner='cg', local_steps=tau, local_epochs=0,
          server_learning_rate=1 / operator.smoothness,
      ))
      for tau in taus
  ]


def comparison(operator: Operator, tau: int) -> list[Curve]:
  """Returns the curves of the panel with `tau` local steps, (b) to (d).

  The paper prints the reciprocal of L2GD's step size and misplaces M^2; both
  are corrected here. Local GD with the paper's step size is equally slow for
  every tau, so it is repeated with a step size that does not shrink with tau.
  """
  full = dict(batch_size=0, local_steps=tau, local_epochs=0)
  careful = 1 / (operator.joint * tau)
  p = 1 / tau
  l2gd = dict(batch_size=0, p=p, **{'lambda': _LAMBDA})
  # alpha / M for alpha = 1 / (2 M max(L_f / (1 - p), lambda / p)).
  small = 0.5 / operator.num_clients ** 2 / max(
      operator.joint / (1 - p), _LAMBDA / p
  )
  return [
      Curve('FFGG, GD', 'ffgg', dict(
          full, learning_rate=1 / operator.private,
          server_learning_rate=1 / operator.smoothness,
      )),
      Curve('Local GD, 1/(L_f tau)', 'fedavg', dict(
          full, learning_rate=careful
      )),
      Curve('Scaffold', 'scaffold', dict(
          full, learning_rate=careful, server_learning_rate=0.5, option='1'
      )),
      Curve('Local GD, 1/L_f', 'fedavg', dict(
          full, learning_rate=1 / operator.joint
      )),
      Curve('L2GD, (M/2)/max', 'l2gd', dict(l2gd, smoothness=operator.joint)),
      # Without a smoothness constant the step is given: alpha / (M (1 - p)).
      Curve('L2GD, (2M)^-1/max', 'l2gd', dict(
          l2gd, learning_rate=small / (1 - p)
      )),
  ]


def calibrated(panel: str) -> dict[str, dict[str, str]]:
  """Returns ||F|| by curve and round, on overpersonalized at the paper's scale.

  From an independent computation of the formulas; not results of the paper.
  """
  rows = results.read_rows(os.path.dirname(__file__), 'calibrated.csv')
  return {row['curve']: row for row in rows if row['panel'] == panel}


def _run(given: dict[str, Any]) -> None:
  output_dir = flags.output_dir(given, 'figure1')
  taus, cg_taus = (_numbers(given, name) for name in ('taus', 'cg_taus'))
  names = flags.chosen('tasks', given['tasks'], TASKS)
  with flags.usage_errors(names=['strategy', 'device']):
    runtime.use(
        'fused', given['device'] or None, strategy=given['strategy']
    )
  config = {
      name: given[name] for name in ('rounds', 'every', 'scale', 'seed')
  }
  path = os.path.join(output_dir, _CONFIG)
  resume_flags.check(path, config)
  resume_flags.write(path, config)
  rows: list[dict[str, Any]] = []
  table: list[dict[str, str]] = []
  for name in names:
    family = tasks.get(name)
    task = family.build(
        tasks.TaskRequest(seed=given['seed']),
        family.options(scale=given['scale']),
    )
    operator = Operator(task)
    panels = {}
    if cg_taus:
      panels['conjugate gradient'] = conjugate_gradient(
          operator, cg_taus
      )
    for tau in taus:
      panels[f'tau = {tau}'] = comparison(operator, tau)
    rows += _run_panels(task, operator, panels, given, output_dir, table)
  results.write_csv(
      os.path.join(output_dir, 'figure1.csv'),
      ('task', 'panel', 'curve', *_COLUMNS), rows,
  )
  results.write_csv(
      os.path.join(output_dir, 'figure1_rounds.csv'),
      ['curve', *(f'round {r}' for r in _shown(given))], table,
  )
  print(f'Results are in {output_dir}.')


def _numbers(given, name: str) -> list[int]:
  """Returns the numbers of a comma-separated list."""
  items = [item for item in given[name].split(',') if item]
  if not all(item.isdecimal() and int(item) > 0 for item in items):
    raise flags.UsageError(
        f'`--{name}` must be integers >= 1 with commas between them, found'
        f' {given[name]!r}.'
    )
  return [int(item) for item in dict.fromkeys(items)]


def _run_panels(
    task: task_lib.Task,
    operator: Operator,
    panels: Mapping[str, Sequence[Curve]],
    given: Mapping[str, Any],
    output_dir: str,
    table: list[dict[str, str]],
) -> list[dict[str, Any]]:
  """Runs and draws the panels of a task, prints their tables, adds to `table`.

  Curves are by title of the panel; those whose file exists are not run again.

  Returns:
    The points of all curves, with `task`, `panel` and `curve`.
  """
  rows: list = []
  drawn: dict[str, dict] = {}
  for panel, members in panels.items():
    drawn[panel] = {}
    for curve in members:
      title = f'{task.name}, {panel}: {curve.label}'
      words = re.findall('[a-zA-Z0-9]+', title)
      path = os.path.join(output_dir, f'{"_".join(words)}.csv')
      if not os.path.exists(path):
        results.write_csv(
            path, _COLUMNS, _points(task, operator, curve, given, title)
        )
      points = results.read_rows(*os.path.split(path))
      rows += [
          dict(point, task=task.name, panel=panel, curve=curve.label)
          for point in points
      ]
      drawn[panel][curve.label] = error_plots.Curve(
          np.array([int(point['round']) for point in points]),
          np.array([[float(point['norm']) for point in points]]),
      )
    found = _table(task.name, panel, drawn[panel], given)
    print(f'\n{results.markdown(list(found[0]), found)}\n')
    table += found
  error_plots.plot_panels(drawn, output_dir, task.name, '||F(theta)||')
  return rows


def _points(task, operator, curve, given, title: str):
  """Trains; returns the norms every `every` rounds and after the last one."""
  method = methods.get(curve.algo)
  process = method.build(
      task, hp.replace(method.hyperparameters(), **curve.values)
  )
  state = process.initialize_seeded(given['seed'])
  own = [
      process.initialize_client(state, index)
      for index in range(task.num_clients)
  ]
  points = []
  for done in tqdm.tqdm(range(given['rounds'] + 1), title, unit='round'):
    if done:
      output = process.next(state, own, task.train)
      state, own = output['state'], output['client_states']
    if done % given['every'] == 0 or done in (given['rounds'], 1):
      # theta is the first (for FFGG, the only) global weight.
      norms = operator.norms(np.asarray(state['weights'][0]))
      points.append(dict(zip(_COLUMNS, (done, *norms))))
  return points


def _shown(given: Mapping[str, Any]) -> list[int]:
  return [r for r in _ROUNDS if r <= given['rounds']]


def _table(task_name, panel, curves, given) -> list[dict[str, str]]:
  """Returns ||F|| by curve at chosen rounds, beside calibrated numbers."""
  known: Mapping[str, Mapping[str, str]] = {}
  if (task_name, given['scale']) == ('overpersonalized', 'paper'):
    known = calibrated(panel)
  rows = []
  for label, curve in curves.items():
    row = dict(curve=f'{task_name}, {panel}: {label}')
    for r in _shown(given):
      value = curve.values[0][curve.rounds == r]
      text = f'{value[0]:.2g}' if value.size else '-'
      if label in known:
        text += f' ({float(known[label][str(r)]):.2g})'
      row[f'round {r}'] = text
    rows.append(row)
  return rows


main = flags.Program(
    'benchmark_ffgg', __doc__, _run,
    flags.own_flag('rounds', 1000, 'Rounds of each curve.', minimum=1),
    flags.own_flag('every', 10, 'Rounds between two points.', minimum=1),
    flags.own_flag(
        'taus', '100,200,500', 'Local steps of the panels (b), (c), ...'
    ),
    flags.own_flag(
        'cg_taus', '1,2,3,5,10,20',
        'Iterations of conjugate gradient in panel (a).',
    ),
    flags.own_flag(
        'tasks', ','.join(TASKS), 'Tasks; one figure for each.'
    ),
    flags.own_flag(
        'scale', 'paper', 'Scale of the tasks.', choices=('paper', 'tiny')
    ),
    flags.own_flag('seed', 0, 'Seed of data and coins.', minimum=0),
    flags.own_flag(
        'strategy', 'xla', 'Strategy of the fused runtime: xla compiles for a'
        ' minute per curve, then takes a quarter of the time per round.',
    ),
    flags.own_flag(
        'device', '', 'cpu or gpu; empty: the GPU if there is one.'
    ),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: runs/figure1.'
    ),
    resumes=True,
)
