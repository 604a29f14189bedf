"""Compares methods, and variants of them, over seeds on one task.

    python -m binaries.compare --algos='perm,perm[lambda=0.1],local_only'
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Sequence

from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import folders
from tff_pers.experiments import jobs as jobs_lib
from tff_pers.experiments import lanes as lanes_lib
from tff_pers.experiments import timing

SUMMARY = """\
python -m binaries.compare --algos=A,B,... --seeds=0,1,2 [--flag=value ...]

Runs methods (or variants, as perm[lambda=0.1]) times seeds on one task, each as
a training run in OUTPUT_DIR/<variant>/seed<seed>. Finished runs are not run
again, interrupted ones are resumed. Writes runs.csv, summary.csv, summary.md,
tiers.csv (models of capacity tiers) and plots, at the end; in the folders of
the first seed are those that have no place in a comparison, as of mixing
weights (binaries.plot makes all of a run, also meanwhile). With --delays, or a
method that events drive, times.csv: the virtual time until an accuracy. A
method's flags apply to all its variants; brackets go before."""

DEFAULT_ALGOS = 'perm,fedavg_finetuned,fedavg,local_only'


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('compare', _compare, argv)


def _compare(argv: Sequence[str]) -> int:
  table = flags.all_flags(
      flags.own_flag('algos', DEFAULT_ALGOS, 'Variants to compare.'),
      flags.own_flag('seeds', '0', 'Seeds of the runs, as 0,1,2.'),
      timing.targets_flag(),
      flags.own_flag(
          'jobs', 1, 'Runs at a time, each in a process with cores of its own;'
          ' 0: as many as there are cores, at most 2.', minimum=0,
      ),
      without=('seed',),
  )
  if flags.wants_help(argv):
    print(flags.help_text(SUMMARY, table, argv))
    return 0
  given = flags.parse(argv, table)
  variants = jobs_lib.parse_variants(given.get('algos', DEFAULT_ALGOS))
  seeds = jobs_lib.parse_seeds(given.get('seeds', '0'))
  targets = timing.parse_targets(given.get('targets', ''))
  with flags.sentences():
    given = timing.on_one_clock(given, variants)
  task = given.get('task', flags.DEFAULTS['task'])
  algos = [brackets.parse(variant)[0] for variant in variants]
  experiment_lib.check_owners(given, table, algos, task)
  top = given.get('output_dir') or flags.resolve_path(f'runs/compare_{task}')
  jobs = jobs_lib.Jobs('compare', given, top)
  jobs_lib.check_all(jobs, variants, seeds)
  with flags.sentences():
    alone = folders.Alone(top)
  keys = [(variant, seed) for variant in variants for seed in seeds]
  number = lanes_lib.number(given.get('jobs', 1), len(keys))
  with alone:
    with lanes_lib.Lanes(number) as lanes:
      # Plots of each seed would cost as much as a small run.
      runs = dict(zip(keys, lanes.map(
          _run, [(given, top, *key, key[1] == seeds[0]) for key in keys]
      )))
    _write(top, runs, targets)
  return int(None in runs.values())


def _run(given, top: str, variant: str, seed: int, is_drawn: bool):
  """Runs one, maybe in a process of its own; see `Jobs.run`."""
  draw = plots.plot_compared_run if is_drawn else None
  return jobs_lib.Jobs('compare', given, top).run(variant, seed, draw)


def _write(
    top: str, runs: comparison.Runs, targets: Sequence[float]
) -> None:
  """Writes and prints the tables, and plots."""
  rows, columns = comparison.summary_rows(runs), comparison.SUMMARY_COLUMNS
  results.write_csv(
      os.path.join(top, 'runs.csv'), comparison.RUN_COLUMNS,
      comparison.run_rows(runs),
  )
  results.write_csv(os.path.join(top, 'summary.csv'), columns, rows)
  comparison.write_tiers(top, runs)
  text = results.markdown(columns, rows) + comparison.sample_sentence(runs)
  files.write_text(os.path.join(top, 'summary.md'), text + '\n')
  finished = [run for run in runs.values() if run is not None]
  if finished:
    plots.plot_runs(finished, top)
    text += timing.write(top, finished, targets)
  print(f'{text}\nResults are in {top}.')


if __name__ == '__main__':
  run()
