"""TFRecord files become tables as CSV files do, or a sentence."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from tests import built
from tff_pers.data import arrow_files
from tff_pers.data import columnar
from tff_pers.data import errors
from tff_pers.data import readings


def _example(**features):
  made = {}
  for name, values in features.items():
    if isinstance(values[0], (str, bytes)):
      values = [v.encode() if isinstance(v, str) else v for v in values]
      made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    elif isinstance(values[0], int):
      made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    else:
      made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
  return tf.train.Example(features=tf.train.Features(feature=made))


def _write(path, *examples):
  with tf.io.TFRecordWriter(
      str(path), 'GZIP' if path.suffix == '.gz' else None
  ) as writer:
    for example in examples:
      writer.write(example.SerializeToString())
  return str(path)


_ROWS = (
    dict(client=['ann'], y=[1], age=[50.5], colour=['red'], pixels=[0.5, 1.5]),
    dict(client=['ann'], y=[0], colour=['blüe'], pixels=[2.5, 3.5]),
    dict(client=['bob'], age=[20.25], colour=['red'], pixels=[4.5, 5.5]),
    dict(client=['bob'], y=[1], age=[30.0], colour=['red'], pixels=[6.5, 7.5]),
)
_READING = readings.Reading('tfrecord', missing=True, texts=True)


@pytest.mark.parametrize('name', ['a.tfrecord', 'a.tfrecords.gz'])
def test_features_are_columns(name, tmp_path):
  """Those of several values are several; what is not there has no value."""
  path = _write(tmp_path / name, *(_example(**row) for row in _ROWS))
  table = columnar.read(arrow_files.open_table(path, 'tfrecord'), _READING)
  names = [column.name for column in table.columns]
  assert names == ['age', 'colour', 'pixels 0', 'pixels 1']
  assert table.columns[1].categories == ('red', 'blüe')
  np.testing.assert_array_equal(table.x, np.array([
      [50.5, 0, 0.5, 1.5], [np.nan, 1, 2.5, 3.5], [30, 0, 6.5, 7.5],
  ], np.float32))
  assert table.y.tolist() == [1, 0, 1] and table.names.tolist() == ['ann', 'bob']
  assert table.remarks == (
      '1 of 4 rows have no y and are left out, the first in record 2.',
  )


def test_a_folder_has_a_file_for_each_client(tmp_path):
  for name in ('ann', 'bob'):
    _write(tmp_path / f'{name}.tfrecord', *(
        _example(y=[place % 2], a=[1.0 * place]) for place in range(4)
    ))
  task = built.task('tfrecord', tmp_path)
  assert list(task.client_names) == ['ann', 'bob'] and task.num_classes == 2


@pytest.mark.parametrize('rows, message', [
    ([dict(y=[1]), dict(y=[1.5])], 'y in every record, found 1 of int64 and 1 o'),
    ([dict(a=[1]), dict(a=[1, 2])], 'found 1 of int64 and 2 of int64, the latter'),
    ([dict(a=[b'\xff'])], 'texts in UTF-8, found it unreadable .*0xff'),
])
def test_raises_on_other_records(rows, message, tmp_path):
  path = _write(tmp_path / 'a.tfrecord', *(_example(**row) for row in rows))
  with pytest.raises(errors.DataError, match=message):
    arrow_files.open_table(path, 'tfrecord')


def test_raises_on_a_file_of_something_else(tmp_path):
  whole = gzip.compress(b'no records')
  for content in (b'client,y,a\nann,1,2\n', whole):
    (tmp_path / 'a.tfrecord').write_bytes(content)
    with pytest.raises(errors.DataError, match='complete TFRecord file'):
      arrow_files.open_table(str(tmp_path), 'tfrecord')
