"""Predicts with the exported model of a client.

    python -m binaries.predict --run=DIR --data_dir=FILE [--client=NAME]
        [--output=FILE]

Predicts with the model that a client deploys. Reads examples from a .csv,
.parquet or .npz file (labels are not needed) or from a folder of images, and
scales them as in training. DIR is the folder of a run or an evaluation that
was exported with --export=saved_model. Writes a row per example: its number in
the file (from 0), the client, the prediction, and for classes their
probabilities. For a client that never trained, the model is the one that the
method gives a client without data.
"""

import itertools
import os
import sys
import tempfile
from typing import Any, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.core import structures
from tff_pers.data import errors
from tff_pers.data import named_arrays
from tff_pers.data import new_data
from tff_pers.data import tables
from tff_pers.evaluation import damaged
from tff_pers.evaluation import results
from tff_pers.experiments import exports
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.experiments import reload_run
from tff_pers.experiments import resume_flags
from tff_pers.experiments import runner
from tff_pers.experiments import saved_runs
from tff_pers.models import export

# Records the inputs of the predictions in a folder.
_RECORD = 'predictions.json'
_ROWS_AT_ONCE = 4096


def _run(given: dict[str, Any]) -> int:
  folder = flags.resolve_path(given['run'] or '.')
  record = _record(folder)
  known: Mapping[str, str] = _saved_models(record, folder)
  if os.path.exists(os.path.join(folder, reload_run.RECORD)):
    # Clients that the evaluation's file lacks have the models of the run.
    origin = _run_of(folder)
    of_run = exports.read_record(os.path.join(origin, exports.FOLDER))
    if of_run is not None:
      known = {**_saved_models(of_run, origin), **known}
  with flags.usage_errors('', ['data_dir']):
    examples = _examples(
        flags.resolve_path(given['data_dir']), folder, record,
        needs=() if given['client'] else ('client',),
    )
  for remark in examples.remarks:
    print(remark, file=sys.stderr)
  client = given['client']
  asked_for = dict(data_dir=given['data_dir'], client=client)
  path, top = given['output'], ''
  if not path:
    top = resume_flags.own_folder(
        itertools.chain(
            [folder],
            resume_flags.numbered(os.path.join(folder, 'predictions')),
        ), _RECORD, asked_for,
    )
    path = os.path.join(top, 'predictions.csv')
  path = flags.resolve_path(path)
  with tempfile.TemporaryDirectory() as temporary:
    if not client:
      known = _with_new(folder, temporary, examples, known)
    owners = _owners(client, examples, known)
    if top:
      os.makedirs(top, exist_ok=True)
    _write(path, examples, owners, known, folder, record)
  if top:
    resume_flags.write(os.path.join(top, _RECORD), asked_for)
  number = len(owners)
  counted = '1 prediction is' if number == 1 else f'{number} predictions are'
  print(f'{counted} in {path}.')
  return 0


def _examples(path: str, folder: str, record, needs) -> tables.Table:
  """Returns the rows to predict."""
  if not record.get('named_arrays'):
    return new_data.read(
        path, results.read_features(folder), record['x_shape'], needs
    )
  [path] = tables.locate(path, 'npz')
  spec = _specs(record['x_shape'], record['x_dtype'])
  return named_arrays.read(path, spec, None, needs)


def _specs(shapes, dtypes):
  """Returns the spec of x in a record, where lists stand for tuples."""
  if isinstance(dtypes, str):
    return tf.TensorSpec([None, *shapes], dtypes)
  if isinstance(dtypes, Mapping):
    return {name: _specs(shapes[name], dtypes[name]) for name in dtypes}
  return tuple(map(_specs, shapes, dtypes))


def _with_new(
    folder: str, temporary: str, table, known: Mapping[str, str]
) -> Mapping[str, str]:
  """Returns the models, plus one for the table's clients that never trained."""
  strangers = [n for n in map(str, table.names) if n not in known]
  if not strangers:
    return known
  folder = _run_of(folder)
  if not os.path.exists(os.path.join(folder, results.CHECKPOINT)):
    return known
  opened = reload_run.open_run(folder, '')
  trained = {str(n) for n in opened.experiment.names(opened.experiment.clients)}
  strangers = [name for name in strangers if name not in trained]
  if not strangers:
    return known
  reload_run.say_alike(opened.experiment, {
      name: int(np.sum(table.names[table.client].astype(str) == name))
      for name in strangers
  })
  opened = reload_run.newcomer(opened.experiment, strangers[0])
  runner.use_runtime(opened.experiment.flag, None)
  with saved_runs.states(folder, read_only=True) as states:
    trainer = reload_run.open_trainer(opened, states, folder)
    with reload_run.taking_new(opened):
      [weights] = trainer.deployed_weights(opened.data)
      is_initial = _is_initial(opened, weights)
  path = os.path.join(temporary, 'new')
  export.save_model(trainer.deployed, weights, path)
  print(
      f'Clients that never trained ({errors.listed(strangers)}) get the'
      f' model that {opened.experiment.variant} gives a client without data'
      + (
          ', which is the untrained one. Tip: choose a method with a global'
          ' model, such as fedavg_finetuned, where new clients matter.'
          if is_initial else
          '. Tip: with labels, binaries.evaluate lets it adapt to them, if the'
          ' method adapts.'
      ), file=sys.stderr,
  )
  return {**known, **dict.fromkeys(strangers, path)}


def _run_of(folder: str) -> str:
  """Returns the folder of the run of an evaluation, or the run's own."""
  record = os.path.join(folder, reload_run.RECORD)
  return resume_flags.read(record)['run'] if os.path.exists(record) else folder


def _is_initial(opened: reload_run.Opened, weights: Any) -> bool:
  """Returns whether a newcomer's weights are those from before all rounds."""
  process = processes.build(opened.experiment).process
  state = process.initialize_seeded(opened.experiment.flag('seed'))
  [client] = opened.data.train
  own = process.initialize_client(state, int(client['index']))
  [first] = process.deploy(state, [own], [client])
  return all(
      np.array_equal(a, b) for a, b in zip(
          tf.nest.flatten(weights), tf.nest.flatten(first['weights'])
      )
  )


def _record(folder: str) -> Mapping[str, Any]:
  """Returns the record of the models exported to a folder."""
  path = os.path.join(folder, exports.FOLDER, exports.RECORD)
  with damaged.reading(path, damaged.RUN_AGAIN):
    record = exports.read_record(os.path.join(folder, exports.FOLDER))
    if record is not None:
      _ = record['clients'], record['x_shape']
  if record is None:
    raise flags.UsageError(
        f'`--run` must name a folder with exported models, found none in'
        f' {folder}. Tip: python -m binaries.train --resume'
        f' --output_dir={folder} --export=saved_model.'
    )
  return record


def _saved_models(record, folder: str) -> dict[str, str]:
  """Returns the folder of each client's SavedModel."""
  known = {
      name: os.path.join(folder, exports.FOLDER, models['saved_model'])
      for name, models in record['clients'].items() if 'saved_model' in models
  }
  if not known:
    raise flags.UsageError(
        f'`--run` must hold SavedModels, found other exports in {folder}. Tip:'
        f' python -m binaries.train --resume --output_dir={folder}'
        ' --export=saved_model.'
    )
  return known


def _owners(client: str, table, known: Mapping[str, str]) -> list[str]:
  """Returns the client whose model predicts each row."""
  if client:
    owners = [client] * len(table.client)
  else:
    owners = [str(table.names[code]) for code in table.client]
  for name in dict.fromkeys(owners):
    if name not in known:
      raise flags.UsageError(
          f'`--client` must be one whose model was exported'
          f' ({errors.listed(list(known))}), found {name!r}. Tip: for a'
          ' new client, python -m binaries.evaluate with its data and'
          ' --export=saved_model.'
      )
  return owners


def _write(path: str, table, owners, known, folder, record) -> None:
  """Writes the predictions atomically."""
  found = np.empty([len(owners)], object)
  x_spec = _specs(record['x_shape'], record['x_dtype'])
  columns: list[str] = []
  for name in dict.fromkeys(owners):
    with damaged.reading(known[name], damaged.RUN_AGAIN):
      model = tf.saved_model.load(known[name])
    rows = np.flatnonzero([owner == name for owner in owners])
    for first in range(0, len(rows), _ROWS_AT_ONCE):
      some = rows[first:first + _ROWS_AT_ONCE]
      x = tf.nest.map_structure(
          lambda values, spec, own=some: tf.cast(values[own], spec.dtype),
          table.x, x_spec,
      )
      columns, values = _flat(model.predict(x))
      for row, output in zip(some, values):
        found[row] = output
  classes = record['classes'] or list(map(str, range(record['num_classes'])))
  if classes:
    columns = ['prediction', *(f'probability_{name}' for name in classes)]
  header = ['row', 'client', *columns]
  are_probabilities = record.get('are_probabilities', False)
  try:
    results.write_csv(path, header, (
        dict(zip(header, [
            row, owner, *_cells(output, classes, are_probabilities)
        ]))
        for row, (owner, output) in enumerate(zip(owners, found))
    ))
  except OSError as error:
    raise flags.UsageError(
        f'`--output` must be a file that can be written, found {path}'
        f' ({error.strerror}).'
    ) from error


def _flat(outputs: Any) -> tuple[list[str], np.ndarray]:
  """Returns names of columns, and predictions of shape [n, columns]."""
  parts = []

  def add(output, path):
    rows = output.numpy().reshape(len(output), -1)
    name, width = structures.plain(path), rows.shape[1]
    parts.append((
        [name] if width == 1 else [f'{name}_{i}' for i in range(width)], rows
    ))

  structures.mapped(add, outputs, 'prediction')
  names, rows = zip(*parts)
  return list(itertools.chain(*names)), np.concatenate(rows, axis=1)


def _cells(
    output: np.ndarray, classes: Sequence[str], are_probabilities: bool
) -> list[Any]:
  """Returns the prediction (or several targets) and probabilities."""
  if not classes:
    return output.tolist()
  if len(output) == 1:  # The logit of class 1.
    output = np.array([1 - output[0] if are_probabilities else 0.0, output[0]])
  probabilities = output
  if not are_probabilities:
    shifted = np.exp(output - output.max(), dtype=np.float64)
    probabilities = shifted / shifted.sum()
  return [classes[int(output.argmax())], *probabilities.tolist()]


main = flags.Program(
    'predict', __doc__, _run,
    flags.own_flag('run', '', 'Folder of a run with exported models.'),
    flags.own_flag('data_dir', '', 'File with examples.'),
    flags.own_flag(
        'client', '', 'Client whose model predicts; empty: for each row the'
        ' client in its column `client`.'
    ),
    flags.own_flag(
        'output', '', 'File to write; empty: predictions.csv in --run, for'
        ' other data in a new folder there.'
    ),
)
