"""What methods cost on a model, or what runs have cost until an accuracy.

    python -m binaries.cost --algo=fedhm --model=resnet18 --num_classes=10
    python -m binaries.cost --runs=runs/compare_digits --accuracy=0.8
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import dataclasses
import functools
import os
import sys
from typing import Any, Mapping, Sequence

import tensorflow as tf

from tff_pers import runtime
from tff_pers.analysis import cost
from tff_pers.config import methods
from tff_pers.evaluation import costs
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.models import zoo

SUMMARY = """\
python -m binaries.cost [--algos=A,B,...] [--model=NAME] [--num_classes=C]
python -m binaries.cost --runs=DIR[,DIR...] --accuracy=A

The first form prints and writes cost.csv: the parameters and the
multiply-accumulates (MACs, one example, forward) of the model that a client
deploys, and the bytes that a client receives and sends in a round after all
warm-ups; a row per method, or per tier where devices differ in capacity.
Nothing is trained and no data are read.
The second form prints and writes cost_to_accuracy.csv: the rounds, bytes and
MACs until the mean test accuracy of finished runs was first at least A at an
evaluated round, for a client that takes part in all rounds, and per tier where
there are tiers; kept_from is the first evaluated round from which on the
accuracy stayed so."""

ALL = 'all'
CSV, TO_ACCURACY_CSV = 'cost.csv', 'cost_to_accuracy.csv'
_SHARED = ('client_weighting', 'output_dir')


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('cost', SUMMARY, flag_table, _cost, argv)


def flag_table() -> dict[str, flags.Flag]:
  table = flags.all_flags(
      flags.own_flag('algo', '', 'One method or variant.'),
      flags.own_flag(
          'algos', ALL,
          'Methods or variants, as fedavg,fedhm[tiers=1:0.5]; all: all methods.'
      ),
      flags.own_flag('model', 'resnet18', 'Model.', choices=zoo.names()),
      flags.own_flag(
          'num_classes', 10, 'Number of labels; 0: regression.', minimum=0
      ),
      flags.own_flag(
          'input_shape', '32x32x3', 'Shape of an example, as 28x28x1 or 60.'
      ),
      flags.own_flag(
          'width', 1.0, 'Factor of the numbers of channels of the model.',
          above=0.0, maximum=1.0,
      ),
      flags.own_flag('runs', '', 'Folders of runs or comparisons.'),
      flags.own_flag(
          'accuracy', 0.0, 'Mean test accuracy to reach, with --runs.',
          minimum=0.0, maximum=1.0,
      ),
      without=[
          field.name for field in dataclasses.fields(flags.SharedFlags)
          if field.name not in _SHARED
      ],
  )
  return {name: flag for name, flag in table.items() if flag.kind != 'task'}


def _cost(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  if ('runs' in given) != ('accuracy' in given):
    raise flags.UsageError(
        '`--runs` and `--accuracy` must be given together, found'
        f" {'--runs' if 'runs' in given else '--accuracy'} alone."
    )
  folder = given.get('output_dir') or flags.resolve_path('runs/cost')
  if 'runs' in given:
    return _write_to_accuracy(given, folder)
  return _write_cost(given, table, folder)


def _write_cost(given, table, folder: str) -> int:
  """Writes and prints what the methods cost."""
  variants = _variants(given, table)
  chosen = [experiment_lib.of_variant(v, given, table) for v in variants]
  experiment_lib.check_owners(
      given, table, [method.name for method, _ in chosen], ''
  )
  task = _task(given, table, max(cost.num_clients(own) for _, own in chosen))
  # Traces only, so no time is spent on choosing a strategy.
  runtime.use('fused', 'cpu', strategy='loop')
  rows = []
  for variant, (method, hyperparameters) in zip(variants, chosen):
    try:
      with flags.sentences(f'{method.name}_', ()):
        rows += cost.rows(variant, method, hyperparameters, task)
    except flags.UsageError as error:
      if _asks_for_all(given, table):
        print(f'{variant}: left out. {error}')
        continue
      raise
    print(f'{variant}: done.', flush=True)
  return _write(folder, CSV, cost.COLUMNS, rows)


def _value(given, table, name: str):
  return given.get(name, table[name].spec.default)


def _asks_for_all(given, table) -> bool:
  return 'algo' not in given and _value(given, table, 'algos') == ALL


def _variants(given: Mapping[str, Any], table) -> list[str]:
  """Returns the variants to be looked at."""
  if 'algo' in given and 'algos' in given:
    raise flags.UsageError('Only one of `--algo` and `--algos` may be given.')
  if _asks_for_all(given, table):
    return methods.names()
  return sweep_lib.parse_variants(given.get('algo') or given['algos'])


def _task(given: Mapping[str, Any], table, clients: int):
  """Returns the task of the model and shapes that the flags name."""
  name, num_classes, input_shape, width = (
      _value(given, table, flag)
      for flag in ('model', 'num_classes', 'input_shape', 'width')
  )
  with flags.sentences(names=('num_classes', 'width')):
    model = zoo.build(
        name, tf.TensorSpec([None, *_shape(input_shape)]), num_classes,
        width=width,
    )
  return cost.tiny_task(model, num_classes, clients)


def _shape(text: str) -> list[int]:
  sides = text.split('x')
  if not all(side.isdecimal() and int(side) for side in sides):
    raise flags.UsageError(
        '`--input_shape` must be integers >= 1 with x between them, as 32x32x3,'
        f' found {text!r}.'
    )
  return [int(side) for side in sides]


def _write_to_accuracy(given, folder: str) -> int:
  """Writes and prints what runs have cost until they reached an accuracy."""
  found = sorted({
      run for name in given['runs'].split(',') if name
      for run in results.find_runs(flags.resolve_path(name))
  })
  if not found:
    raise flags.UsageError(
        '`--runs` must name folders that hold runs (a config.json), found'
        f" {given['runs']!r}."
    )
  runs = [results.read_run(path) for path in found]
  rows = [
      row for run in runs
      for row in costs.to_accuracy(run, given['accuracy'], _tiers(run))
  ]
  if all(row['rounds'] is None for row in rows):
    best = max((costs.best_accuracy(run) for run in runs), default=0.0)
    raise flags.UsageError(
        f'`--accuracy` must be one that a run has reached, at most {best:.4f},'
        f" found {given['accuracy']}."
    )
  return _write(folder, TO_ACCURACY_CSV, costs.COLUMNS, rows)


def _tiers(run: results.Run) -> list[dict[str, Any]]:
  """Returns the costs of the capacity tiers of a run, none if it has none."""
  rows = results.read_rows(run.folder, results.TIERS)
  return [] if {row['tier'] for row in rows} <= {cost.WHOLE} else of_run(run)


def of_run(run: results.Run) -> list[dict[str, Any]]:
  """Returns the rows of `cost.csv` of what a run trained."""
  same = {k: v for k, v in run.config['given'].items() if k != 'seed'}
  return _cost_of(tuple(sorted(same.items())))


@functools.lru_cache(maxsize=None)
def _cost_of(given) -> list[dict[str, Any]]:
  """Returns the costs of the tiers of runs with these flags."""
  experiment = experiment_lib.build(
      dict(given), flags.all_flags(flags.own_flag('algo', '', 'Variant.')),
      brackets_win=True,
  )
  runtime.use('fused', 'cpu', strategy='loop')
  task = experiment.task
  return cost.rows(
      experiment.variant, experiment.method, experiment.hyperparameters,
      dataclasses.replace(
          cost.tiny_task(
              task.model, task.num_classes,
              cost.num_clients(experiment.hyperparameters),
          ),
          rank_ratios=task.rank_ratios,
      ),
  )


def _write(folder: str, name: str, columns, rows) -> int:
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, name)
  results.write_csv(path, columns, rows)
  print(f'{results.markdown(columns, rows)}\nThe table is in {path}.')
  return 0


if __name__ == '__main__':
  sys.exit(main(sys.argv))
