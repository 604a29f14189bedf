"""`--export`: writes models of clients for use elsewhere.

    export/client_<name>.npz       weights by leaf
    export/client_<name>/          a SavedModel
    export/client_<name>_keras/    a Keras model in TensorFlow's format
    export/export.json             what is there
"""

import json
import os
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf

from tff_pers.core import files as files_lib
from tff_pers.data import client_names
from tff_pers.data import serving as serving_lib
from tff_pers.data import task as task_lib
from tff_pers.experiments import flags
from tff_pers.models import export
from tff_pers.simulation import program

FOLDER, RECORD = 'export', 'export.json'
FLAGS = (
    flags.own_flag(
        'export', '',
        'Writes the models of clients to export/, as used after adaptation: as'
        ' a SavedModel, a Keras model or weights in .npz; empty: none, or npz'
        ' with --export_clients.',
        choices=('', *export.FORMATS),
    ),
    flags.own_flag(
        'export_clients', '',
        'Clients whose models are written, such as 3,17 or alice,bob; empty:'
        ' all, with --export.',
    ),
)


class Request(NamedTuple):
  """What to export.

  Attributes:
    kind: One of `export.FORMATS`; '': nothing.
    clients: Names or numbers, such as `3,17`; '': all.
  """

  kind: str = ''
  clients: str = ''

  def positions(self, names: Sequence[str], allowed: str) -> list[int]:
    """Returns the positions in `names` of the clients to export.

    Raises:
      flags.UsageError: If one is missing; the message names the `allowed`.
    """
    known = {name: position for position, name in enumerate(names)}
    chosen = client_names.parse(self.clients) if self.clients else names
    for client in chosen if self.kind else ():
      if client not in known:
        raise flags.UsageError(
            f'`--export_clients` must be {allowed}, found {client!r}.'
        )
    return [known[client] for client in chosen] if self.kind else []


def request(given: Mapping[str, Any]) -> Request:
  """Returns what the flags request."""
  clients = given.get('export_clients', '')
  return Request(given.get('export', '') or ('npz' if clients else ''), clients)


def positions(asked: Request, experiment: Any) -> list[int]:
  """Returns the positions of the clients to export.

  Raises:
    flags.UsageError: If a client does not train.
  """
  if not asked.kind:
    return []
  names = [str(n) for n in experiment.names(experiment.clients)]
  kind = 'numbers' if experiment.task.client_names is None else 'names'
  return asked.positions(names, f'{kind} of clients that train')


def write(
    experiment: Any, trainer: Any, folder: str, clients: Sequence[int],
    kind: str,
) -> None:
  """Writes the models of the clients at these positions among those that train.

  `kind` is one of `export.FORMATS`.
  """
  if not clients:
    return
  task = experiment.task
  evaluated = task.evaluated.tolist()
  # Grouped as in evaluation, because results may depend on it; others follow.
  known = set(evaluated)
  everybody = evaluated + [c for c in clients if c not in known]
  weights = dict(zip(everybody, trainer.deployed_weights(
      program.Data(task.train, task.test).pick(everybody)
  )))
  names = [str(n) for n in experiment.names(experiment.clients)]
  write_models(
      os.path.join(folder, FOLDER), trainer.deployed, kind,
      {names[c]: weights[c] for c in clients}, names=names, task=task,
  )


def write_models(
    folder: str, model: Any, kind: str, weights: Mapping[str, Any], *,
    names: Sequence[str], task: task_lib.Task,
) -> None:
  """Writes models by client, and a record of the folder's contents.

  Args:
    folder: The folder.
    model: The functional model of these weights.
    kind: One of `export.FORMATS`.
    weights: Weights by client name.
    names: Names of all clients, so that each has a file of its own.
    task: The task that they were trained on.
  """
  written = read_record(folder) or {}
  files = dict(zip(names, client_names.file_names(names)))
  models = dict(written.get('clients', {}))
  serving = None
  if model.has_one_label and isinstance(model.x_spec, tf.TensorSpec):
    serving = serving_lib.of_task(task, model)
  for name, leaves in weights.items():
    path = export.save(
        kind, model, leaves, os.path.join(folder, f'client_{files[name]}'),
        serving,
    )
    models[name] = {**models.get(name, {}), kind: os.path.basename(path)}
  fitted = task.features
  record = dict(
      task=task.name, num_classes=task.num_classes,
      classes=None if fitted is None else fitted.classes,
      x_shape=tf.nest.map_structure(
          lambda spec: spec.shape.as_list()[1:], model.x_spec
      ),
      x_dtype=tf.nest.map_structure(lambda s: s.dtype.name, model.x_spec),
      named_arrays=task.named_arrays,
      are_probabilities=model.has_one_label and model.probabilities,
      clients=models, holds=model.holds,
  )
  files_lib.write_text(
      os.path.join(folder, RECORD),
      json.dumps(record, indent=2, ensure_ascii=False),
  )
  number = len(weights)
  print(
      f'Exported {number} client model{"s"[:number != 1]} to {folder} ({kind}).'
  )
  if model.holds:
    print(f'They hold {model.holds}: give them only to who may see these.')


def read_record(folder: str) -> Optional[dict[str, Any]]:
  """Returns the record of a folder of exported models, or None."""
  path = os.path.join(folder, RECORD)
  if not os.path.exists(path):
    return None
  with open(path, encoding='utf-8') as file:
    return json.load(file)
