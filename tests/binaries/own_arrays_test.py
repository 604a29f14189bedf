"""A user's task with several inputs and outputs, through the programs."""

import re

import numpy as np
import pytest
import tensorflow as tf

from binaries import evaluate
from binaries import predict
from binaries import report
from binaries import train
from tests import csv_rows
from tff_pers.data import named_arrays
from tff_pers.data import split
from tff_pers.data import tasks
from tff_pers.data.tasks import registry

from tff_pers.models import keras

_rows = csv_rows.read

L = tf.keras.layers
_SPECS = dict(
    kind=tf.TensorSpec([None], tf.int32), price=tf.TensorSpec([None])
)


def _network():
  numbers = tf.keras.Input([4], name='numbers')
  words = tf.keras.Input([3], dtype='int32', name='words')
  hidden = L.Concatenate()([
      L.Dense(5, 'tanh')(numbers), L.Flatten()(L.Embedding(7, 2)(words)),
  ])
  return tf.keras.Model(dict(numbers=numbers, words=words), dict(
      kind=L.Dense(3, 'softmax', name='kind')(hidden),
      price=L.Dense(1, name='price')(hidden),
  ))


def _houses():
  return keras.from_keras(_network, dict(
      kind='sparse_categorical_crossentropy', price='mse'
  ), y_spec=_SPECS)


def _classes():
  """One output: probabilities of three classes, of words alone."""
  return keras.from_keras(
      lambda: tf.keras.Sequential([
          L.Input([3], dtype='int32'), L.Embedding(7, 2), L.Flatten(),
          L.Dense(3, 'softmax'),
      ]), 'sparse_categorical_crossentropy', metrics=[
          'accuracy', tf.keras.metrics.SparseTopKCategoricalAccuracy(2, 'top_2')
      ],
  )


def _arrays(names, rows, seed=0):
  rng = np.random.default_rng(seed)
  return dict(
      client=np.repeat(names, rows),
      x_numbers=rng.normal(size=[rows * len(names), 4]),
      x_words=rng.integers(7, size=[rows * len(names), 3]),
      y_kind=rng.integers(3, size=rows * len(names)),
      y_price=rng.normal(size=rows * len(names)),
  )


def _saved(path, **arrays):
  np.savez(path, **arrays)
  return f'--data_dir={path}'


@pytest.fixture(autouse=True)
def _own_tasks(monkeypatch, no_plots):
  """Registers two tasks for the time of a test."""
  entries = registry._TASKS  # pylint: disable=protected-access
  monkeypatch.setattr(entries, '_entries', dict(vars(entries)['_entries']))

  tasks.register_npz('houses', _houses)
  tasks.register_npz('classes', _classes)


def _run(program, *argv):
  return program.main([program.__name__.split('.')[-1], *map(str, argv)])


def _train(folder, task, data, *argv):
  return _run(
      train, '--algo=fedavg', f'--task={task}', data, '--rounds=2',
      '--strategy=loop', f'--output_dir={folder}', *argv
  )


@pytest.mark.slow
def test_train_evaluate_predict_report(tmp_path):
  """The loss that `evaluate` writes is that of what `predict` writes."""
  run = tmp_path / 'run'
  data = _saved(tmp_path / 'mine.npz', **_arrays(['ann', 'bob'], 10))
  assert _train(run, 'houses', data, '--export=saved_model') == 0
  later = _arrays(['ann', 'dora'], 4, seed=1)
  data = _saved(tmp_path / 'later.npz', **later)
  assert _run(evaluate, f'--run={run}', data) == 0
  assert _run(predict, f'--run={run}', data) == 0
  found = _rows(run / 'predictions.csv')
  assert [row['client'] for row in found] == ['ann'] * 4 + ['dora'] * 4
  of = lambda name: np.array([float(row[f'prediction_{name}']) for row in found])
  kinds = np.stack([of(f'kind_{kind}') for kind in range(3)], 1)
  losses = (of('price') - later['y_price'])**2 - np.log(
      kinds[range(8), later['y_kind']]
  )
  evaluated = _rows(run / 'evaluation' / 'clients.csv')
  for row, rows in zip(evaluated, np.split(losses, 2)):
    np.testing.assert_allclose(float(row['loss']), rows.mean(), rtol=1e-4)
  assert _run(report, f'--runs={run}', f'--output={tmp_path / "page.html"}') == 0
  assert 'houses' in (tmp_path / 'page.html').read_text(encoding='utf-8')


def test_probabilities_of_an_own_model_are_predicted_as_they_are(tmp_path):
  """They are no logits: a softmax of them would be flatter."""
  rng = np.random.default_rng(0)
  client = np.repeat(['ann', 'bob'], 6)
  x = rng.integers(7, size=[12, 3])
  data = _saved(tmp_path / 'mine.npz', client=client, x=x, y=np.arange(12) % 3)
  assert _train(tmp_path, 'classes', data, '--export=saved_model') == 0
  assert _run(predict, f'--run={tmp_path}', data, '--client=ann') == 0
  model = tf.saved_model.load(str(tmp_path / 'export' / 'client_ann'))
  np.testing.assert_allclose([
      [float(row[f'probability_{kind}']) for kind in range(3)]
      for row in _rows(tmp_path / 'predictions.csv')
  ], model.predict(tf.constant(x, tf.int32)), rtol=1e-5)
  # The model's own metric is a column like those of all own data.
  assert {'top_2', 'balanced_accuracy', 'majority'} <= set(
      _rows(tmp_path / 'clients.csv')[0]
  )


def test_rows_are_split_by_what_they_hold(tmp_path):
  """Their order, and that of clients, change nothing."""
  arrays = _arrays(['ann', 'bob'], 10)
  order = np.random.default_rng(0).permutation(20)
  found = []
  for name, rows in (('given', np.arange(20)), ('mixed', order)):
    path = tmp_path / f'{name}.npz'
    np.savez(path, **{key: array[rows] for key, array in arrays.items()})
    task = tasks.get('houses').build(
        tasks.TaskRequest(data_dir=str(path)), tasks.NoOptions()
    )
    assert task.client_names == ['ann', 'bob'] and task.num_classes == 0
    assert task.train[0]['examples']['x']['words'].dtype == np.int32
    found.append([
        sorted(data['examples']['y']['price'].tolist()) for data in task.test
    ])
  assert found[0] == found[1] and len(found[0][0]) == 2


def test_counts_are_no_classes(tmp_path):
  """A loss that knows no labels: 0, 1 and 4 would be classes with a gap."""
  tasks.register_npz('counts', lambda: keras.from_keras(
      lambda: tf.keras.Sequential([L.Dense(1, 'exponential', input_shape=[2])]),
      'poisson',
  ))
  path = tmp_path / 'counts.npz'
  np.savez(path, x=np.ones([6, 2]), y=[0, 1, 4] * 2, client=[0] * 3 + [1] * 3)
  task = tasks.get('counts').build(
      tasks.TaskRequest(data_dir=str(path)), tasks.NoOptions()
  )
  assert task.num_classes == 0 and task.class_counts is None


def test_texts_of_rows_count(tmp_path):
  """Two rows that differ in a text alone have keys of their own."""
  path = tmp_path / 'texts.npz'
  np.savez(path, x=np.array([['a'], ['b'], ['a']]), y=np.zeros(3))
  table = named_arrays.read(
      str(path), tf.TensorSpec([None, 1], tf.string), tf.TensorSpec([None]),
      needs=('y',),
  )
  first, second, third = split.content_keys(named_arrays.contents(table))
  assert first == third != second


@pytest.mark.parametrize('change, message', [
    (dict(x_words=None), 'must hold the arrays x_numbers, x_words, client,'),
    (dict(x_numbers=np.zeros([20, 5])), r'x_numbers must be of shape .* \[20, 5'),
    (dict(x_words=np.full([20, 3], 0.5)), 'x_words must be whole numbers'),
    (dict(y_price=np.full([20], np.nan)), 'y_price: numbers must be finite'),
    (dict(y_kind=np.zeros([19])), 'must hold one row per example'),
    (dict(client=np.zeros([20])), 'client must be one integer or text'),
])
def test_raises_on_other_arrays(change, message, tmp_path, capsys):
  arrays = {**_arrays(['ann', 'bob'], 10), **change}
  data = _saved(tmp_path / 'mine.npz', **{
      name: array for name, array in arrays.items() if array is not None
  })
  assert _train(tmp_path / 'run', 'houses', data) == 2
  found = ' '.join(capsys.readouterr().err.split())
  assert re.search(message, found), found
