"""What callers hand a process is cast, or refused in one sentence."""

import collections

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_method
from tff_pers import composition
from tff_pers.core import inputs
from tff_pers.data import client_data
from tff_pers.models import labels

TYPE = client_data.client_data_type(
    tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32)
)
ROWS = [[1.0, 2.0], [3.0, 4.0]]


def _client(x, y):
  return collections.OrderedDict(
      index=3, num_examples=2,
      examples=collections.OrderedDict(x=x, y=y),
  )


def _fitted(x=np.float32(ROWS), y=np.int32([0, 1])):
  return inputs.fitted(_client(x, y), TYPE)['examples']


@pytest.mark.parametrize('x', [
    np.float64(ROWS), np.uint8(ROWS), ROWS, tf.constant(ROWS, tf.float64),
], ids=lambda x: type(x).__name__)
def test_features_are_cast(x):
  found = _fitted(x=x)['x']
  assert found.dtype == np.float32
  np.testing.assert_array_equal(found, ROWS)


@pytest.mark.parametrize('y', [
    np.int64([0, 1]), [0, 1], np.array([False, True]), np.float32([0, 1]),
], ids=['int64', 'list', 'bool', 'whole_floats'])
def test_labels_are_cast(y):
  found = _fitted(y=y)['y']
  assert found.dtype == np.int32
  np.testing.assert_array_equal(found, [0, 1])


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_tables_of_pandas_are_arrays(dtype):
  """Their rows may have any names."""
  frame = pd.DataFrame(ROWS, index=[7, 9], dtype=dtype)
  found = _fitted(frame, pd.Series([0, 1], index=[7, 9], dtype='int32'))
  assert all(isinstance(rows, np.ndarray) for rows in found.values())
  np.testing.assert_array_equal(found['x'], ROWS)
  np.testing.assert_array_equal(found['y'], [0, 1])


def test_labels_in_rows_of_padding_do_not_count():
  client = _client(np.float32(ROWS), np.int32([1, -1]))
  with pytest.raises(ValueError, match='in 0..1, .* found -1 in row 1. Tip'):
    inputs.fitted(client, TYPE, labels=labels.Labels(2))
  client['num_examples'] = 1
  assert inputs.fitted(client, TYPE, labels=labels.Labels(2)) is client


def test_what_fits_stays_the_same_object():
  client = _client(np.float32(ROWS), np.int32([0, 1]))
  assert inputs.fitted(client, TYPE) is client


@pytest.mark.parametrize('arguments, error, sentence', [
    (dict(y=np.float32([0.5, 1])), ValueError,
     '`y` of client 3 must be whole numbers of int32, found 0.5 in row 0.'),
    (dict(y=np.int64([1, 2**40])), ValueError,
     f'`y` of client 3 must be whole numbers of int32, found {2**40} in row 1.'),
    (dict(y=np.array(['a', 'b'])), TypeError,
     '`y` of client 3 must be of dtype int32, found <U1.'),
    (dict(y=np.int32([[0], [1]])), ValueError,
     r'shape \[num_examples\], .*found \[2, 1\]. Tip: .* as in y\[:, 0\].'),
    (dict(x=np.float32([ROWS, ROWS])), ValueError,
     r'`x` of client 3 must be of shape \[num_examples, 2\], as the model takes'
     r' it, found \[2, 2, 2\]. Tip: these look like batches'),
    (dict(x=np.ones([2, 5])), ValueError, r'found \[2, 5\].$'),
    (dict(x=[[1, 2], [3]]), ValueError,
     r'`x` of client 3 must have one shape for all examples, found \[1\] in row'
     r' 1 and \[2\] in row 0.'),
    (dict(x=tf.data.Dataset.range(2)), TypeError,
     '`x` of client 3 must be an array with all its examples, found a data set'),
])
def test_raises_on_data_of_another_kind(arguments, error, sentence):
  with pytest.raises(error, match=sentence):
    _fitted(**arguments)


@pytest.mark.parametrize('client, sentence', [
    (tf.data.Dataset.range(2),
     'found a _RangeDataset at position 5. Tip: .*not in batches'),
    ((np.float32(ROWS), np.int32([0, 1])), 'found a tuple at position 5.$'),
    (dict(index=0.5, num_examples=2, examples=()),
     'The index at position 5 must be an integer, .* 0..N-1, found 0.5. Tip'),
    (dict(index=3, num_examples=2, examples=()),
     'The examples of client 3 must be x and y, as .*, found tuple.'),
])
def test_raises_on_what_is_no_dense_data(client, sentence):
  with pytest.raises(TypeError, match=sentence):
    inputs.fitted(client, TYPE, position=5)


@pytest.mark.parametrize('indices, is_whole, sentence', [
    ([1, 2, 3], False,
     'must be in 0..2, because the process was built for 3 clients, found 3.'
     ' Tip: number the clients from 0'),
    ([0, -1], False, 'must be in 0..2, .*, found -1.'),
    ([0, 2, 0], False, 'client of the round once, found client 0 2 times.'),
    ([0, 1], True,
     'must hold all 3 clients in every round, found 2 clients. Tip:'
     ' build the process with full_participation=False.'),
])
def test_raises_on_another_cohort(indices, is_whole, sentence):
  with pytest.raises(ValueError, match=sentence):
    inputs.Cohort(3, is_whole).check(indices)


def test_cohorts_that_fit():
  inputs.Cohort(3).check([2, 0])
  inputs.Cohort(3, True).check([2, 0, 1])
  inputs.Cohort().check([7, 7, -1])  # A method without a table takes anybody.


def test_a_process_looks_at_what_it_is_given():
  """`next`, `deploy` and `evaluate` alike; inside a computation nothing."""
  process = composition.compose(**small_method.pieces())
  assert process.require(3) is process
  state, clients = small_method.start(process)
  exact = small_method.COHORT
  wide = [
      client_data.dense(c['index'], *(a.astype(float) for a in c['examples'].values()))
      for c in exact
  ]
  both = [[dict(adapt=c, test=c) for c in data] for data in (exact, wide)]
  for call, data in (
      (process.next, (exact, wide)), (process.deploy, (exact, wide)),
      (process.evaluate, both),
  ):
    results = [call(state, clients, one) for one in data]
    np.testing.assert_equal(*map(tf.nest.flatten, results))
  with pytest.raises(ValueError, match='found 2 for 3 clients. Tip: that of a'):
    process.next(state, clients[:2], exact)
  other = small_method.client(3, [[1, 2, 10]])
  with pytest.raises(ValueError, match='must be in 0..2'):
    process.next(state, clients[:1], [other])
  # Who never trains may be evaluated all the same.
  process.deploy(state, clients[:1], [other])
  process.evaluate(state, clients[:1], [dict(adapt=other, test=other)])

  @tff.federated_computation(*process.next.type_signature.parameter)
  def twice(state, client_states, data):
    first = process.next(state, client_states, data)
    return process.next(first.state, first.client_states, data)

  assert twice(state, clients, exact)['state']['round'] == 2


def test_arguments_may_be_named():
  process = composition.compose(**small_method.pieces()).require(1)
  state, clients = small_method.start(process)
  with pytest.raises(ValueError, match='must be in 0..0'):
    process.next(
        data=small_method.COHORT, client_states=clients, state=state
    )
