"""Rows reach CSV, TensorBoard and log; the CSV keeps its order and past."""

import asyncio
import glob
import logging

import tensorflow as tf

from tff_pers.simulation import release

COLUMNS = ['seconds', 'accuracy', 'bytes']


def _row(value, accuracy=0.5):
  return dict(seconds=value, accuracy=accuracy, bytes=7)


def _release(folder, rows, last_round=0):
  with release.Releases(str(folder), COLUMNS, last_round) as releases:
    for round_num, row in rows:
      releases.release(row, round_num)


def test_csv_has_the_columns_in_order_and_empty_cells(tmp_path):
  _release(tmp_path, [(5, _row(1.25)), (10, _row(2.5, accuracy=None))])
  assert (tmp_path / 'metrics.csv').read_text().splitlines() == [
      'round,seconds,accuracy,bytes', '5,1.25,0.5,7', '10,2.5,,7',
  ]


def test_names_of_metrics_are_no_formulas(tmp_path):
  for last_round in (0, 5):
    with release.Releases(str(tmp_path), ['=x'], last_round) as releases:
      releases.release({'=x': 0.5}, last_round + 5)
  lines = (tmp_path / 'metrics.csv').read_text().splitlines()
  assert lines == ["round,'=x", '5,0.5', '10,0.5']


def test_resuming_drops_rows_after_the_checkpoint(tmp_path):
  _release(tmp_path, [(5, _row(1.0)), (10, _row(2.0)), (15, _row(3.0))])
  _release(tmp_path, [(15, _row(4.0))], last_round=10)
  assert (tmp_path / 'metrics.csv').read_text().splitlines()[1:] == [
      '5,1.0,0.5,7', '10,2.0,0.5,7', '15,4.0,0.5,7',
  ]


def test_starting_again_drops_all_rows_and_left_overs(tmp_path):
  _release(tmp_path, [(5, _row(1.0))])
  (tmp_path / 'metrics.csv_temp1234').write_text('half a fi')
  _release(tmp_path, [])
  assert (tmp_path / 'metrics.csv').read_text().splitlines() == [
      'round,seconds,accuracy,bytes'
  ]
  assert not glob.glob(str(tmp_path / '*_temp*'))


def test_tensorboard_has_the_scalars(tmp_path):
  _release(tmp_path, [(5, _row(1.25))])
  found = {}
  for path in glob.glob(str(tmp_path / 'events.out.tfevents*')):
    for event in tf.compat.v1.train.summary_iterator(path):
      for value in event.summary.value:
        found[value.tag] = (event.step, float(tf.make_ndarray(value.tensor)))
  assert found == {
      'seconds': (5, 1.25), 'accuracy': (5, 0.5), 'bytes': (5, 7.0)
  }


def test_log_takes_the_rows_and_leaves_absl_as_it_was(tmp_path, caplog):
  logger = logging.getLogger('absl')
  before = (logger.level, list(logger.filters))
  _release(tmp_path, [(5, _row(1.25))])
  assert "'seconds': 1.25" in (tmp_path / 'train.log').read_text()
  assert not caplog.records
  assert (logger.level, list(logger.filters)) == before


def test_rows_are_released_in_a_notebook(tmp_path):
  """Its thread runs an event loop already."""

  async def cell():
    _release(tmp_path, [(5, _row(1.25))])

  asyncio.run(cell())
  assert (tmp_path / 'metrics.csv').read_text().endswith('5,1.25,0.5,7\n')
