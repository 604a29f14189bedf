"""Tests of the tasks of own data; files of columns: `columnar_test.py`."""

import numpy as np
import pytest

from tests import built
from tff_pers.data import errors
from tff_pers.data import fitting
from tff_pers.data import holdout
from tff_pers.data import tasks
from tff_pers.data.tasks import own_data

_build = built.task


def _arrays(**changes):
  """Three clients of 6, 4 and 2 examples; None leaves an array out."""
  client = np.array(['anna'] * 6 + ['bob'] * 4 + ['zoe'] * 2)
  arrays = dict(
      x=np.arange(24.0).reshape(12, 2), y=np.arange(12) % 3, client=client
  )
  arrays.update(changes)
  return {name: array for name, array in arrays.items() if array is not None}


def _npz(tmp_path, **changes):
  path = tmp_path / 'my.npz'
  np.savez(path, **_arrays(**changes))
  return path


def _csv(tmp_path, text):
  path = tmp_path / 'my.csv'
  path.write_text(text, encoding='utf-8')
  return path


_CSV = 'client,y,a,b\n' + ''.join(
    f'{client},{row % 2},{row},{row / 4}\n'
    for row, client in enumerate(['10', '10', '9', '9', '9'])
)


def _sizes(data):
  return [int(d['num_examples']) for d in data]


def _changed(array, row, value):
  array = np.array(array)
  array[row] = value
  return array


@pytest.mark.parametrize('as_folder', [False, True])
def test_npz_clients_are_those_of_the_file_sorted(tmp_path, as_folder):
  path = _npz(tmp_path)
  task = _build('npz', tmp_path if as_folder else path, train_fraction=0.5)
  assert _sizes(task.train) == [3, 2, 1] and _sizes(task.test) == [3, 2, 1]
  assert task.num_classes == 3 and task.model.name == 'logistic_regression'
  bob = [part[1]['examples'] for part in (task.train, task.test)]
  x = np.concatenate([part['x'] for part in bob])
  y = np.concatenate([part['y'] for part in bob])
  np.testing.assert_array_equal(np.sort(x[:, 0]), [12, 14, 16, 18])
  np.testing.assert_array_equal(y, (x[:, 0] / 2) % 3)
  assert not task.has_groups
  np.testing.assert_array_equal(task.class_counts.sum(axis=1), [3, 2, 1])


@pytest.mark.parametrize('words', [False, True])
def test_npz_split_is_kept(tmp_path, words):
  split = np.array([0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0])
  if words:
    split = np.array(['train', 'test'])[split]
  task = _build('npz', _npz(tmp_path, split=split))
  assert _sizes(task.train) == [5, 1, 1] and _sizes(task.test) == [1, 3, 1]
  np.testing.assert_array_equal(task.train[1]['examples']['x'], [[12, 13]])
  np.testing.assert_array_equal(task.test[2]['examples']['y'], [10 % 3])


def test_validation_leaves_a_given_split_of_test_data(tmp_path):
  """Clients that train on a single example have none to validate on."""
  split = np.array([0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0])
  whole, cut = (
      _build('npz', _npz(tmp_path, split=split), validation_fraction=fraction)
      for fraction in (0.0, 0.4)
  )
  assert _sizes(cut.train) == [3, 1, 1] and _sizes(cut.validation) == [2, 0, 0]
  for before, after in zip(whole.test, cut.test):
    np.testing.assert_array_equal(
        before['examples']['x'], after['examples']['x']
    )


def test_times_in_arrays_keep_their_differences_if_scaled(tmp_path):
  times = np.stack([1.7e9 + np.arange(12), np.arange(12)], 1)
  path = _npz(tmp_path, x=times)
  for standardize, kept in (True, 12), (False, 1):
    task = fitting.fit(
        _build('npz', path, standardize=standardize), num_held_out=0, seed=0
    )
    x = np.concatenate([
        client['examples']['x'] for client in (*task.train, *task.test)
    ])
    assert len(np.unique(x[:, 0])) == kept and len(np.unique(x[:, 1])) == 12
    assert ('rounds the differences of x0, which' in task.about) != standardize


def test_kind_overrides_dtype(tmp_path):
  path = _npz(tmp_path)
  task = _build('npz', path, own_data.OwnDataOptions(kind='regression'))
  assert task.num_classes == 0
  path = _npz(tmp_path, y=np.arange(12.0) % 3)
  task = _build('npz', path, own_data.OwnDataOptions(kind='classification'))
  assert task.num_classes == 3


def test_targets_whose_differences_float32_loses_are_refused(tmp_path):
  # Near 1.7e9, float32 has steps of 128.
  y = 1.7e9 + np.linspace(0, 60, 12)
  with pytest.raises(errors.DataError, match='Tip: subtract 1700000000 from y'):
    _build('npz', _npz(tmp_path, y=y))
  _build('npz', _npz(tmp_path, y=y - 1.7e9 + 2024))
  # The standard deviation of equal numbers is not quite 0.
  _build('npz', _npz(tmp_path, y=np.full(12, 142.857)))


def test_csv_names_that_are_no_plain_numbers_stay_texts(tmp_path):
  """01 and 1 are two clients."""
  text = 'client,y,a\n01,0,1\n01,1,2\n1,0,3\n1,1,4\n'
  assert _build('csv', _csv(tmp_path, text)).num_clients == 2


@pytest.mark.parametrize('cells, kind, classes, sentence', [
    ('yes no', 'auto', ('no', 'yes'), '2 classes (no: 6, yes: 6 rows).'),
    ('True False', 'auto', ('False', 'True'), '2 classes (False: 6, True: 6'),
    ('0 1', 'auto', None, '2 classes (0: 6, 1: 6 rows).'),
    ('0.0 1.0', 'auto', ('0.0', '1.0'), '2 classes (0.0: 6, 1.0: 6 rows).'),
    ('1 -1', 'auto', ('-1', '1'), '2 classes (-1: 6, 1: 6 rows).'),
    ('3 900', 'auto', ('3', '900'), '2 classes (3: 6, 900: 6 rows).'),
    ('0 2', 'auto', ('0', '2'), '2 classes (0: 6, 2: 6 rows).'),
    ('2 1 3', 'auto', ('1', '2', '3'), 'a quantity: --csv_kind=regression.'),
    ('0 1 2', 'auto', None, 'If y is a quantity: --csv_kind=regression.'),
    ('0 1 2', 'classification', None, '(0: 4, 1: 4, 2: 4 rows). 1 client'),
    ('.5 1', 'auto', 0, 'Regression: y from 0.5 to 1. 1 client'),
    ('1 0', 'regression', 0, 'Regression: y from 0 to 1. 1 client'),
])
def test_what_y_is_taken_for(tmp_path, cells, kind, classes, sentence):
  cells = (cells.split() * 6)[:12]
  path = _csv(tmp_path, 'client,y,a\n' + ''.join(
      f'k,{y},{row}\n' for row, y in enumerate(cells)
  ))
  task = _build('csv', path, tasks.get('csv').options(kind=kind))
  assert sentence in task.about
  if classes == 0:
    assert task.num_classes == 0
  else:
    assert task.features.classes == classes
    assert task.num_classes == len(set(cells))
    labels = np.concatenate([
        part[0]['examples']['y'] for part in (task.train, task.test)
    ])
    names = classes or sorted(set(cells))
    assert sorted(labels) == sorted(names.index(cell) for cell in cells)


def test_many_whole_numbers_are_a_quantity(tmp_path):
  """Of an array, too; a flag makes labels of them, whatever they are."""
  y = np.arange(24) * 3
  changes = dict(x=np.zeros([24, 1]), client=np.arange(24) % 2)
  path = _npz(tmp_path, y=y, **changes)
  task = _build('npz', path)
  assert task.num_classes == 0
  assert 'if they are labels: --npz_kind=classification' in task.about
  task = _build(
      'npz', path, tasks.get('npz').options(kind='classification')
  )
  assert task.num_classes == 24 and task.features.classes[:2] == ('0', '3')
  path = _npz(tmp_path, y=y % 2 == 0, **changes)
  assert _build('npz', path).features.classes == ('False', 'True')
  path = _npz(tmp_path, y=np.where(y % 2, 'b', 'a'), **changes)
  assert _build('npz', path).features.classes == ('a', 'b')


@pytest.mark.parametrize('more, shown', [
    (0, '9 clients, 18 rows (2 rows each).'),
    (1, '9 clients, 19 rows (2 to 3 rows each).'),
])
def test_numbers_of_rows_of_many_clients(tmp_path, more, shown):
  clients = [*range(9)] * 2 + [0] * more
  text = ''.join(f'k{k},{row % 2},{row}\n' for row, k in enumerate(clients))
  assert shown in _build('csv', _csv(tmp_path, 'client,y,a\n' + text)).about


def test_clients_with_too_few_rows_are_left_out_and_counted(tmp_path):
  text = 'client,y,a,split\n' + ''.join(
      f'{client},{row % 2},{row},{row % 2}\n'
      for row, client in enumerate(['b', 'b', 'one', 'c', 'c', 'c', 'a'])
  )
  task = _build('csv', _csv(tmp_path, text), standardize=False)
  assert list(task.client_names) == ['b', 'c']
  np.testing.assert_array_equal(task.train[1]['examples']['x'], [[4]])
  np.testing.assert_array_equal(task.test[1]['examples']['x'], [[3], [5]])
  assert '2 clients, 5 rows (b: 2, c: 3). 2 clients with fewer than 2 rows' in (
      task.about
  )
  assert 'left out (a, one): --csv_min_examples.' in task.about
  task = _build(
      'csv', _csv(tmp_path, text), tasks.get('csv').options(min_examples=3)
  )
  assert list(task.client_names) == ['c']


def _held_rows(task, part):
  """Returns column a of the rows of a part, by client; clients by column b."""
  return {
      float(own['examples']['x'][0, 1]): sorted(own['examples']['x'][:, 0])
      for own in getattr(task, part)
  }


@pytest.mark.parametrize('has_split', [False, True])
def test_names_and_order_of_clients_do_not_decide_who_is_tested(
    tmp_path, has_split
):
  """Nor does the order of rows, unless the file says which are tested."""
  rng = np.random.default_rng(0)
  rows = [
      (client, row % 2, rng.normal(), client, rng.choice(['red', 'blue']),
       ['train', 'test'][row % 5 == 0])
      for client in range(3) for row in range(20)
  ]

  def built(rows, names, seed=5):
    head = 'client,y,a,b,color' + ',split' * has_split
    path = _csv(tmp_path, '\n'.join([head, *(
        ','.join(map(str, (names[row[0]], *row[1:5 + has_split])))
        for row in rows
    )]))
    return _build(
        'csv', path, tasks.get('csv').options(categories='one_hot'), seed=seed,
        standardize=False, validation_fraction=0.25,
    )

  first = built(rows, 'abc')
  other = sorted(rows, key=lambda row: -row[0])
  if not has_split:
    other = [other[place] for place in rng.permutation(60)]
    # The texts come in another order, too.
    other.sort(key=lambda row: row[4] == rows[0][4])
  second = built(other, 'zya')
  assert list(second.client_names) == ['a', 'y', 'z']
  held = [
      [names.index(task.client_names[holdout.choose(
          3, 1, seed, task.client_keys
      )[0]]) for seed in range(9)]
      for task, names in ((first, 'abc'), (second, 'zya'))
  ]
  assert held[0] == held[1] and len(set(held[0])) > 1
  for part, number in (('train', 12), ('validation', 4), ('test', 4)):
    assert _held_rows(first, part) == _held_rows(second, part)
    assert [int(d['num_examples']) for d in getattr(first, part)] == [number] * 3
  if has_split:
    # The last of those that could be trained on.
    late = [np.float32(row[2]) for row in rows[:20] if row[5] == 'train'][-4:]
    assert _held_rows(first, 'validation')[0.0] == sorted(late)
  else:
    assert _held_rows(first, 'test') != _held_rows(built(rows, 'abc', 6), 'test')


def test_what_columns_hold_is_said(tmp_path):
  text = 'client,y,age,town\nk,0,1,rome\nk,1,,oslo\nk,1,3,rome\nk,0,4,\n'
  task = _build('csv', _csv(tmp_path, text), tasks.get('csv').options(
      missing='mean', categories='one_hot'
  ))
  assert (
      '1 client, 4 rows (k: 4). 2 features: age, town; different texts: 2 in'
      ' town; no value: 1 row of age, 1 row of town. Features are'
  ) in task.about


_X = np.arange(24.0).reshape(12, 2)


@pytest.mark.parametrize(
    'changes,message',
    [
        (dict(client=None), 'must hold the arrays x, y, client, found no cl'),
        (dict(x=None), 'found no x'),
        (dict(y=np.arange(11) % 3), "one row per example in every .*'y': 11"),
        (dict(x=_changed(_X, (7, 1), np.nan)), 'NaN.*row 7 of client bob'),
        (dict(x=_changed(_X, (0, 0), 1e300)), 'row 0 of client anna'),
        (dict(x=np.arange(12.0)), r'shape \[examples, features...\]'),
        (dict(x=np.zeros([12, 0])), r'shape \[examples, features...\]'),
        (dict(x=_X.astype(str)), 'must hold real numbers'),
        (dict(x=_X + 1j), 'must hold real numbers'),
        (dict(y=np.zeros(12, int)), 'at least 2 classes, found 1'),
        (dict(y=np.zeros([12, 1], int)), r'found shape \[12, 1\]'),
        (dict(y=np.array(['a'] * 12)), 'at least 2 classes, found 1'),
        (dict(y=np.array(['a', ''] * 6)), "name of a class .* '' in row 1"),
        (
            dict(y=_changed(np.linspace(0, 1, 12), 11, np.inf)),
            'targets must be finite.*row 11 of client zoe',
        ),
        (dict(client=np.arange(12.0)), 'client must be one integer or text'),
        (dict(client=np.arange(12)), 'a client with at least 2 rows'),
        (dict(split=np.full(12, 2)), 'split must be train or test'),
        (
            dict(split=np.array([0, 1] * 5 + [1, 1])),
            'client zoe must have at least one example with split train',
        ),
    ],
)
def test_raises_on_bad_npz_and_names_it(tmp_path, changes, message):
  path = _npz(tmp_path, **changes)
  with pytest.raises(errors.DataError, match=message) as info:
    _build('npz', path)
  assert str(path) in str(info.value)
  assert '\n' not in str(info.value)


def test_rows_of_an_npz_without_y_are_left_out_and_counted(tmp_path):
  y = _changed(np.arange(12) % 2 * 1.0, 3, np.nan)
  task = _build('npz', _npz(tmp_path, y=y))
  assert '1 of 12 rows have no y and are left out, the first in row 3' in (
      task.about
  )
  assert task.class_names == ['0', '1'] or task.class_names == ['0.0', '1.0']
  sizes = [
      int(data['num_examples']) for part in (task.train, task.test)
      for data in part
  ]
  assert sum(sizes) == 11


@pytest.mark.parametrize(
    'y,options,message',
    [
        (
            np.linspace(0, 1, 12), dict(kind='classification'),
            'must be integers, found 0.09.* in row 1 of client anna',
        ),
    ],
)
def test_raises_on_labels_that_options_exclude(tmp_path, y, options, message):
  with pytest.raises(errors.DataError, match=message):
    _build('npz', _npz(tmp_path, y=y), own_data.OwnDataOptions(**options))


def test_raises_on_ragged_npz_and_npy(tmp_path):
  ragged = np.empty(12, object)
  ragged[:] = [np.zeros(1 + row % 2) for row in range(12)]
  with pytest.raises(errors.DataError, match='no ragged rows'):
    _build('npz', _npz(tmp_path, x=ragged))
  np.save(tmp_path / 'my.npy', np.zeros(3))
  with pytest.raises(errors.DataError, match='found a single array'):
    _build('npz', tmp_path / 'my.npy')


@pytest.mark.parametrize('keep', [0.0, 0.5, 0.9])
def test_raises_on_truncated_npz(tmp_path, keep):
  path = _npz(tmp_path)
  content = path.read_bytes()
  path.write_bytes(content[:int(keep * len(content))])
  with pytest.raises(errors.DataError, match='must be a complete .npz') as info:
    _build('npz', path)
  assert str(path) in str(info.value)


def test_raises_on_corrupt_npz(tmp_path):
  """A byte of an array is changed: the archive's checksum tells."""
  path = tmp_path / 'my.npz'
  noise = np.random.default_rng(0).random([12, 9])
  np.savez_compressed(path, **_arrays(x=noise))
  content = bytearray(path.read_bytes())
  content[300] ^= 0xFF
  path.write_bytes(bytes(content))
  with pytest.raises(errors.DataError, match='must be a complete .npz'):
    _build('npz', path)


@pytest.mark.parametrize('name', ['npz', 'csv', 'parquet'])
def test_raises_without_one_file(tmp_path, name):
  with pytest.raises(errors.DataError, match='`data_dir` must name'):
    _build(name, '')
  with pytest.raises(errors.DataError, match='`data_dir` must exist'):
    _build(name, tmp_path / 'nowhere')
  with pytest.raises(errors.DataError, match=f'one .{name} file, found none'):
    _build(name, tmp_path)
  for stem in ('a', 'b'):
    (tmp_path / f'{stem}.{name}').write_bytes(b'')
  message = 'found a.npz, b.npz' if name == 'npz' else f'{tmp_path}.* must'
  with pytest.raises(errors.DataError, match=message):
    _build(name, tmp_path)


def test_raises_on_conflicting_request(tmp_path):
  with pytest.raises(ValueError, match='`partition` must be by_client'):
    _build('npz', _npz(tmp_path), partition='iid')
  with pytest.raises(ValueError, match='`num_clients` must be <= the 3'):
    _build('npz', _npz(tmp_path), num_clients=4)
  assert _build('npz', _npz(tmp_path), num_clients=2).num_clients == 2
  path = _npz(tmp_path, split=np.tile([0, 1], 6))
  with pytest.raises(ValueError, match='`train_fraction` must not be given'):
    _build('npz', path, train_fraction=0.5)


def test_npz_tiers_are_those_of_the_clients(tmp_path):
  tier = np.repeat([2, 0, 1], [6, 4, 2])
  task = _build('npz', _npz(tmp_path, tier=tier), train_fraction=0.5)
  assert task.tiers.tolist() == [2, 0, 1]
  assert task.train[0]['examples']['x'].shape == (3, 2)  # No feature.
  assert _build('npz', _npz(tmp_path), train_fraction=0.5).tiers is None


def test_csv_tiers_are_those_of_the_clients(tmp_path):
  lines = _CSV.splitlines()
  text = '\n'.join(
      [f'{lines[0]},tier'] + [
          f'{line},{1 if line.startswith("10") else 3}' for line in lines[1:]
      ]
  )
  task = _build('csv', _csv(tmp_path, text), train_fraction=0.5)
  assert task.tiers.tolist() == [3, 1]  # Client 9 comes before client 10.
  assert task.model.x_spec.shape.as_list() == [None, 2]


@pytest.mark.parametrize('tier, message', [
    ([0] * 11 + [-1], "tier must be an integer >= 0 .* '?-1'? at client zoe"),
    ([0] * 11 + [1], 'tier must be the same .* 0 and 1 at client zoe'),
    ([0.5] * 12, "tier must be an integer >= 0 .* '0.5' at client anna in row 0"),
])
def test_raises_on_bad_tiers(tmp_path, tier, message):
  with pytest.raises(errors.DataError, match=message):
    _build('npz', _npz(tmp_path, tier=np.array(tier)))
