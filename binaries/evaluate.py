"""Evaluates a run on other data, or on clients that it has never seen.

    python -m binaries.evaluate --run=runs/mine --data_dir=next_week.csv
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Sequence

from tff_pers.evaluation import results
from tff_pers.experiments import exports
from tff_pers.experiments import flags
from tff_pers.experiments import going_on
from tff_pers.experiments import later_clients
from tff_pers.experiments import outputs
from tff_pers.experiments import runner
from tff_pers.simulation import store

SUMMARY = """\
python -m binaries.evaluate --run=DIR [--data_dir=FILE] [--output_dir=DIR]
    [--export=saved_model] [--export_clients=NAMES] [--import=MODULES]

Evaluates a run, finished or not, at its last checkpoint; the run itself stays
as it is. FILE (.csv, .parquet, .npz) has the columns of the training data.
Clients that trained are tested on all of their rows that `split` does not call
train, after they have adapted to what they trained on. New clients adapt as the
method says to their rows of training (`split`, else a share drawn by the run's
--train_fraction) and are tested on the others. Features are made as in
training. Without FILE the run's own test data are evaluated once more. Writes
clients.csv, and with --export the models, for binaries.predict."""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('evaluate', SUMMARY, flag_table, _evaluate, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag('run', '', 'Folder of the run.'),
      flags.own_flag('data_dir', '', 'File with the examples.'),
      flags.own_flag(
          'output_dir', '', 'Folder of the results; empty: evaluation in --run.'
      ),
      flags.own_flag(
          'import_', '', 'Modules of your own that the run was started with.'
      ),
      *exports.FLAGS,
  ])


def _evaluate(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  folder = flags.resolve_path(given.get('run', '') or '.')
  top = given.get('output_dir') or os.path.join(folder, 'evaluation')
  data_dir = given.get('data_dir', '')
  record = os.path.join(top, 'evaluation.json')
  going_on.check(record, dict(run=folder, data_dir=data_dir))
  opened = later_clients.open_run(folder, data_dir)
  asked = exports.request(given)
  chosen = _chosen(asked, opened.names)
  runner.use_runtime(opened.experiment.flag, None)
  with store.ClientStateStore(
      os.path.join(folder, results.CHECKPOINT)
  ) as states:
    trainer = later_clients.open_trainer(opened, states, folder)
    metrics = later_clients.evaluate(opened, trainer)
    going_on.write(record, dict(run=folder, data_dir=data_dir))
    results.write_clients(top, later_clients.rows(opened, metrics))
    if chosen:
      later_clients.export(opened, trainer, chosen, top, folder, asked.kind)
  clients = results.read_clients(top)
  assert clients is not None  # They have just been written.
  print(outputs.final_table(clients))
  print(f'Results are in {top}.')
  return 0


def _chosen(asked: exports.Request, names: Sequence[str]) -> Sequence[int]:
  """Returns the positions of the clients whose models are written."""
  if not asked.kind:
    return []
  if not asked.clients:
    return range(len(names))
  return exports.chosen(asked.clients, names, 'clients that are evaluated')


if __name__ == '__main__':
  sys.exit(main(sys.argv))
