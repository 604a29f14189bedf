"""Runs the curves of Figure 1: files, tables, panels."""

import os
import re
from typing import Any, Mapping, Sequence

import numpy as np
import tqdm

import baselines  # pylint: disable=unused-import
from binaries.ffgg_benchmark import curves as curves_lib
import tff_pers.algorithms  # pylint: disable=unused-import
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data import task as task_lib
from tff_pers.evaluation import error_plots
from tff_pers.evaluation import results

COLUMNS = ('round', 'norm', 'root_mean_square')


def run_panels(
    task: task_lib.Task,
    operator: curves_lib.Operator,
    panels: Mapping[str, Sequence[curves_lib.Curve]],
    given: Mapping[str, Any],
    output_dir: str,
) -> list[dict[str, Any]]:
  """Runs and draws the panels of a task, and prints their tables.

  Args:
    task: The task.
    operator: Its F.
    panels: Curves by panel title; curves whose file exists are not run again.
    given: `rounds`, `every`, `scale`, `seed`.
    output_dir: Where files are.

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
            path, COLUMNS, _points(task, operator, curve, given, title)
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
      points.append(dict(zip(COLUMNS, (done, *norms))))
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
