"""Reports what methods cost on a model, or what runs cost to an accuracy.

    python -m binaries.cost [--algos=A,B,...] [--model=NAME] [--num_classes=C]
    python -m binaries.cost --runs=DIR[,DIR...] --accuracy=A

The first form prints, and writes to cost.csv, the parameters and the
multiply-accumulates (MACs, one example, forward) of the model that a client
deploys, and the bytes that a client receives and sends in a round after all
warm-ups: one row per method, or per tier if devices differ in capacity. It
trains nothing and reads no data.
The second form prints, and writes to cost_to_accuracy.csv, the rounds, bytes
and MACs that finished runs needed until their mean test accuracy was at least A
at an evaluated round, for a client that takes part in all rounds (with events:
those of all messages, divided by the clients per round), and per tier if there
are tiers; kept_from is the first evaluated round from which on the
accuracy stayed at least A.
"""

import dataclasses
import functools
import os
from typing import Any, Mapping

import tensorflow as tf

from tff_pers import runtime
from tff_pers.analysis import cost
from tff_pers.config import methods
from tff_pers.evaluation import costs
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import report_file
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.models import zoo

ALL = 'all'
CSV, TO_ACCURACY_CSV = 'cost.csv', 'cost_to_accuracy.csv'
LAYERS_CSV = 'layers.csv'


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  if ('runs' in given) != ('accuracy' in given):
    raise flags.UsageError(
        '`--runs` and `--accuracy` must be given together, found'
        f" {'--runs' if 'runs' in given else '--accuracy'} alone."
    )
  folder = flags.output_dir(given, 'cost')
  if 'runs' in given:
    if given.get('layers'):
      raise flags.UsageError(
          '`--layers` must be left out with --runs, found true.'
      )
    return _write_to_accuracy(given, folder)
  return _write_cost(given, table, folder)


def _write_cost(given, table, folder: str) -> int:
  """Writes and prints what the methods cost."""
  is_asked = 'algo' in given or given.get('algos', ALL) != ALL
  variants = methods.names()
  if is_asked:
    if 'algo' in given and 'algos' in given:
      raise flags.UsageError('Only one of `--algo` and `--algos` may be given.')
    variants = sweep_lib.parse_variants(given.get('algo', given.get('algos')))
  chosen = [experiment_lib.of_variant(v, given, table) for v in variants]
  experiment_lib.check_owners(
      given, table, [method.name for method, _ in chosen], ''
  )
  task = _task(given, max(cost.num_clients(own) for _, own in chosen))
  # Only traces, so no time is spent on choosing a strategy.
  runtime.use('fused', 'cpu', strategy='loop')
  rows, of_layers = [], []
  for variant, (method, hyperparameters) in zip(variants, chosen):
    try:
      with flags.usage_errors(f'{method.name}_', ()):
        process = cost.build(method, hyperparameters, task)
        own = cost.rows(variant, process, hyperparameters, task)
        if given.get('layers'):
          of_layers += cost.layer_rows(variant, process, task)
        rows += own
    except flags.UsageError as error:
      if not is_asked:
        print(f'{variant} is left out. {error}')
        continue
      raise
    print(f'{variant}: done.', flush=True)
  if of_layers:
    _write(folder, LAYERS_CSV, cost.LAYER_COLUMNS, of_layers)
  return _write(folder, CSV, cost.COLUMNS, rows)


def _task(given: Mapping[str, Any], clients: int):
  """Returns the task of the model and shapes that the flags name."""
  with flags.usage_errors(names=('num_classes', 'width')):
    model = zoo.build(
        given['model'], tf.TensorSpec([None, *_shape(given['input_shape'])]),
        given['num_classes'], width=given['width'],
    )
  return cost.tiny_task(model, given['num_classes'], clients)


def _shape(text: str) -> list[int]:
  sides = text.split('x')
  if not all(side.isdecimal() and int(side) for side in sides):
    raise flags.UsageError(
        '`--input_shape` must be integers >= 1 with x between them, such as'
        f' 32x32x3, found {text!r}.'
    )
  return [int(side) for side in sides]


def _write_to_accuracy(given, folder: str) -> int:
  """Writes and prints what runs cost until they reached an accuracy."""
  found = sorted(report_file.find_runs(given['runs']))
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
  """Returns the costs of a run's capacity tiers, empty without tiers."""
  rows = results.read_rows(run.folder, results.TIERS)
  return [] if {row['tier'] for row in rows} <= {cost.WHOLE} else of_run(run)


def of_run(run: results.Run) -> list[dict[str, Any]]:
  """Returns the rows of `cost.csv` for the method of a run."""
  same = {k: v for k, v in run.config['given'].items() if k != 'seed'}
  return _cost_of(tuple(sorted(same.items())), 'remark' in run.config)


@functools.lru_cache(maxsize=None)
def _cost_of(given, chooses_model: bool) -> list[dict[str, Any]]:
  """Returns the costs of the tiers of runs with these pairs of flag and value.

  `chooses_model` says whether the model is one that the method needs.
  """
  experiment = experiment_lib.build(
      dict(given), flags.all_flags(flags.own_flag('algo', '', 'Variant.')),
      brackets_win=not chooses_model,
  )
  runtime.use('fused', 'cpu', strategy='loop')
  task, hyperparameters = experiment.task, experiment.hyperparameters
  tiny = dataclasses.replace(
      cost.tiny_task(
          task.model, task.num_classes, cost.num_clients(hyperparameters)
      ),
      rank_ratios=task.rank_ratios,
  )
  process = cost.build(experiment.method, hyperparameters, tiny)
  return cost.rows(experiment.variant, process, hyperparameters, tiny)


def _write(folder: str, name: str, columns, rows) -> int:
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, name)
  results.write_csv(path, columns, rows)
  print(f'{results.markdown(columns, rows)}\nThe table is in {path}.')
  return 0


main = flags.Program(
    'cost', __doc__, _run,
    flags.own_flag('algo', '', 'One method or variant.'),
    flags.own_flag(
        'algos', ALL,
        'Methods or variants, such as fedavg,fedhm[tiers=1:0.5]; or all.'
    ),
    flags.own_flag('model', 'resnet18', 'Model.', choices=zoo.names()),
    flags.own_flag(
        'num_classes', 10, 'Number of labels; 0: regression.', minimum=0
    ),
    flags.own_flag(
        'input_shape', '32x32x3', 'Shape of an example: 28x28x1 or 60.'
    ),
    flags.own_flag(
        'width', 1.0, 'Factor on the numbers of channels.',
        above=0.0, maximum=1.0,
    ),
    flags.own_flag(
        'layers', False, 'Also parameters and MACs by layer, in layers.csv.'
    ),
    flags.own_flag('runs', '', 'Folders of runs or comparisons.'),
    flags.own_flag(
        'accuracy', 0.0, 'Mean test accuracy to reach, with --runs.',
        minimum=0.0, maximum=1.0,
    ),
    without=[
        field.name for field in dataclasses.fields(flags.SharedFlags)
        if field.name not in ('client_weighting', 'output_dir')
    ],
    fills=('model', 'num_classes', 'input_shape', 'width'),
)
