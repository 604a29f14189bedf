"""Writes the results of a run: rows per client, tables, summaries."""

import math
import shlex
from typing import Any, Iterable, Mapping, Optional, Sequence

import numpy as np

from tff_pers.analysis import cost as cost_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.core import process as process_lib
from tff_pers.data import on_demand
from tff_pers.data import task as task_lib
from tff_pers.evaluation import quality
from tff_pers.evaluation import results
from tff_pers.evaluation import summary
from tff_pers.models import functional
from tff_pers.models import split_hyperparameters
from tff_pers.simulation import program
from tff_pers import tff


def where(folder: str) -> str:
  """Returns where the results of runs are, and the command that shows them."""
  return (
      f'Results are in {folder}. One page of them: python -m binaries.report'
      f' --runs={shlex.quote(folder)}'
  )


def final_table(clients: Mapping[str, np.ndarray]) -> str:
  """Returns the Markdown summary over clients, a row per metric."""
  rows = []
  for seen, who in ((1, ''), (0, ' of held-out clients')):
    more = [name for name in clients if name not in results.CLIENT_COLUMNS]
    for metric in ('accuracy', 'loss', *more):
      chosen = clients['seen'] == seen
      if metric in more:  # A client with a single class has no AUC.
        chosen &= ~np.isnan(clients[metric])
      values = clients[metric][chosen]
      if not np.all(np.isnan(values)):
        numbers = summary.summarize(
            values, clients['num_test'][chosen],
            higher_is_better=summary.is_higher_better(metric),
        )
        rows.append({'metric': metric + who, **numbers._asdict()})
  return results.markdown(('metric', *summary.Summary._fields), rows)


def client_rows(
    clients: Sequence[Any], seen: int, data: program.Data,
    metrics: Mapping[str, Any], model: functional.FunctionalModel,
) -> list[dict[str, Any]]:
  """Returns the rows of `clients.csv`; `clients` are names or numbers."""
  own = own_metrics(model)
  num_train, num_test = map(on_demand.sizes, (data.train, data.test))
  return [
      dict(
          client=client, seen=seen,
          num_train=int(num_train[i]), num_test=int(num_test[i]),
          accuracy=_cell(metrics.get('accuracy'), i),
          loss=_cell(metrics['loss'], i),
          **{name: _cell(metrics[name], i) for name in own},
      )
      for i, client in enumerate(clients)
  ]


def own_metrics(model: functional.FunctionalModel) -> list[str]:
  """Returns the names of a model's metrics beside accuracy and loss."""
  return [
      name for name in (*model.metrics, *model.states)
      if name not in (*results.CLIENT_COLUMNS, *results.VALIDATION_COLUMNS)
  ]


def tier_rows(
    variant: str, seed: int, round_num: int, parameters: Any,
    metrics: Mapping[str, Any],
) -> list[dict[str, Any]]:
  """Returns the rows of `tiers.csv` of a round.

  Numbers of parameters and metrics of each tier's model are by tier.
  """
  return [
      dict(
          algo=variant, seed=seed, round=round_num, tier=tier,
          parameters=parameters[tier],
          accuracy=_number(found.get('accuracy')), loss=_number(found['loss']),
      )
      for tier, found in metrics.items()
  ]


def has_quality(task: task_lib.Task, metric: str) -> bool:
  """Returns whether tables show metrics beyond accuracy and loss.

  True for own data (those whose rounds are fitted), whose classes may be
  imbalanced, if such a metric was requested to decide, and if the task has
  metrics of its own.
  """
  return task.model.has_one_label and bool(
      task.fits_rounds or task.metrics or metric not in summary.COMMON
  )


def add_quality(
    task: task_lib.Task, rows: Sequence[dict[str, Any]],
    found: Sequence[Optional[quality.Predictions]], folder: str = '',
) -> None:
  """Adds metrics of each client's predictions to its row.

  With a folder, `confusion.csv` is written there.
  """
  for row, more in zip(rows, quality.of_clients(found, own=task.metrics)):
    row.update(more)
  there = [each for each in found if each is not None]
  if task.num_classes and there and folder:
    results.write_confusion(
        folder, quality.confusion(there), task.class_names
    )


def rarity_sentence(folder: str) -> str:
  """Returns a sentence on what the accuracy hides (see `quality`), or ''."""
  found = results.read_confusion(folder)
  return '' if found is None else quality.rarity_sentence(*found)


def dropped_sentence(folder: str) -> str:
  """Returns a sentence on dropped clients and how often, or ''."""
  rows = results.read_rows(folder, results.DROPPED)
  if not rows:
    return ''
  clients = [
      f"client {row['client']} in {row['rounds']}"
      + (' round' if row['rounds'] == '1' else ' rounds')
      for row in rows
  ]
  return f'Dropped because of NaN or infinity: {", ".join(clients)}.'


def absent_sentence(num_kept: int, num_clients: int) -> str:
  """Returns a sentence if clients have not trained what they keep, else ''.

  Args:
    num_kept: Number of clients with a state from training; 0: the method keeps
      nothing with clients.
    num_clients: Number of clients that cohorts are drawn from.
  """
  if num_kept in (0, num_clients):
    return ''
  return (
      f'{num_clients - num_kept} of {num_clients} clients have not trained;'
      ' what they keep is as it was at the start, and their metrics count in'
      ' all means. Tip: more --rounds or --clients_per_round.'
  )


def initial_loss(task: task_lib.Task, seed: int) -> Optional[float]:
  """Returns the test loss of the untrained model, mean over evaluated clients.

  Only for own data, whose scale is unknown; None for other tasks.
  """
  if not task.about:
    return None
  weights = task.model.initial_weights(seed)
  losses = []
  for client in task.evaluated:
    examples = task.test[client]['examples']
    predictions = task.model.predict(
        weights, examples['x'], False, functional.init_key(seed)
    )
    y = task.model.targets_of(examples['x'], examples['y'])
    loss = task.model.example_loss(y, predictions)
    losses.append(float(np.mean(loss)))
  return float(np.mean(losses))


# A smaller increase of the loss may be due to the order of summation.
_ROUNDING = 1e-3


def worse_sentence(run: results.Run) -> str:
  """Returns a sentence if training made the model worse, else ''."""
  first, last = run.config.get('initial_loss'), run.metrics['loss_mean'][-1]
  # Older runs, and runs on other tasks, do not have this number.
  if first is None or last <= first * (1 + _ROUNDING):
    return ''
  tip = 'lower the learning rate, or train fewer rounds.'
  if not run.config['flags']['standardize']:
    tip = f'scale the features with --standardize, {tip}'
  return (
      f'The final test loss, {last:.4g}, is above that of the untrained model,'
      f' {first:.4g}. Tip: {tip}'
  )


def mixing_sentence(metrics: Mapping[str, np.ndarray]) -> str:
  """Returns a sentence on how much clients learned from others, or ''.

  The last row of the columns of `metrics.csv` is used.
  """
  last = {name: values[-1] for name, values in metrics.items()}
  # A load below 1 is of mixtures, whose other models count, too.
  if last.get('router_used') == 1 and last['router_largest_load'] > 0.999:
    return (
        'All clients use the same model or adaptor, which is right if they do'
        ' not differ. Tip if they do: another --seed draws other initial'
        ' models; for ifca, --ifca_warmup_rounds starts all of them from one'
        ' that is trained.'
    )
  if not {'weights_entropy', 'visits_idle', 'lambda'} <= set(metrics):
    return ''
  if not last['lambda']:
    return (
        'Mixing weights: none, because every round was a warm-up round, which'
        ' trains one model for all.'
    )
  chosen = (
      f"; chosen lambda scale kappa = {last['lambda_scale']:,.0f}"
      if 'lambda_scale' in last else ''
  )
  if 'models_used' in last:
    return (
        f"Mixing weights: clients share {last['models_used']:.0f} models; a"
        f" model learns from {last['weights_nonzeros']:.1f} clients on average"
        f" (entropy {last['weights_entropy']:.2f}; 1 = uniform weights);"
        f" {last['visits_idle']:.0%} of the last cohort was idle{chosen}."
    )
  return (
      f"Mixing weights: a client learns from {last['weights_nonzeros']:.1f}"
      f" clients on average, with weight {last['weights_self']:.2f} on itself"
      f" (entropy {last['weights_entropy']:.2f}; 1 = uniform weights);"
      f" {last['weights_alone']:.0%} of clients learn only from themselves;"
      f" {last['visits_idle']:.0%} of the last cohort was idle{chosen}."
  )


def _cell(values, i: int) -> Optional[float]:
  """Returns a client's metric, or None if it has no test examples."""
  return None if values is None else _number(values[i])


def _number(value) -> Optional[float]:
  """Returns a metric, or None if there is none."""
  return None if value is None or np.isnan(value) else value.item()


def parameters(
    process: process_lib.PersonalizedProcess, model: functional.FunctionalModel,
    hyperparameters: Any,
) -> dict[str, Optional[float]]:
  """Returns the model's number of parameters, and those of a client.

  `client`: floats that a client deploys and keeps; None if a size is not fixed.
  `private_share`: share of a client's parameters that are private, if the
  method splits the model (including the adaptors that the split adds).
  """
  handled = (
      process.client_model.type_signature.result, process.client_state_type
  )
  if process.parts is not None:
    message = process.parts.dispatch.type_signature.result.member
    handled = (message, process.client_state_type)
  numbers: dict[str, Optional[float]] = dict(
      model=model.num_parameters, client=num_floats(handled)
  )
  if isinstance(hyperparameters, split_hyperparameters.SplitHyperparameters):
    shared, private = hyperparameters.partition(model).num_parameters()
    numbers['private_share'] = private / (shared + private)
  return numbers


def cost(
    process: process_lib.PersonalizedProcess, task: task_lib.Task,
    hyperparameters: Any,
) -> dict[str, Optional[float]]:
  """Returns what a client computes; see `evaluation.costs`.

  `macs`: MACs of one example, mean over the visited ones of all clients, whose
  models differ if there are capacity tiers; `examples`: mean number of examples
  that a client visits in a round. None if unknown. `rounds_per_update`: the
  share of a round that a server update of a run by events is, by messages.
  """
  macs = cost_lib.macs_of_clients(process, hyperparameters, task)
  visited = None
  if isinstance(hyperparameters, hp.LocalBatches):
    visited = [
        hyperparameters.num_visited(int(size))
        for size in task.sizes
    ]
  return dict(
      macs=None if macs is None else float(np.average(macs, weights=visited)),
      examples=None if visited is None else float(np.mean(visited)),
      rounds_per_update=1.0 if task.arrivals is None else (
          hyperparameters.messages_per_update
          / (task.clients_per_round or task.num_clients)
      ),
  )


def num_floats(types: Iterable[tff.Type]) -> Optional[int]:
  """Returns the number of floats in types; None if a size is not fixed."""
  leaves = [leaf for t in types for leaf in tff.structure.flatten(t)]
  shapes = [
      leaf.shape for leaf in leaves if np.issubdtype(leaf.dtype, np.floating)
  ]
  if any(shape is None or None in shape for shape in shapes):
    return None
  return sum(math.prod(shape) for shape in shapes)
