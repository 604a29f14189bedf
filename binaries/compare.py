"""Compares methods, and variants of them, over seeds on one task.

    python -m binaries.compare --algos='perm,perm[lambda=0.1],local_only'
"""

import os

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Mapping, Optional, Sequence

from binaries import experiment as experiment_lib
from binaries import flags
from binaries import runner
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import plots
from tff_pers.evaluation import results

SUMMARY = """\
python -m binaries.compare --algos=A,B,... --seeds=0,1,2 [--flag=value ...]

Runs methods (or variants, as perm[lambda=0.1]) times seeds on one task, each as
a training run in OUTPUT_DIR/<variant>/seed<seed>. Finished runs are not run
again, interrupted ones are resumed. Writes runs.csv, summary.csv, summary.md,
tiers.csv (models of capacity tiers) and plots. A method's flags apply to all
its variants; brackets go before."""

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
      without=('seed',),
  )
  if flags.wants_help(argv):
    print(flags.help_text(SUMMARY, table, argv))
    return 0
  given = flags.parse(argv, table)
  variants, seeds = _variants(given), _seeds(given)
  task = given.get('task', flags.DEFAULTS['task'])
  algos = [brackets.parse(variant)[0] for variant in variants]
  experiment_lib.check_owners(given, table, algos, task)
  top = given.get('output_dir') or flags.resolve_path(f'runs/compare_{task}')
  table = flags.all_flags(flags.own_flag('algo', '', 'Variant.'))
  jobs = {
      (variant, seed): (
          _flags_of(given, table, variant, seed),
          os.path.join(
              top, experiment_lib.folder_name(variant), f'seed{seed}'
          ),
      )
      for variant in variants for seed in seeds
  }
  # Errors must show before hours of training, not in between. Each variant with
  # one seed and each seed with one variant meet them all.
  prepared = [
      _prepare(job, table) for (variant, seed), job in jobs.items()
      if variant == variants[0] or seed == seeds[0]
  ]
  _check_flags_act(given, table, prepared)
  runs = {key: _run(job, table) for key, job in jobs.items()}
  _write(top, runs)
  return int(None in runs.values())


def _prepare(job, table) -> experiment_lib.Experiment:
  flags_of_run, folder = job
  return runner.prepare(
      flags_of_run, table, folder, resume=True, same_flags=True,
      brackets_win=True,
  )


def _check_flags_act(given, table, experiments) -> None:
  """Refuses a method's flag that no variant takes.

  Raises:
    flags.UsageError: Names the first such flag.
  """
  for name, value in given.items():
    if name not in table or table[name].kind != 'method':
      continue
    taken = [
        experiment.config['flags'][name] == value for experiment in experiments
        if experiment.method.name == table[name].owner
    ]
    if not any(taken):
      raise flags.UsageError(
          f'`--{name}` must be left out because it has no effect in any variant'
          f' of `--algos`, found {value!r}.'
      )


def _run(job, table) -> Optional[results.Run]:
  """Runs one job unless it is finished; returns None if it diverged."""
  folder = job[1]
  experiment = _prepare(job, table)
  try:
    runner.execute(experiment, folder, quiet=True)
  except runner.Diverged as error:
    print(f'compare: {experiment.variant}: {error}', file=sys.stderr)
    return None
  return results.read_run(folder)


def _write(top: str, runs: comparison.Runs) -> None:
  """Writes and prints the tables, and plots."""
  rows, columns = comparison.summary_rows(runs), comparison.SUMMARY_COLUMNS
  results.write_csv(
      os.path.join(top, 'runs.csv'), comparison.RUN_COLUMNS,
      comparison.run_rows(runs),
  )
  results.write_csv(os.path.join(top, 'summary.csv'), columns, rows)
  _write_tiers(top, runs)
  text = results.markdown(columns, rows)
  with open(os.path.join(top, 'summary.md'), 'w', encoding='utf-8') as file:
    file.write(text + '\n')
  finished = [run for run in runs.values() if run is not None]
  if finished:
    plots.plot_runs(finished, top)
  print(f'{text}\nResults are in {top}.')


def _write_tiers(top: str, runs: comparison.Runs) -> None:
  """Merges the runs' `tiers.csv`; a table of other variants is removed."""
  rows = [
      row for run in runs.values() if run is not None
      for row in results.read_rows(run.folder, results.TIERS)
  ]
  path = os.path.join(top, results.TIERS)
  if rows:
    results.write_tiers(top, rows)
  elif os.path.exists(path):
    os.remove(path)


def _variants(given: Mapping[str, Any]) -> list[str]:
  with flags.sentences():
    variants = brackets.split_list(given.get('algos', DEFAULT_ALGOS))
    for variant in variants:
      brackets.parse(variant)
  names = [experiment_lib.folder_name(variant) for variant in variants]
  if not names or len(set(names)) < len(names):
    raise flags.UsageError(
        '`--algos` must name each variant once, at least one, found'
        f' {", ".join(variants) or "none"}.'
    )
  return variants


def _seeds(given: Mapping[str, Any]) -> list[int]:
  text = given.get('seeds', '0')
  items = text.split(',')
  distinct = len(set(items)) == len(items)
  if not distinct or not all(item.isdecimal() for item in items):
    raise flags.UsageError(
        f'`--seeds` must be distinct integers >= 0, as 0,1,2, found {text!r}.'
    )
  return [int(item) for item in items]


def _flags_of(given, table, variant: str, seed: int) -> dict[str, Any]:
  """Returns the flags of one run."""
  algo = brackets.parse(variant)[0]
  own = {
      name: value for name, value in given.items()
      if name in table
      and (table[name].kind != 'method' or table[name].owner == algo)
  }
  return {**own, 'algo': variant, 'seed': seed}


if __name__ == '__main__':
  run()
