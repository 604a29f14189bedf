"""What TensorFlow operations leave behind."""

import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime.fused.graphs import graph as graph_lib
from tff_pers.runtime.fused.values import datasets

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
      'shuffled': (numbers.shuffle(4), False),
      'python': (
          numbers.map(lambda i: tf.py_function(lambda: 1.0, [], tf.float32)),
          False,
      ),
  }


@pytest.mark.parametrize('name', _sources())
def test_data_sets_that_are_the_same_in_every_pass(name):
  dataset, expected = _sources()[name]
  assert datasets._is_fixed(dataset) == expected


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
  computation = tff.tensorflow.computation(function, tf.float32)
  graph = graph_lib.Graph(computation.to_building_block(), lambda: 'x')
  assert graph.is_stateful == is_stateful
  assert graph.is_private == is_private
