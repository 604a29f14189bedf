"""Sweeps the split of a partially private model.

    python -m binaries.sweep_splits --algo=A --splits=S,T,... --seeds=0,1,2
        [--flag=value ...]

Trains a method that splits the model with each split, and the two extremes:
fedavg_finetuned (nothing is private) and local_only (everything is). Runs are
in OUTPUT_DIR/<variant>/seed<seed>, as in compare: finished runs are not
repeated, interrupted runs are resumed. Writes splits.csv, splits.md and the
figure splits: accuracy against the share of private parameters.
"""

import itertools
import os
from typing import Any

from tff_pers.config import methods
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import grids
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.evaluation import split_plots
from tff_pers.experiments import flags
from tff_pers.experiments import outputs
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.models import split_hyperparameters

# The two extremes, with their shares of private parameters.
ENDS = {'fedavg_finetuned': 0.0, 'local_only': 1.0}


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  splits = _variants(given.pop('algo'), given.pop('splits'))
  seeds = sweep_lib.parse_seeds(given.pop('seeds'))
  sweep = sweep_lib.of_flags(
      'sweep_splits', given, table, list(splits), name='splits'
  )
  points = list(itertools.product(splits, seeds))
  sweep.check(points)
  with sweep:
    runs = sweep.run_all(points, draw=plots.plot_run)
    _write(sweep.folder, split_plots.rows(runs, splits, ENDS))
  return int(None in runs.values())


def _variants(algo: str, splits: str) -> dict[str, str]:
  """Returns the name of the split of every variant.

  Raises:
    flags.UsageError: If the method has no split, or a split is repeated.
  """
  names = [name.strip() for name in splits.split(',')]
  with flags.usage_errors():
    name, options = brackets.parse(algo)
    method = methods.get(name)
    kind = split_hyperparameters.SplitHyperparameters
    if not issubclass(method.hyperparameters, kind):
      able = [
          name for name in methods.names()
          if issubclass(methods.get(name).hyperparameters, kind)
      ]
      raise ValueError(
          '`algo` must be a method that splits the model, one of'
          f' {", ".join(able)}, found {method.name}, which has no private part.'
      )
    if 'split' in options:
      raise ValueError(f'`algo` must leave split to `splits`, found {algo!r}.')
    if not all(names) or len(set(names)) < len(names):
      raise ValueError(
          f'`splits` must be one or more distinct splits, found {splits!r}.'
      )
    found = {grids.with_option(algo, 'split', name): name for name in names}
  return {**found, **{name: name for name in ENDS}}


def _write(top: str, rows) -> None:
  """Writes and prints the table, and plots."""
  results.write_csv(
      os.path.join(top, 'splits.csv'), split_plots.COLUMNS, rows
  )
  text = results.markdown(split_plots.COLUMNS, rows)
  files.write_text(os.path.join(top, 'splits.md'), text + '\n')
  split_plots.plot(rows, top)
  print(f'{text}\n{outputs.where(top)}')


main = flags.Program(
    'sweep_splits', __doc__, _run,
    flags.own_flag(
        'algo', 'local_ffgg',
        'The method, possibly with options, such as fedper[local_steps=5].',
    ),
    flags.own_flag(
        'splits', 'bias,adapter,output_layer,input_layer',
        'Splits to try: what is private.',
    ),
    flags.own_flag('seeds', '0', 'Seeds of the runs, such as 0,1,2.'),
    without=('seed',), resumes=True,
)
