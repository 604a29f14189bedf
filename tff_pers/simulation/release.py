"""Writes metrics of a run to CSV, TensorBoard and a log, by `tff.program`."""

import asyncio
from concurrent import futures
import glob
import logging
import os
from typing import Any, Callable, Mapping, Sequence

from absl import logging as absl_logging

from tff_pers.core import files
from tff_pers.evaluation import damaged
from tff_pers.evaluation import results
from tff_pers import tff

LOG = 'train.log'


class Releases:
  """Releases one row per evaluated round to all three outputs."""

  def __init__(
      self, folder: str, columns: Sequence[str], last_round: int,
      before: Callable[[int], None] = lambda round_num: None,
  ):
    """Opens the outputs; rows after `last_round` are dropped from the CSV.

    Args:
      folder: The run's folder.
      columns: All names of a row after `round`, in the order of the CSV.
      last_round: The last round of a resumed run; 0: a new run.
      before: Is called with the round before each row, to write other tables.
    """
    path = os.path.join(folder, results.METRICS)
    _keep_rows(path, ['round', *columns], last_round)
    self._columns, self._before = tuple(columns), before
    self._log = _Log(os.path.join(folder, LOG))
    # A notebook's own thread has a running event loop, and can have only one.
    self._thread = futures.ThreadPoolExecutor(1)
    self._csv = tff.program.CSVFileReleaseManager(
        # WRITE replaces the whole file, so that it never ends in half a row.
        path, tff.program.CSVSaveMode.WRITE, key_fieldname='round'
    )
    self._others = [
        tff.program.TensorBoardReleaseManager(folder),
        tff.program.LoggingReleaseManager(),
    ]

  def release(self, row: Mapping[str, Any], round_num: int) -> None:
    """Releases `row` (an entry per column, None: empty) as of `round_num`.

    Raises:
      ValueError: If it has other columns.
    """
    if set(row) != set(self._columns):
      raise ValueError(
          f'`row` must have the columns {self._columns}, found {tuple(row)}.'
      )
    self._before(round_num)
    # TFF writes None as "None"; an empty text is an empty cell.
    cells = {k: '' if value is None else value for k, value in row.items()}
    table = {files.to_cell(k): value for k, value in cells.items()}
    async def to_all():
      await asyncio.gather(
          self._csv.release(table, round_num),
          *(other.release(cells, round_num) for other in self._others),
      )
    self._thread.submit(lambda: asyncio.run(to_all())).result()

  def __enter__(self):
    return self

  def __exit__(self, kind, error, trace):
    self._thread.shutdown()
    self._log.close()


def _keep_rows(path: str, columns: Sequence[str], last_round: int) -> None:
  """Rewrites the CSV with header `columns` and its rows up to `last_round`.

  TFF's manager sorts the columns of a new file by name, but keeps the order of
  an existing header.
  """
  rows = []
  for left_over in glob.glob(glob.escape(path) + '_temp*'):
    # Left by a process that was killed before it could rename the file.
    os.remove(left_over)
  if last_round and os.path.exists(path):
    rows = [
        row for row in damaged.rows(path)[1] if int(row['round']) <= last_round
    ]
  results.write_csv(path, columns, rows)


class _Log(logging.FileHandler):
  """A log file for only those messages that the logging manager writes."""

  def __init__(self, path: str):
    super().__init__(path, encoding='utf-8')
    self.setFormatter(logging.Formatter('%(asctime)s %(message)s'))
    self._verbosity = absl_logging.get_verbosity()
    # The manager logs at INFO, which absl drops by default.
    absl_logging.set_verbosity(absl_logging.INFO)
    logging.getLogger('absl').addFilter(self.divert)

  def close(self) -> None:
    logging.getLogger('absl').removeFilter(self.divert)
    absl_logging.set_verbosity(self._verbosity)
    super().close()

  def divert(self, record: logging.LogRecord) -> bool:
    """Returns whether `record` also goes to absl's log."""
    if record.module == 'logging_release_manager':
      self.emit(record)
    # What passes only because of the lowered level must not reach the terminal.
    return record.levelno >= logging.WARNING
