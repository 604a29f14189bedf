"""Values that change between calls: the same objects, other contents.

What the fused runtime keeps from call to call it must recognise by what it
contains, so that results are those of the native runtime in every call.
"""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.runtime import fused

_SIZE = 400  # Entries; the fused runtime keeps nothing of smaller arrays.
_ROWS = tff.TensorType(np.float32, [_SIZE])


@tff.federated_computation(tff.FederatedType(_ROWS, tff.CLIENTS))
def _total(values):
  return tff.federated_sum(values)


@tff.tensorflow.computation(tff.SequenceType(np.float32))
def _folded(elements):
  return elements.reduce(0.0, lambda total, x: 2 * total + x)


@tff.federated_computation(
    tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS)
)
def _all_folded(data):
  return tff.federated_sum(tff.federated_map(_folded, data))


def _frozen(folder):
  """An array that is made read-only again after a change."""
  del folder  # Unused.
  array = np.zeros([_SIZE], np.float32)

  def change(k):
    array.flags.writeable = True
    array[:] = k
    array.flags.writeable = False

  return array, change


def _view_of_bytes(folder):
  """A read-only view of memory that others write to."""
  del folder  # Unused.
  block = bytearray(4 * _SIZE)
  array = np.frombuffer(memoryview(block).toreadonly(), np.float32)

  def change(k):
    np.frombuffer(block, np.float32)[:] = k

  return array, change


def _memory_map(folder):
  """A file that others write to."""
  path = folder / 'array'
  np.zeros([_SIZE], np.float32).tofile(path)
  array = np.memmap(path, np.float32, 'r')

  def change(k):
    np.memmap(path, np.float32, 'r+')[:] = k

  return array, change


def _shared_tensor(folder):
  """A tensor that shows the memory of an array."""
  del folder  # Unused.
  array = np.zeros([_SIZE], np.float32)
  tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())

  def change(k):
    array[:] = k

  return tensor, change


def _part_of_an_array(folder):
  """Every second entry of an array, of which one changes."""
  del folder  # Unused.
  array = np.zeros([2 * _SIZE], np.float32)

  def change(k):
    array[-2] = k

  return array[::2], change


_ARRAYS = [
    _frozen, _memory_map, _part_of_an_array, _shared_tensor, _view_of_bytes
]


@pytest.mark.parametrize('make', _ARRAYS)
def test_arrays_of_clients(make, tmp_path):
  """Unchanged for two calls, which makes a cohort worth keeping."""
  value, change = make(tmp_path)
  for k in (1, 1, 1, 2, 2, 3):
    change(k)
    agree_lib.agree(_total, [value, value])


def test_an_array_that_is_not_a_number_everywhere_is_kept():
  """NaN equals NaN here, and 0 is not -0."""
  @tff.federated_computation(tff.FederatedType(_ROWS, tff.CLIENTS))
  def inverse(values):
    divide = tff.tensorflow.computation(lambda x: 1 / x, _ROWS)
    return tff.federated_map(divide, values)

  array = np.zeros([_SIZE], np.float32)
  for sign in (1, 1, 1, -1):
    array[:] = sign * 0.0
    array[0] = np.nan
    result = agree_lib.agree(inverse, [array])
    assert result[0][1] == sign * np.inf


def test_a_result_whose_shape_is_changed():
  """Entries of results cannot be changed, their shapes can."""
  rows = tff.TensorType(np.float32, [None, None])

  @tff.tensorflow.computation
  def made():
    return tf.reshape(tf.range(2.0 * _SIZE), [2, _SIZE])

  @tff.tensorflow.computation(rows)
  def first_row(x):
    return tf.reduce_sum(x, 0)

  found = agree_lib.on_fused(made)
  with pytest.raises(ValueError):
    found[:] = 1
  agree_lib.agree(first_row, found)
  found.shape = (_SIZE, 2)
  agree_lib.agree(first_row, found)


def _records(folder):
  path = str(folder / 'records')
  dataset = tf.data.TFRecordDataset(path).map(tf.strings.to_number)

  def change(k):
    with tf.io.TFRecordWriter(path) as writer:
      for x in range(k + 1):
        writer.write(str(k + x).encode())

  return dataset, change


def _lines(folder):
  path = folder / 'lines'
  dataset = tf.data.TextLineDataset(str(path)).map(tf.strings.to_number)
  return dataset, lambda k: path.write_text(f'{k}\n{k + 1}\n')


def _fixed_length(folder):
  path = folder / 'fixed'
  dataset = tf.data.FixedLengthRecordDataset(str(path), 2).map(
      tf.strings.to_number
  )
  return dataset, lambda k: path.write_text(f'{k:2}{k + 1:2}')


def _whole_file(folder):
  path = folder / 'number'
  dataset = tf.data.Dataset.from_tensor_slices([str(path)] * 2).map(
      lambda name: tf.strings.to_number(tf.io.read_file(name))
  )
  return dataset, lambda k: path.write_text(str(k))


def _variable(folder):
  del folder  # Unused.
  variable = tf.Variable(1.0)
  dataset = tf.data.Dataset.range(3).map(
      lambda i: variable * tf.cast(i, tf.float32)
  )
  return dataset, variable.assign


def _shared_slices(folder):
  """Slices of a tensor that shows the memory of an array."""
  tensor, change = _shared_tensor(folder)
  return tf.data.Dataset.from_tensor_slices(tensor).take(3), change


_DATA_SETS = [
    _fixed_length, _lines, _records, _shared_slices, _variable, _whole_file,
]


@pytest.mark.parametrize('make', _DATA_SETS)
def test_data_sets(make, tmp_path):
  """Elements change, and where that is possible their number."""
  dataset, change = make(tmp_path)
  for k in (1, 1, 3, 2):
    change(k)
    agree_lib.agree(_all_folded, [dataset, dataset])


def test_files_that_a_computation_reads(tmp_path):
  """TensorFlow would read a file with a constant name once and for all."""
  path = tmp_path / 'file'

  @tff.tensorflow.computation
  def read():
    return tf.io.read_file(str(path))

  @tff.tensorflow.computation
  def read_lines():
    return tf.data.TextLineDataset(str(path)).reduce('', lambda a, b: a + b)

  @tff.tensorflow.computation(np.str_)
  def number(word):
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        str(path), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    ), -1)
    return table.lookup(word)

  texts = ('a\n', 'b\n', 'a\nb\n')
  for text in texts:
    path.write_text(text)
    agree_lib.agree(read_lines)
    agree_lib.agree(number, 'b')
  with fused.use(strategy='loop'):
    for text in texts:
      path.write_text(text)
      assert read() == text.encode()  # On the native runtime.
