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

Writes a CSV file per curve, figure1.csv, and a figure per task. Rerun the same
command to resume after the last finished curve.
"""

import os
import re
from typing import Any, Mapping, Sequence

import numpy as np
import tqdm

import baselines  # pylint: disable=unused-import
from binaries.ffgg_benchmark import curves as curves_lib
from tff_pers import runtime
import tff_pers.algorithms  # pylint: disable=unused-import
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data import task as task_lib
from tff_pers.data import tasks
from tff_pers.evaluation import error_plots
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import resume_flags

TASKS = ('overpersonalized', 'overpersonalized_control')
_CONFIG = 'benchmark_ffgg.json'
_COLUMNS = ('round', 'norm', 'root_mean_square')


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
  rows = []
  for name in names:
    family = tasks.get(name)
    task = family.build(
        tasks.TaskRequest(seed=given['seed']),
        family.options(scale=given['scale']),
    )
    operator = curves_lib.Operator(task)
    panels = {}
    if cg_taus:
      panels['conjugate gradient'] = curves_lib.conjugate_gradient(
          operator, cg_taus
      )
    for tau in taus:
      panels[f'tau = {tau}'] = curves_lib.comparison(operator, tau)
    rows += _run_panels(task, operator, panels, given, output_dir)
  results.write_csv(
      os.path.join(output_dir, 'figure1.csv'),
      ('task', 'panel', 'curve', *_COLUMNS), rows,
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
    operator: curves_lib.Operator,
    panels: Mapping[str, Sequence[curves_lib.Curve]],
    given: Mapping[str, Any],
    output_dir: str,
) -> list[dict[str, Any]]:
  """Runs and draws the panels of a task, and prints their tables.

  Curves are by title of the panel; those whose file exists are not run again.

  Returns:
    The points of all curves, with `task`, `panel` and `curve`.
  """
  rows: list = []
  drawn: dict[str, dict] = {}
  for panel, members in panels.items():
    drawn[panel] = {}
    for curve in members:
      path = os.path.join(output_dir, _file_name(task.name, panel, curve))
      if not os.path.exists(path):
        title = f'{task.name}, {panel}: {curve.label}'
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
    print(_table(task.name, panel, drawn[panel], given))
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


def _table(task_name, panel, curves, given) -> str:
  """Returns a table of ||F|| at chosen rounds, beside calibrated numbers."""
  shown = [r for r in curves_lib.ROUNDS if r <= given['rounds']]
  known: Mapping[str, Mapping[str, str]] = {}
  if (task_name, given['scale']) == ('overpersonalized', 'paper'):
    known = curves_lib.calibrated(panel)
  rows = []
  for label, curve in curves.items():
    row = dict(curve=label)
    for r in shown:
      value = curve.values[0][curve.rounds == r]
      text = f'{value[0]:.2g}' if value.size else '-'
      if label in known:
        text += f' ({float(known[label][str(r)]):.2g})'
      row[f'round {r}'] = text
    rows.append(row)
  return f'\n{task_name}, {panel}\n\n{results.markdown(list(rows[0]), rows)}\n'


def _file_name(task_name: str, panel: str, curve) -> str:
  text = f'{task_name} {panel} {curve.label}'
  return re.sub(r'[^a-zA-Z0-9]+', '_', text).strip('_') + '.csv'


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
