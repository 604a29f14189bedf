"""Reproduces Figure 1 of the partial personalization paper.

    python -m binaries.benchmark_ffgg --output_dir=runs/figure1
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Sequence

from binaries.ffgg_benchmark import curves
from binaries.ffgg_benchmark import running
from tff_pers import runtime
from tff_pers.data import tasks
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import resume_flags

SUMMARY = """\
python -m binaries.benchmark_ffgg --output_dir=DIR [--rounds=1000] [--taus=...]

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
command to resume after the last finished curve."""

_TASKS = ('overpersonalized', 'overpersonalized_control')
_CONFIG = 'benchmark_ffgg.json'


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('benchmark_ffgg', SUMMARY, flag_table, _benchmark, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag('rounds', 1000, 'Rounds of each curve.', minimum=1),
      flags.own_flag('every', 10, 'Rounds between two points.', minimum=1),
      flags.own_flag(
          'taus', '100,200,500', 'Local steps of the panels (b), (c), ...'
      ),
      flags.own_flag(
          'cg_taus', '1,2,3,5,10,20',
          'Iterations of conjugate gradient in panel (a).',
      ),
      flags.own_flag('tasks', ','.join(_TASKS), 'Tasks; one figure for each.'),
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
  ])


def _benchmark(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  given = {**flags.own_defaults(table), **given}
  output_dir = given.pop('output_dir') or flags.resolve_path('runs/figure1')
  taus, cg_taus = (_numbers(given, name) for name in ('taus', 'cg_taus'))
  names = flags.chosen('tasks', given['tasks'], _TASKS)
  with flags.usage_errors(names=['strategy', 'device']):
    runtime.use(
        'fused', given['device'] or None, strategy=given['strategy']
    )
  _check_folder(output_dir, given)
  rows = []
  for name in names:
    family = tasks.get(name)
    task = family.build(
        tasks.TaskRequest(seed=given['seed']),
        family.options(scale=given['scale']),
    )
    operator = curves.Operator(task)
    panels = {}
    if cg_taus:
      panels['conjugate gradient'] = curves.conjugate_gradient(
          operator, cg_taus
      )
    for tau in taus:
      panels[f'tau = {tau}'] = curves.comparison(operator, tau)
    rows += running.run_panels(task, operator, panels, given, output_dir)
  results.write_csv(
      os.path.join(output_dir, 'figure1.csv'),
      ('task', 'panel', 'curve', *running.COLUMNS), rows,
  )
  print(f'Results are in {output_dir}.')
  return 0


def _check_folder(output_dir: str, given) -> None:
  """Makes the folder; refuses one that holds curves of other flags."""
  config = {
      name: given[name] for name in ('rounds', 'every', 'scale', 'seed')
  }
  path = os.path.join(output_dir, _CONFIG)
  resume_flags.check(path, config)
  resume_flags.write(path, config)


def _numbers(given, name: str) -> list[int]:
  """Returns the numbers of a comma-separated list."""
  items = [item for item in given[name].split(',') if item]
  if not all(item.isdecimal() and int(item) > 0 for item in items):
    raise flags.UsageError(
        f'`--{name}` must be integers >= 1 with commas between them, found'
        f' {given[name]!r}.'
    )
  return [int(item) for item in dict.fromkeys(items)]


if __name__ == '__main__':
  sys.exit(main(sys.argv))
