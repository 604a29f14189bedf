"""Tests of the tasks `cifar10` and `cifar100` on small generated files.

The last tests read the real files if TFF_PERS_DATA_DIR names their folder.
"""

import hashlib
import os

import numpy as np
import pytest

from tests import built
from tests.data import cifar_files
from tests.data.formats import files
from tff_pers.data import cifar
from tff_pers.data import errors
from tff_pers.data.formats import download
from tff_pers.data.formats import published

_build = built.task


def _sizes(data):
  return {int(d['num_examples']) for d in data}


def test_cifar10_is_normalized_and_shifted_by_k_mod_4(tmp_path):
  train, test = cifar_files.write(tmp_path, 'cifar10', 'python', 200, 100)
  task = _build('cifar10', tmp_path)
  assert task.num_clients == 20 and task.full_participation
  np.testing.assert_array_equal(task.groups, np.arange(20) % 4)
  assert _sizes(task.train) == {10} and _sizes(task.test) == {5}
  for data, (x, y) in ((task.train, train), (task.test, test)):
    known = {image.tobytes(): label for image, label in zip(x, y)}
    for client, group in zip(data, task.groups):
      images = client['examples']['x'] * [0.2023, 0.1994, 0.2010]
      images = (images + [0.4914, 0.4822, 0.4465]) * 255
      back = np.round(images).astype(np.uint8)
      np.testing.assert_allclose(images, back, atol=1e-3)
      labels = (client['examples']['y'] - group) % 10
      assert [known[image.tobytes()] for image in back] == labels.tolist()


def test_cifar100_is_ten_groups_of_ten_classes(tmp_path):
  cifar_files.write(tmp_path, 'cifar100', 'python', 3000, 600)
  task = _build('cifar100', tmp_path)
  assert (task.num_clients, task.clients_per_round) == (100, 50)
  assert task.num_classes == 100 and task.global_test is None
  np.testing.assert_array_equal(task.groups, np.arange(100) % 10)
  for part in (task.train, task.test):
    for client, group in zip(part, task.groups):
      assert set((client['examples']['y'] % 10).tolist()) == {int(group)}
  assert _build('cifar100', tmp_path, num_clients=30).full_participation


def _tff(sizes, seed):
  rng = np.random.default_rng(seed)
  return {
      client: dict(
          image=rng.integers(0, 256, [size, 32, 32, 3]),
          label=rng.integers(0, 100, size),
      )
      for client, size in sizes.items()
  }


def test_cifar100_by_client_has_the_clients_of_tff(tmp_path):
  """Images of those that only test are common to all."""
  train = _tff({'1': 10, '0': 20}, seed=0)
  test = _tff({'0': 5, '2': 6}, seed=1)
  files.sqlite(tmp_path / 'cifar100.sqlite', {'train': train, 'test': test})
  task = _build('cifar100', tmp_path, partition='by_client')
  assert task.client_names == ['0', '1'] and task.num_classes == 100
  assert [int(d['num_examples']) for d in task.train] == [16, 8]
  assert task.global_test['num_examples'] == 11
  assert task.full_participation
  written = {image.astype(np.uint8).tobytes() for image in train['1']['image']}
  for part in (task.train, task.test):
    images = part[1]['examples']['x'] * [0.2023, 0.1994, 0.2010]
    images = np.round((images + [0.4914, 0.4822, 0.4465]) * 255)
    assert {i.astype(np.uint8).tobytes() for i in images} <= written


def test_cifar100_of_tff_has_other_partitions_too(tmp_path):
  sizes = {str(client): 100 for client in range(4)}
  for part in ('train', 'test'):
    files.hdf5(
        tmp_path / f'fed_cifar100_{part}.h5', _tff(sizes, seed=0)
    )
  task = _build('cifar100', tmp_path, partition='iid', num_clients=5)
  assert task.num_clients == 5 and task.client_names is None


def test_clients_need_the_files_of_tff(tmp_path, monkeypatch):
  with pytest.raises(errors.DataError, match='`data_dir` must be a folder'):
    _build('cifar100', tmp_path)
  cifar_files.write(tmp_path, 'cifar100', 'python', 300, 200)
  with pytest.raises(errors.DataError, match='these data name no clients'):
    _build('cifar100', tmp_path, partition='by_client')
  monkeypatch.setattr(download, 'cache_folder', lambda: str(tmp_path / 'none'))
  monkeypatch.setattr(published, '_ORIGIN', 'http://127.0.0.1:9')
  with pytest.raises(errors.DataError, match='cifar100 needs --data_dir'):
    _build('cifar100', '', partition='by_client')


def test_pixels_of_tff_are_checked(tmp_path):
  train = _tff({'a': 10}, seed=0)
  train['a']['image'][3, 0, 0, 0] = 256
  files.sqlite(tmp_path / 'cifar100.sqlite', {'train': train, 'test': train})
  with pytest.raises(errors.DataError, match='client a: pixels .*0..256'):
    _build('cifar100', tmp_path, partition='by_client')


@pytest.mark.parametrize('augment', ['none', 'flip_crop', 'crop24'])
def test_models_see_what_the_flag_says(tmp_path, augment):
  cifar_files.write(tmp_path, 'cifar10', 'python', 200, 100)
  task = _build(
      'cifar10', tmp_path, dict(augment=augment), model='mlp_small'
  )
  pixels = 24 * 24 if augment == 'crop24' else 32 * 32
  assert task.model.layers[0].shape == (3 * pixels, 64)
  weights = task.model.initial_weights(0)
  x = task.train[0]['examples']['x']
  seen = [
      task.model.predict(weights, x, training, [0, seed]).numpy()
      for training, seed in ((False, 0), (False, 1), (True, 0), (True, 1))
  ]
  np.testing.assert_array_equal(seen[0], seen[1])
  assert (seen[2] != seen[3]).any() == (augment != 'none')


def test_reduced_cuts_training_data_alone(tmp_path):
  """Floral trap 12."""
  cifar_files.write(tmp_path, 'cifar10', 'subset', 1000, 100)
  task = _build('cifar10', tmp_path, num_clients=4, train_fraction=0.05)
  assert _sizes(task.train) == {12} and _sizes(task.test) == {25}
  assert task.rounds == 1500


def test_other_partitions_keep_the_common_test_set(tmp_path):
  _, test = cifar_files.write(tmp_path, 'cifar10', 'python')
  task = _build('cifar10', tmp_path, num_clients=5, partition='iid')
  assert _sizes(task.train) == {8} and _sizes(task.test) == {2}
  np.testing.assert_array_equal(task.global_test['examples']['y'], test[1])


_DATA_DIR = os.environ.get('TFF_PERS_DATA_DIR', '')
_real = pytest.mark.skipif(
    not _DATA_DIR, reason='TFF_PERS_DATA_DIR does not name a folder of data'
)


@_real
@pytest.mark.parametrize(
    'name,train,test',
    [
        (
            'cifar10',
            '2f36aac721d9bc8dfa4fe788f951685e47e5c0a3cbe784a9f55ec7e438b91b0a',
            'cd1aa23e75433be8f9309bc9042ba30783cebf9e5c6de93827b4f0c109bb8f08',
        ),
        (
            'cifar100',
            '751ae366f27008741ed1a419b084c4aa6a55039d3652c967f6bb18f13547839e',
            'b7011a09ee69324ef9afb550ba05e7d413e36b6a21d98c939f1c0cb051b59d65',
        ),
    ],
)
def test_real_subsets_decode_to_their_published_hashes(name, train, test):
  for (x, _), expected in zip(cifar.read(name, _DATA_DIR), (train, test)):
    assert hashlib.sha256(np.ascontiguousarray(x)).hexdigest() == expected


@_real
def test_real_subset_of_cifar10_has_equal_clients():
  """10,000 training images; reduced: 25 per client, test sets whole."""
  task = _build('cifar10', _DATA_DIR)
  assert _sizes(task.train) == {500} and _sizes(task.test) == {100}
  task = _build('cifar10', _DATA_DIR, train_fraction=0.05)
  assert _sizes(task.train) == {25} and _sizes(task.test) == {100}
