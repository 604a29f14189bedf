"""Features are fitted to training rows of training clients, and nothing else.

Twelve clients, of whom two are held out; a third of the training rows is for
validation. The file says what is tested: a row that changes would otherwise
change its part, too.
"""

import numpy as np
import pytest

from tests import built
from tff_pers.data import client_data
from tff_pers.data import holdout

_REQUEST = dict(validation_fraction=0.33, holdout_clients=2, seed=3)
_HELD_OUT = holdout.choose(12, 2, 3)


def _rows():
  """Returns texts (client, y, a, b, color, split) of 12 clients with 20 rows each."""
  generator = np.random.default_rng(0)
  return [
      [f'c{client:02}', str(row % 2), f'{generator.normal(200, 50):.9}',
       f'{generator.normal():.9}', generator.choice(['red', 'blue']),
       'test' if row % 5 == 3 else 'train']
      for client in range(12) for row in range(20)
  ]


def _build(path, rows, **request):
  path.write_text(
      'client,y,a,b,color,split\n' + ''.join(','.join(row) + '\n' for row in rows),
      encoding='utf-8',
  )
  options = dict(missing='mean', categories='one_hot')
  return built.task('csv', path, options, **{**_REQUEST, **request})


def _part(data):
  """Returns the values of column a in the data of some clients."""
  return np.concatenate([d['examples']['x'][:, 0] for d in data])


@pytest.fixture(autouse=True)
def _held_out_whatever_the_rows(monkeypatch):
  """Who is held out follows from the rows, and here rows change."""
  choose = holdout.choose
  monkeypatch.setattr(
      holdout, 'choose', lambda number, held, seed, keys: choose(
          number, held, seed
      )
  )


@pytest.fixture(name='path')
def _path(tmp_path):
  return tmp_path / 'my.csv'


@pytest.fixture(name='unscaled')
def _unscaled(path):
  return _build(path, _rows(), standardize=False)


def _parts(task):
  """Returns the parts of a task by name, as lists of clients' data."""
  seen = np.setdiff1d(np.arange(12), _HELD_OUT)
  pick = lambda part, clients: [part[client] for client in clients]
  return {
      'training': pick(task.train, seen), 'test': pick(task.test, seen),
      'validation': pick(task.validation, seen),
      'held out, training': pick(task.train, _HELD_OUT),
      'held out, validation': pick(task.validation, _HELD_OUT),
      'held out, test': pick(task.test, _HELD_OUT),
  }


def _planted(part, cells):
  """Returns the rows of the file, one of which is of that part and changed."""
  value = float(_part(part)[7])
  rows = _rows()
  [row] = [row for row in rows if np.float32(row[2]) == np.float32(value)]
  row[2:5] = cells
  return rows


@pytest.mark.parametrize('cells', [['1e6', '-1e6', 'green'], ['', '?', '']])
@pytest.mark.parametrize('part, counts', [
    ('training', True), ('test', False), ('validation', False),
    ('held out, training', False), ('held out, validation', False),
    ('held out, test', False),
])
def test_outliers_count_where_clients_train_alone(
    path, unscaled, part, counts, cells
):
  before = _build(path, _rows())
  after = _build(path, _planted(_parts(unscaled)[part], cells))
  assert (after.features != before.features) is counts
  if not counts:
    for old, new in zip(
        _parts(before)['training'], _parts(after)['training']
    ):
      np.testing.assert_array_equal(
          old['examples']['x'], new['examples']['x']
      )


def test_training_rows_have_mean_0_and_variance_1(path, unscaled):
  task = _build(path, _rows())
  raw, made = (_part(_parts(t)['training']) for t in (unscaled, task))
  assert abs(made.mean(dtype=float)) < 1e-6
  assert abs(made.std(dtype=float) - 1) < 1e-6
  # All parts of all clients go through the same.
  mean, scale = raw.mean(dtype=float), raw.std(dtype=float)
  for name, part in _parts(task).items():
    by_hand = (_part(_parts(unscaled)[name]) - mean) / scale
    np.testing.assert_allclose(_part(part), by_hand, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('part, counts', [
    ('training', True), ('test', False), ('validation', False),
    ('held out, training', False),
])
def test_targets_are_scaled_by_training_rows_alone(
    path, unscaled, part, counts
):
  rows = [[c, f'{1e3 * float(a):g}', a, *rest] for c, _, a, *rest in _rows()]
  value = float(_part(_parts(unscaled)[part])[7])
  changed = [
      [c, '1e9' if np.float32(a) == np.float32(value) else y, a, *rest]
      for c, y, a, *rest in rows
  ]
  before, after = (_build(path, some) for some in (rows, changed))
  y = 1e3 * _part(_parts(unscaled)['training'])
  np.testing.assert_allclose(
      [before.features.y_mean, before.features.y_scale],
      [y.mean(dtype=float), y.std(dtype=float)], rtol=1e-6,
  )
  assert (after.features != before.features) is counts
  # Of the untrained model, which predicts the mean.
  weights = before.model.initial_weights(0)
  batch = client_data.Batch(
      np.zeros([2, 4], np.float32), np.float32([y.mean(), y.mean() + y.std()]),
      np.ones([2], bool), np.zeros([2], np.int64),
  )
  np.testing.assert_allclose(
      before.model.batch_loss(weights, batch), 0.5, rtol=1e-4
  )
  assert 'MAE and RMSE are in its units.' in before.about


def test_default_rates_are_safe_where_a_rare_column_is_constant(path):
  """Standardized, the column is 3.3 at every row of one of twelve clients."""
  rows = [
      [c, f'{1e3 * float(a):g}', a, str(int(c == _rows()[0][0])), *rest]
      for c, _, a, _, *rest in _rows()
  ]
  task = _build(path, rows)
  values = [
      np.linalg.eigvalsh(x.T @ x / len(x))[-1]
      for x in (data['examples']['x'] for data in task.train)
  ]
  # Two digits, rounded up.
  assert 0 <= task.features.x_scale - np.sqrt(max(values) / 4) < 0.1
  assert max(values) > 9
  assert 'The model divides features by' in task.about
  # Full steps of the default rate lower the loss of each client.
  for data in task.train:
    examples = data['examples']
    batch = client_data.Batch(
        examples['x'], examples['y'], np.ones([len(examples['x'])], bool),
        np.zeros([2], np.int64),
    )
    weights = start = task.model.initial_weights(0)
    for _ in range(20):
      _, gradient = task.model.loss_and_gradient(weights, batch)
      weights = [w - 0.1 * g for w, g in zip(weights, gradient)]
    assert task.model.batch_loss(weights, batch) < task.model.batch_loss(
        start, batch
    )


def test_the_model_takes_what_was_made(path):
  task = _build(path, _rows())
  assert task.features.outputs == [
      'a', 'b', 'color is blue', 'color is red'
  ]
  assert task.recipe is None
  assert task.model.x_spec.shape.as_list() == [None, 4]
  assert task.about.endswith(
      'Features are scaled to mean 0 and variance 1 over the training examples;'
      ' with texts and missing values as zeros and ones they are 4 numbers.'
  )
  assert _build(path, _rows(), standardize=False).about.count('left as') == 1
