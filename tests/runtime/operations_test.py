"""What TensorFlow operations leave behind."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
import tensorflow_federated as tff

from tff_pers.runtime.fused import operations
from tff_pers.runtime.fused.graphs import graph as graph_lib
from tff_pers.runtime.fused.values import pipelines
from tff_pers.runtime.fused.values import sequences

_D = tf.data.Dataset
_CHANGING = tf.Variable(1.0)


def _table():
  return tf.lookup.StaticVocabularyTable(
      tf.lookup.KeyValueTensorInitializer(
          ['a', 'b'], tf.constant([0, 1], tf.int64)
      ), 1,
  )


def _mutable():
  return tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)


def _sources():
  numbers, words = _D.range(4), _D.from_tensor_slices(['a', 'c'])
  return {
      'plain': (numbers.batch(2).repeat(2).prefetch(1), True),
      'vocabulary': (words.map(_table().lookup), True),
      'table_that_changes': (words.map(_mutable().lookup), False),
      'variable': (numbers.map(lambda i: _CHANGING.read_value()), False),
      'noise': (numbers.map(lambda i: tf.random.truncated_normal([])), False),
      'files': (_D.from_tensor_slices(['a']).map(tf.io.read_file), False),
      'records': (tf.data.TFRecordDataset(['a']), False),
      'shuffled': (numbers.shuffle(4), False),
      'python': (
          numbers.map(lambda i: tf.py_function(lambda: 1.0, [], tf.float32)),
          False,
      ),
  }


@pytest.mark.parametrize('name', _sources())
def test_data_sets_that_are_the_same_in_every_pass(name):
  dataset, expected = _sources()[name]
  assert pipelines.Pipeline(dataset).is_fixed == expected


def _print(x):
  tf.print(x)
  return x


def _variable(x):
  v = tf.Variable(0.0)
  with tf.control_dependencies([v.assign(x)]):
    return v.read_value()


@pytest.mark.parametrize('function, is_stateful, is_private', [
    (lambda x: x + 1, False, True),
    (lambda x: tf.while_loop(lambda x: x < 3, lambda x: x + 1, [x]), False,
     True),
    (_variable, True, True),
    (lambda x: x + tf.random.uniform([]), True, False),
    (tf.function(_print), True, False),
])
def test_graphs_with_a_state(function, is_stateful, is_private):
  graph = _graph(function)
  assert graph.is_stateful == is_stateful
  assert graph.is_private == is_private


def _graph(function):
  computation = tff.tensorflow.computation(function, np.float32)
  return graph_lib.Graph(computation.to_building_block(), lambda: 'x')


def _after(operation, x):
  with tf.control_dependencies([operation]):
    return tf.identity(x)


def _queue(x):
  queue = tf.queue.FIFOQueue(2, tf.float32, [[]])
  with tf.control_dependencies([queue.enqueue(x)]):
    return queue.dequeue()


def _old_variable(x):
  return tf.raw_ops.Assign(
      ref=tf.raw_ops.VariableV2(shape=[], dtype=tf.float32), value=x
  )


def _old_table(x):
  table = tf.raw_ops.HashTable(key_dtype=tf.string, value_dtype=tf.float32)
  return _after(tf.raw_ops.InitializeTable(
      table_handle=table, keys=['a'], values=x[None]
  ), x)


def _accumulator(x):
  total = tf.compat.v1.ConditionalAccumulator(tf.float32, [])
  return _after(total.apply_grad(x), x)


@pytest.mark.parametrize('function, name', [
    (_queue, 'FIFOQueueV2'),
    (tf.function(_queue), 'FIFOQueueV2'),
    (_old_variable, 'VariableV2'),
    (_old_table, 'HashTable'),
    (_accumulator, 'ResourceConditionalAccumulator'),
    (lambda x: _after(tf.raw_ops.Stage(values=[x]), x), 'Stage'),
    (lambda x: _after(tf.io.write_file('x', 'x'), x), 'WriteFile'),
    (lambda x: tf.py_function(lambda v: v, [x], tf.float32), 'EagerPyFunc'),
    (lambda x: tf.numpy_function(lambda v: v, [x], tf.float32, stateful=False),
     'PyFuncStateless'),
])
def test_graphs_whose_calls_may_affect_each_other(function, name):
  with pytest.raises(sequences.Unsupported, match=rf'\b{name}\b'):
    _graph(function)


def test_lists_name_operations_of_tensorflow():
  """A misspelt one would quietly run natively."""
  # pylint: disable=protected-access
  listed = operations._SAFE | operations._SHARED_ALL_THE_SAME
  cudnn = {op for op in listed if op.startswith('Cudnn')}
  assert not {op for op in listed - cudnn if op_def_registry.get(op) is None}
  assert operations._SAFE == operations.stateful(operations._SAFE)
