"""Tests of the task `emnist` on small generated files.

The last test reads the real files if TFF_PERS_DATA_DIR names their folder.
"""

import os

import numpy as np
import pytest

from tests import built
from tests.data import emnist_files
from tests.data.formats import files
from tff_pers.data import errors
from tff_pers.data import holdout
from tff_pers.data import on_demand
from tff_pers.data.formats import download
from tff_pers.data.formats import published

_FEW = dict(min_train=20, min_test=5)


def _build(data_dir, options=None, **request):
  options = {**_FEW, **(options or {})}
  return built.task('emnist', data_dir, options, **request)


def _sizes(data):
  return [int(d['num_examples']) for d in data]


def _bytes(data):
  """Returns the images of all clients as read, to be compared as a set."""
  x = np.concatenate([d['examples']['x'] for d in data])
  return [np.round(255 - 255 * image).astype(np.uint8).tobytes() for image in x]


@pytest.mark.parametrize('folder', ['', 'emnist', 'femnist'])
def test_clients_are_writers_with_the_split_of_the_file(tmp_path, folder):
  emnist_files.write(tmp_path / folder)
  task = _build(tmp_path)
  assert _sizes(task.train) == [30, 20] and _sizes(task.test) == [6, 5]
  arrays = emnist_files.full()
  for part, number in ((task.train, 0), (task.test, 1)):
    for client in (0, 1):
      rows = (arrays['writer'] == client) & (arrays['split'] == number)
      assert _bytes([part[client]]) == [x.tobytes() for x in arrays['x'][rows]]
      np.testing.assert_array_equal(
          part[client]['examples']['y'], arrays['y'][rows]
      )
  assert task.num_classes == 62 and task.global_test is None


def test_ink_is_one_and_paper_zero(tmp_path):
  x = _build(emnist_files.write(tmp_path)).train[0]['examples']['x']
  assert x.shape == (30, 28, 28, 1) and x.dtype == np.float32
  assert x.min() == 0.0 and x.max() == 1.0
  assert (x[:, 0, 0] == 0.0).all()


@pytest.mark.parametrize('request_', [
    {}, dict(train_fraction=0.5), dict(validation_fraction=0.3),
    dict(holdout_clients=1),
])
def test_standardized_pixels_are_so_over_what_is_trained_on(tmp_path, request_):
  """Nothing that is tested or validated on counts, nor who never trains."""
  task = _build(
      emnist_files.write(tmp_path), dict(pixels='standardized'), **request_
  )
  held_out = holdout.choose(2, request_.get('holdout_clients', 0), 0)
  x = np.concatenate([
      d['examples']['x'] for client, d in enumerate(task.train)
      if client not in held_out
  ])
  np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=1e-5)  # Float32 sums.
  deviation = x.std(axis=0)
  assert (deviation[0, 0] == 0.0).all()  # It is paper everywhere.
  np.testing.assert_allclose(deviation.reshape(-1)[1:], 1.0, atol=1e-4)


def test_exact_copies_are_left_out(tmp_path):
  copies = emnist_files.full()['duplicate']
  copies[[0, 1, 31]] = 1
  task = _build(emnist_files.write(tmp_path, duplicate=copies))
  assert _sizes(task.train) == [28, 20] and _sizes(task.test) == [5, 5]


@pytest.mark.parametrize(
    'writers,minima,expected',
    [
        ('full', (1, 1), [(30, 6), (20, 5), (4, 2)]),
        ('full', (21, 1), [(30, 6)]),
        ('full', (1, 6), [(30, 6)]),
        ('partial', (20, 5), [(20, 5)]),
        ('partial', (20, 6), None),
        ('all', (20, 5), [(30, 6), (20, 5), (20, 5)]),
    ],
)
def test_writers_with_enough_images_are_kept(
    tmp_path, writers, minima, expected
):
  """Of partial writers, whose split is drawn, with enough in all."""
  options = dict(writers=writers, min_train=minima[0], min_test=minima[1])
  emnist_files.write(tmp_path)
  if expected is None:
    with pytest.raises(errors.DataError, match='found none among 2. Tip: lower'):
      _build(tmp_path, options)
    return
  task = _build(tmp_path, options)
  assert list(zip(_sizes(task.train), _sizes(task.test))) == expected


def test_no_image_is_trained_and_tested_on(tmp_path):
  emnist_files.write(tmp_path)
  for request in ({}, {'train_fraction': 0.5}):
    task = _build(tmp_path, dict(writers='all'), **request)
    images = _bytes(task.train) + _bytes(task.test)
    assert len(set(images)) == len(images) == 36 + 25 + 25


def test_train_fraction_draws_a_split_instead(tmp_path):
  emnist_files.write(tmp_path)
  task = _build(tmp_path, train_fraction=0.5)
  assert _sizes(task.train) == [18, 12] and _sizes(task.test) == [18, 13]
  other = _build(tmp_path, train_fraction=0.5, seed=1)
  assert set(_bytes(task.test)) != set(_bytes(other.test))


def test_other_partitions_deal_out_the_images_of_the_writers(tmp_path):
  task = _build(emnist_files.write(tmp_path), partition='iid', num_clients=3)
  assert sum(_sizes(task.train)) + sum(_sizes(task.test)) == 61
  assert task.partition == 'iid' and task.num_clients == 3


def test_ten_take_part_in_a_round_where_there_are_more(tmp_path):
  """Table 2 of papers/partial_personalization.md."""
  sizes = [(20, 5)] * 11
  task = _build(emnist_files.write(tmp_path, **emnist_files.full(sizes)))
  assert (task.num_clients, task.clients_per_round) == (11, 10)
  fewer = _build(tmp_path, num_clients=10)
  assert fewer.num_clients == 10 and fewer.full_participation


def _published(folder, infix='', sizes=None):
  """Writes HDF5 files of TFF; returns the parts."""
  sizes = sizes or {'w3': (30, 6), 'w1': (20, 5), 'w2': (19, 9), 'w4': (25, 7)}
  parts = {
      name: files.emnist({w: pair[k] for w, pair in sizes.items()}, seed=k)
      for k, name in enumerate(('train', 'test'))
  }
  for name, part in parts.items():
    files.hdf5(folder / f'fed_emnist{infix}_{name}.h5', part)
  return parts


def test_published_writers_are_read_when_they_are_needed(tmp_path):
  parts = _published(tmp_path / 'emnist')
  task = _build(tmp_path)
  assert isinstance(task.train, on_demand.OnDemand)
  assert task.client_names == ['w1', 'w3', 'w4']
  assert (_sizes(task.train), _sizes(task.test)) == ([20, 30, 25], [5, 6, 7])
  assert task.num_classes == 62 and task.partition == 'by_client'
  for name, data in (('train', task.train[1]), ('test', task.test[1])):
    written, own = parts[name]['w3'], data['examples']
    assert data['index'] == 1 and own['x'].shape[1:] == (28, 28, 1)
    np.testing.assert_allclose(own['x'][..., 0], 1 - written['pixels'])
    np.testing.assert_array_equal(own['y'], written['label'])


def test_published_writers_are_the_same_when_all_are_in_memory(tmp_path):
  """Other pixels need that; of two writers, the same two."""
  _published(tmp_path)
  lazy = _build(tmp_path, num_clients=2, seed=5)
  task = _build(tmp_path, dict(pixels='standardized'), num_clients=2, seed=5)
  assert isinstance(task.train, list)
  assert task.client_names == lazy.client_names
  for one, other in zip(lazy.train, task.train):
    np.testing.assert_array_equal(one['examples']['y'], other['examples']['y'])
  turned = _build(tmp_path, partition='iid', num_clients=3)
  assert sum(_sizes(turned.train)) + sum(_sizes(turned.test)) == 93


def test_published_writers_are_tested_on_25_images_as_in_the_papers(tmp_path):
  _published(tmp_path, sizes={'a': (100, 25), 'b': (99, 25), 'c': (100, 24)})
  assert _build(tmp_path, dict(min_train=100, min_test=0)).client_names == ['a']


def test_of_digits_fewer_images_are_enough(tmp_path):
  """TFF's writers have about 101 digits to train and 12 to test on."""
  _published(
      tmp_path, '_digitsonly', {'a': (50, 5), 'b': (49, 5), 'c': (50, 4)}
  )
  defaults = dict(min_train=0, min_test=0, characters='digits')
  assert _build(tmp_path, defaults).client_names == ['a']
  with pytest.raises(errors.DataError, match='60 train .* Tip: lower --emnist'):
    _build(tmp_path, dict(defaults, min_train=60))


def test_digits_have_ten_classes(tmp_path):
  _published(tmp_path / 'tff', '_digitsonly')
  task = _build(tmp_path / 'tff', dict(characters='digits'))
  assert task.num_classes == 10 and task.num_clients == 3
  rows = np.arange(67)  # Every second image is a letter.
  emnist_files.write(tmp_path, y=np.where(rows % 2, 40, rows // 2 % 10))
  task = _build(tmp_path, dict(characters='digits', min_train=10, min_test=1))
  assert task.num_classes == 10 and _sizes(task.train) == [15, 10]
  assert max(data['examples']['y'].max() for data in task.train) == 9
  assert task.model.predict(
      task.model.initial_weights(0), task.train[0]['examples']['x'], False,
      [0, 0],
  ).shape[1] == 10


def test_without_a_folder_files_of_tff_are_cached(tmp_path, monkeypatch):
  monkeypatch.setattr(download, 'cache_folder', lambda: str(tmp_path))
  monkeypatch.setattr(published, '_ORIGIN', 'http://127.0.0.1:9')
  with pytest.raises(errors.DataError, match='Task emnist needs --data_dir'):
    _build('')
  files.sqlite(tmp_path / 'emnist_all.sqlite', {
      'all_train': files.emnist({'a': 20}), 'all_test': files.emnist({'a': 5}),
  })
  assert _build('').client_names == ['a']


def test_raises_on_missing_folder_file_or_writers(tmp_path):
  with pytest.raises(errors.DataError, match='`data_dir` must be a folder with'):
    _build(tmp_path / 'nowhere')
  folder = emnist_files.write(tmp_path)
  with pytest.raises(ValueError, match='`num_clients` must be .*found 3'):
    _build(folder, num_clients=3)
  (folder / 'femnist_partial_writers.npz').unlink()
  _build(folder)
  with pytest.raises(errors.DataError, match='with femnist_partial_writers.npz'):
    _build(folder, dict(writers='all'))


_ROWS = 67
BAD_FILES = {
    'no_split_values': (
        dict(split=np.full([_ROWS], 2)), 'split must be integers in 0..1.*2'
    ),
    'no_writers': (dict(writer=None), 'must hold the arrays.*no writer'),
    'float_images': (
        dict(x=np.zeros([_ROWS, 28, 28])), 'must be uint8 images of 28 x 28'
    ),
    'flat_images': (
        dict(x=np.zeros([_ROWS, 784], np.uint8)), 'images of 28 x 28.*67, 784'
    ),
    'lengths': (dict(y=np.zeros([5], int)), 'one row per image.*y of shape'),
    'labels': (dict(y=np.full([_ROWS], 62)), 'in 0..61, found 62.*client f0_a'),
    'unnamed_writer': (
        dict(writer=np.full([_ROWS], 3)), 'writer must be integers in 0..2.* 3'
    ),
    'writer_numbers': (
        dict(writer=np.zeros([_ROWS])), 'writer must be integers.*float64'
    ),
    'names': (dict(writer_names=np.arange(3)), 'must be a list of texts.*int64'),
}


@pytest.mark.parametrize('case', sorted(BAD_FILES))
def test_raises_on_arrays_that_do_not_fit(tmp_path, case):
  changes, message = BAD_FILES[case]
  with pytest.raises(errors.DataError, match=message) as info:
    _build(emnist_files.write(tmp_path, **changes))
  assert 'femnist_writers.npz' in str(info.value)


_DATA_DIR = os.environ.get('TFF_PERS_DATA_DIR', '')


@pytest.mark.skipif(
    not _DATA_DIR, reason='TFF_PERS_DATA_DIR does not name a folder of data'
)
def test_real_files_have_265_writers_with_enough_images():
  task = built.task('emnist', _DATA_DIR)
  assert (task.num_clients, task.clients_per_round) == (265, 10)
  assert (sum(_sizes(task.train)), sum(_sizes(task.test))) == (39356, 4481)
