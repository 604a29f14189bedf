"""Tests of dense client data and of folding over its batches."""

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tff_pers.data import client_data

_SETTINGS = hypothesis.settings(
    derandomize=True, deadline=None, max_examples=40
)
_SEEDS = st.integers(-(2**31), 2**31)


def _key(seed):
  return tf.constant([seed, 7], tf.int64)


def _rows(num_examples, capacity, seed=0, **budget):
  """Returns the rows of each batch, filler left out, as lists."""
  rows, mask = client_data.batch_rows(
      num_examples, capacity, seed=_key(seed), **budget
  )
  return [
      row[keep].tolist() for row, keep in zip(rows.numpy(), mask.numpy())
  ]


def _data(num_examples, index=0):
  x = np.arange(num_examples * 2, dtype=np.float64).reshape(-1, 2)
  return client_data.dense(index, x, np.arange(num_examples, dtype=np.int32))


def _visits(data, seed=0, **budget):
  """Returns (number of steps, for each step of at most 32 its labels).

  Integers only, so that nothing can hide in rounding; -1 marks masked rows and
  steps not taken.
  """
  size = budget.get('batch_size') or 64
  def step(state, batch):
    count, table = state
    labels = tf.where(batch.mask, batch.y, -1)
    missing = size - tf.shape(labels)[0]
    labels = tf.pad(labels, [[0, missing]], constant_values=-1)
    return count + 1, tf.tensor_scatter_nd_update(
        table, count[None, None], labels[None]
    )
  init = (tf.constant(0), tf.fill([32, size], -1))
  count, table = client_data.fold_batches(
      data, step, init, seed=_key(seed), **budget
  )
  return int(count), [
      [y for y in labels if y >= 0] for labels in table.numpy().tolist()
  ]


@_SETTINGS
@hypothesis.given(
    num_examples=st.integers(1, 20), batch_size=st.integers(1, 25),
    epochs=st.integers(1, 3), seed=_SEEDS,
)
def test_each_epoch_is_a_permutation_with_short_last_batch(
    num_examples, batch_size, epochs, seed
):
  batches = _rows(
      num_examples, num_examples, seed, batch_size=batch_size,
      num_epochs=epochs,
  )
  per_epoch = -(-num_examples // batch_size)
  assert len(batches) == epochs * per_epoch
  last = num_examples - (per_epoch - 1) * batch_size
  for epoch in range(epochs):
    own = batches[epoch * per_epoch:(epoch + 1) * per_epoch]
    assert [len(b) for b in own] == [batch_size] * (per_epoch - 1) + [last]
    assert sorted(sum(own, [])) == list(range(num_examples))


def test_first_place_is_uniform():
  """Of 4 rows each comes first in 1000 +- 27 of 4000 epochs: 5 deviations.

  So every epoch has an order of its own.
  """
  first = [b[0] for b in _rows(4, 4, batch_size=4, num_epochs=4000)]
  assert np.abs(np.bincount(first, minlength=4) - 1000).max() < 5 * 27.4


@_SETTINGS
@hypothesis.given(
    num_examples=st.integers(1, 12), batch_size=st.integers(1, 12),
    steps=st.integers(1, 12), seed=_SEEDS,
)
def test_steps_are_the_first_batches_of_as_many_epochs(
    num_examples, batch_size, steps, seed
):
  by_steps = _rows(
      num_examples, num_examples, seed, batch_size=batch_size, num_steps=steps
  )
  per_epoch = -(-num_examples // batch_size)
  by_epochs = _rows(
      num_examples, num_examples, seed, batch_size=batch_size,
      num_epochs=-(-steps // per_epoch),
  )
  assert len(by_steps) == steps
  assert by_steps == by_epochs[:steps]


@_SETTINGS
@hypothesis.given(
    num_examples=st.integers(0, 12), padding=st.integers(0, 9),
    batch_size=st.one_of(st.none(), st.integers(1, 15)),
    epochs=st.integers(1, 2), shuffle=st.booleans(), seed=_SEEDS,
)
def test_padding_never_changes_batches(
    num_examples, padding, batch_size, epochs, shuffle, seed
):
  budget = dict(batch_size=batch_size, num_epochs=epochs, shuffle=shuffle)
  data = _data(num_examples)
  padded = client_data.pad(data, num_examples + padding)
  assert _visits(data, seed, **budget) == _visits(padded, seed, **budget)


@pytest.mark.parametrize('batch_size', [0, 4])
def test_a_loss_undefined_at_padding_trains_as_without(batch_size):
  """1 / y is infinite at y = 0, and a mask does not save its gradient."""
  data = _data(6)
  data['examples']['y'] += 1
  def step(w, batch):
    with tf.GradientTape() as tape:
      tape.watch(w)
      ratios = tf.linalg.matvec(batch.x, w) / tf.cast(batch.y, tf.float64) - 1
      squares = tf.square(ratios)
      loss = tf.reduce_sum(tf.where(batch.mask, squares, tf.zeros_like(ratios)))
    return w - 1e-3 * tape.gradient(loss, w)
  def train(data):
    return client_data.fold_batches(
        data, step, tf.zeros([2], tf.float64), seed=_key(0), num_steps=3,
        batch_size=batch_size,
    ).numpy()
  expected = train(data)
  assert np.all(expected > 0)
  np.testing.assert_allclose(
      train(client_data.pad(data, 11)), expected, rtol=1e-12
  )


@pytest.mark.parametrize('budget', [dict(num_steps=3), dict(num_epochs=2)])
@pytest.mark.parametrize('capacity', [0, 5])
def test_client_without_examples_takes_no_step(budget, capacity):
  data = client_data.pad(_data(0), capacity)
  assert _visits(data, batch_size=4, **budget)[0] == 0


def test_independent_batches_are_drawn_with_replacement():
  """Pairs of three rows, all of nine with a frequency of 1/9, 5 sigma."""
  rows, mask = client_data.batch_rows(
      3, 5, seed=_key(0), batch_size=2, num_steps=4500, independent=True
  )
  assert rows.shape == (4500, 2) and np.all(mask)
  for pairs in (rows, tf.stack([rows[:-1, 0], rows[1:, 0]], axis=1)):
    counts = np.bincount(pairs.numpy() @ [3, 1], minlength=9)
    assert np.max(np.abs(counts - 500)) < 5 * np.sqrt(500)
  # Padding changes nothing; one pass has as many batches as an epoch.
  budget = dict(batch_size=2, num_epochs=1, independent=True)
  assert _rows(3, 3, **budget) == _rows(3, 9, **budget)
  assert len(_rows(3, 3, **budget)) == 2 and _rows(0, 4, **budget) == []


def test_without_shuffle_rows_come_in_order():
  assert _rows(5, 5, batch_size=2, num_epochs=2, shuffle=False) == [
      [0, 1], [2, 3], [4], [0, 1], [2, 3], [4],
  ]


@pytest.mark.parametrize('batch_size', [None, 0])
@pytest.mark.parametrize('budget', [dict(num_epochs=2), dict(num_steps=2)])
def test_without_a_batch_size_all_rows_are_one_batch(batch_size, budget):
  data = client_data.pad(_data(5), 8)
  count, visited = _visits(data, batch_size=batch_size, **budget)
  assert count == 2 and visited[:2] == [[0, 1, 2, 3, 4]] * 2
  assert _visits(
      client_data.pad(_data(0), 8), batch_size=batch_size, **budget
  )[0] == 0


@pytest.mark.parametrize('size, expected', [(2, 3), (5, 1), (0, 1), (None, 1)])
def test_batches_per_epoch(size, expected):
  assert client_data.batches_per_epoch(np.int32(5), size) == expected
  assert client_data.batches_per_epoch(np.int32(0), size) == 0


def test_steps_have_keys_of_their_own():
  """Else dropout would leave out the same units in all steps of a round."""
  def note(state, batch):
    t, keys = state
    row = tf.range(5)[:, None] == t
    return t + 1, tf.where(row, batch.seed, keys)
  whole, parted = (
      client_data.fold_batches(
          _data(4), note, (tf.constant(0), tf.zeros([5, 2], tf.int64)),
          seed=_key(0), batch_size=size, num_steps=5,
      )[1] for size in (0, 2)
  )
  assert len(np.unique(parted, axis=0)) == 5
  np.testing.assert_array_equal(whole, parted)


def _trace(data, **budget):
  """Returns a number that depends on all that a step sees, and its order."""
  def step(state, batch):
    t, total = state
    noise = tf.random.stateless_uniform([], batch.seed, dtype=tf.float64)
    seen = tf.reduce_sum(tf.where(batch.mask[:, None], batch.x, 0))
    labels = tf.reduce_sum(tf.where(batch.mask, batch.y, 0))
    seen += 3.0 * tf.cast(labels, tf.float64)
    return t + 1, 0.5 * total + noise * seen
  init = (tf.constant(0), tf.constant(0.0, tf.float64))
  steps, total = client_data.fold_batches(
      data, step, init, seed=_key(5), **budget
  )
  return int(steps), float(total)


@pytest.mark.parametrize('as_dict', [False, True])
@pytest.mark.parametrize(
    'budget', [dict(num_steps=1), dict(num_steps=7), dict(num_epochs=2)]
)
def test_dataset_form_equals_dense_form_on_the_same_batches(budget, as_dict):
  data = _data(7)
  x, y = data['examples']['x'], data['examples']['y']
  element = {'x': x, 'y': y} if as_dict else (x, y)
  dataset = tf.data.Dataset.from_tensor_slices(element).batch(3)
  dense = _trace(data, batch_size=3, shuffle=False, **budget)
  # Only the filler rows (zeros here) make sums of another length.
  np.testing.assert_allclose(_trace(dataset, **budget), dense, rtol=1e-12)
  assert dense[0] == budget.get('num_steps', 6)


@pytest.mark.parametrize('budget', [dict(num_steps=3), dict(num_epochs=2)])
def test_dataset_without_batches_takes_no_step(budget):
  empty = tf.data.Dataset.from_tensor_slices(
      (np.zeros([0, 2]), np.zeros([0], np.int32))
  ).batch(3)
  assert _trace(empty, **budget) == (0, 0.0)


def _reporting_step(state, batch):
  return state + 1, tf.reduce_sum(tf.where(batch.mask[:, None], batch.x, 0))


@pytest.mark.parametrize('budget', [dict(num_steps=5), dict(num_epochs=2)])
def test_mean_of_what_the_steps_report(budget):
  data = _data(7)
  zero = tf.constant(0.0, tf.float64)
  seen = client_data.fold_batches(
      data, lambda total, batch: total + _reporting_step(0, batch)[1], zero,
      seed=_key(1), batch_size=3, **budget,
  )
  num_steps, mean = client_data.fold_batches(
      data, _reporting_step, zero, seed=_key(1), batch_size=3, reports=True,
      **budget,
  )
  assert num_steps == budget.get('num_steps', 6)
  np.testing.assert_allclose(mean, seen / num_steps, rtol=1e-15)
  examples = data['examples']
  dataset = tf.data.Dataset.from_tensor_slices(
      (examples['x'], examples['y'])
  ).batch(3)
  found, expected = (
      client_data.fold_batches(
          some, _reporting_step, zero, seed=_key(1), reports=True, **budget,
          **options,
      ) for some, options in (
          (dataset, {}), (data, dict(batch_size=3, shuffle=False)),
      )
  )
  np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize('dtype', [tf.float32, tf.float64])
def test_mean_without_steps_is_zero_of_the_type_of_the_state(dtype):
  state, mean = client_data.fold_batches(
      _data(0), lambda state, batch: (state, state), tf.ones([], dtype),
      seed=_key(1), batch_size=3, num_steps=4, reports=True,
  )
  assert (state, mean, mean.dtype) == (1, 0, dtype)


def test_the_mean_of_halves_is_exact():
  """A float16 sum stops growing at 4096, where a step of it is 4."""
  _, mean = client_data.fold_batches(
      _data(2), lambda state, batch: (state, state), tf.constant(1.5, tf.float16),
      seed=_key(1), batch_size=2, num_steps=5000, reports=True,
  )
  assert mean == 1.5


@pytest.mark.parametrize(
    'budget', [{}, dict(num_steps=1, num_epochs=1)]
)
def test_raises_unless_steps_or_epochs_are_given(budget):
  with pytest.raises(ValueError, match='Exactly one of `num_steps`'):
    client_data.fold_batches(
        _data(3), lambda s, b: s, 0, seed=_key(0), batch_size=1, **budget
    )


def test_raises_on_unequal_rows():
  with pytest.raises(ValueError, match='found 3 and 2 rows at client 4'):
    client_data.dense(4, np.zeros([3, 1]), np.zeros([2]))


@pytest.mark.parametrize('index', ['alice', '7', 1.5, None, True, [1], 2**40])
def test_raises_on_an_index_that_is_no_integer(index):
  with pytest.raises(TypeError, match='`index` must be an integer.*enumerate'):
    client_data.dense(index, np.zeros([2, 1]), np.zeros([2]))


@pytest.mark.parametrize('x, error, sentence', [
    (tf.ragged.constant([[1.0, 2.0], [3.0]]), ValueError, r'\[1\] in row 1'),
    ([[1.0], [2.0, 3.0]], ValueError, r'\[2\] in row 1 and \[1\] in row 0'),
    (np.array([[1.0], [2.0, 3.0]], object), ValueError, r'\[2\] in row 1'),
    ([[[1.0], [2.0]], [[3.0], []]], ValueError, 'several lengths in row 1'),
    ([np.ones([2, 3]), np.ones([2, 4])], ValueError, r'\[2, 4\] in row 1'),
    ([0, 1, None], ValueError, 'NoneType in row 2 and a number in row 0'),
    (['a', None], ValueError, 'NoneType in row 1 and str in row 0'),
    (tf.sparse.eye(2), TypeError, 'found a SparseTensor'),
    (tf.data.Dataset.range(2), TypeError, 'found a data set. Tip'),
    (3.0, TypeError, 'found a single number'),
    (np.array(3.0), TypeError, 'found a single number'),
], ids=lambda value: '')
def test_raises_on_what_is_no_array(x, error, sentence):
  with pytest.raises(error, match=f'`x` of client 4 must .*{sentence}'):
    client_data.dense(4, x, np.zeros([2], np.int32))


def test_tables_and_lists_become_arrays():
  rows = [[1.0, 2.0], [3.0, 4.0]]
  for x in (rows, pd.DataFrame(rows, index=[5, 7], dtype='float32')):
    data = client_data.dense(np.int64(3), x, pd.Series([0, 1], index=[5, 7]))
    assert data['index'] == 3 and data['num_examples'] == 2
    assert all(isinstance(a, np.ndarray) for a in data['examples'].values())
    np.testing.assert_array_equal(data['examples']['x'], rows)
  own = np.array(rows)
  assert client_data.dense(0, own, own)['examples']['x'] is own


def test_raises_on_padding_to_fewer_rows():
  with pytest.raises(ValueError, match='>= the 3 rows of client 1, found 2'):
    client_data.pad(_data(3, index=1), 2)


def test_dense_data_are_of_the_declared_type():
  data = _data(3)
  declared = client_data.client_data_type(
      tf.TensorSpec([None, 2], tf.float64), tf.TensorSpec([None], tf.int32)
  )
  assert str(declared) == (
      '<index=int32,num_examples=int32,'
      'examples=<x=float64[?,2],y=int32[?]>>'
  )
  assert data['num_examples'] == 3 and data['num_examples'].dtype == np.int32


def test_pooled_clients_are_their_examples_without_padding():
  x = np.arange(10, dtype=np.float32).reshape(5, 2)
  y = np.arange(5, dtype=np.int32)
  one = client_data.pad(client_data.dense(0, x[:2], y[:2]), 4)
  pooled = client_data.pool([one, client_data.dense(1, x[2:], y[2:])])
  assert (pooled['index'], pooled['num_examples']) == (-1, 5)
  np.testing.assert_array_equal(pooled['examples']['x'], x)
  np.testing.assert_array_equal(pooled['examples']['y'], y)


@pytest.mark.parametrize('x', [
    np.arange(12.0).reshape([6, 2])[::2], np.zeros([0, 3], np.float32),
])
def test_constants_are_copies_that_nobody_can_change(x):
  data = client_data.dense(4, x, np.arange(len(x)))
  constant = client_data.constant(data)
  assert constant['index'] == 4 and constant['num_examples'] == len(x)
  for name, rows in constant['examples'].items():
    np.testing.assert_array_equal(rows, data['examples'][name])
    assert rows.dtype == data['examples'][name].dtype
    with pytest.raises(ValueError):
      rows.flags.writeable = True


# --- Several independent batches per step. ---


def _tuples(seeds, **budget):
  """Returns the labels seen, an array [steps, uses, batch], masked ones -1."""
  seen = tf.TensorArray(tf.int32, 0, dynamic_size=True)

  def step(state, batches):
    t, seen = state
    labels = tf.stack([tf.where(b.mask, b.y, -1) for b in batches])
    return t + 1, seen.write(t, labels)

  _, seen = client_data.fold_batch_tuples(
      _data(7), step, (tf.constant(0), seen), seeds=seeds, **budget
  )
  return seen.stack().numpy()


def test_every_use_visits_what_fold_batches_visits_under_its_key():
  budget, seeds = dict(batch_size=3, num_epochs=2), (_key(1), _key(2))
  together = _tuples(seeds, **budget)
  assert together.shape == (6, 2, 3)
  for use, seed in enumerate(seeds):
    alone = _tuples((seed,), **budget)
    np.testing.assert_array_equal(together[:, use], alone[:, 0])
  assert not np.array_equal(together[:, 0], together[:, 1])


def test_datasets_give_consecutive_batches():
  data = tf.data.Dataset.from_tensor_slices(
      (np.zeros([6, 1]), np.arange(6, dtype=np.int32))
  ).batch(2)

  def step(seen, batches):
    return tf.concat([seen, *[b.y for b in batches]], 0)

  seen = lambda **budget: client_data.fold_batch_tuples(
      data, step, tf.zeros([0], tf.int32), seeds=(_key(1), _key(2)), **budget
  )
  # Two steps of two batches: the fourth batch is the first one again.
  np.testing.assert_array_equal(seen(num_steps=2), [0, 1, 2, 3, 4, 5, 0, 1])
  # One epoch has as many steps as batches.
  np.testing.assert_array_equal(seen(num_epochs=1), [*range(6), *range(6)])
