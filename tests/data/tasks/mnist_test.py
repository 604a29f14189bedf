"""Tests of the tasks `mnist` and `fashion_mnist` on small generated files.

The last tests read the real files if TFF_PERS_DATA_DIR names their folder.
"""

import gzip
import os

import numpy as np
import pytest

from tests import built
from tff_pers.config import settings
from tff_pers.data import errors
from tff_pers.data import sources

_build = built.task


def _idx(array, code=8):
  sizes = np.array(array.shape, '>u4').tobytes()
  return bytes([0, 0, code, array.ndim]) + sizes + array.tobytes()


def _examples(num_examples, seed):
  rng = np.random.default_rng(seed)
  x = rng.integers(0, 256, [num_examples, 28, 28]).astype(np.uint8)
  x[0, 0, 0] = 255
  return x, np.arange(num_examples, dtype=np.uint8) % 10


_WRITERS = np.repeat([3, 5, 8, 9], [70, 60, 40, 30])


def _write(folder, *, compressed=False, leave_out=()):
  """Writes 200 training and 50 test images, and the writers."""
  folder.mkdir(exist_ok=True)
  files = {}
  for part, num_examples in (('train', 200), ('t10k', 50)):
    x, y = _examples(num_examples, seed=num_examples)
    files[f'{part}-images-idx3-ubyte'] = _idx(x)
    files[f'{part}-labels-idx1-ubyte'] = _idx(y)
  columns = np.zeros([200, 8], '>i4')
  columns[:, 0] = _examples(200, seed=200)[1]
  columns[:, 2] = _WRITERS
  files['qmnist-train-labels-idx2-int'] = _idx(columns, 12)
  for name, content in files.items():
    if name in leave_out:
      continue
    if compressed:
      (folder / (name + '.gz')).write_bytes(gzip.compress(content))
    else:
      (folder / name).write_bytes(content)
  return folder


@pytest.mark.parametrize('compressed', [False, True])
@pytest.mark.parametrize('from_parent', [False, True])
@pytest.mark.parametrize('name', ['mnist', 'fashion_mnist'])
def test_reads_idx_files_of_the_folder_or_its_parent(
    tmp_path, name, from_parent, compressed
):
  folder = _write(tmp_path / name, compressed=compressed)
  task = _build(
      name, tmp_path if from_parent else folder, num_clients=5, partition='iid'
  )
  x = task.train[0]['examples']['x']
  assert x.shape == (32, 28, 28, 1) and x.dtype == np.float32  # 0.8 of 40.
  assert 0 <= x.min() and x.max() <= 1
  images, labels = _examples(50, seed=50)
  common = task.global_test
  assert common['index'] == -1 and common['num_examples'] == 50
  np.testing.assert_array_equal(common['examples']['y'], labels)
  np.testing.assert_allclose(
      common['examples']['x'][..., 0] * 255, images, atol=1e-4
  )


def test_fashion_mnist_takes_the_subset_archive(tmp_path):
  folder = _write(tmp_path, leave_out=['train-images-idx3-ubyte'])
  x, y = _examples(120, seed=1)
  np.savez(folder / 'train_first18000.npz', x=x, y=y)
  task = _build('fashion_mnist', folder, num_clients=10, partition='iid')
  sizes = [int(d['num_examples']) for d in [*task.train, *task.test]]
  assert sum(sizes) == 120


def test_mnist_by_client_is_by_writer(tmp_path):
  task = _build('mnist', _write(tmp_path), partition='by_client', num_clients=4)
  sizes = [
      int(a['num_examples'] + b['num_examples'])
      for a, b in zip(task.train, task.test)
  ]
  assert sizes == [70, 60, 40, 30]


def test_default_partition_is_two_classes_each(tmp_path):
  task = _build('mnist', _write(tmp_path), num_clients=10)
  assert (np.count_nonzero(task.class_counts, axis=1) == 2).all()


@pytest.mark.parametrize(
    'partition', ['rotated_clusters', 'label_shift_clusters']
)
def test_clusters_share_out_both_official_sets(tmp_path, partition):
  """papers/floral.md 5.2: everything to exactly one client, transformed."""
  task = _build('mnist', _write(tmp_path), num_clients=8, partition=partition)
  assert task.global_test is None
  np.testing.assert_array_equal(task.groups, np.arange(8) % 4)
  for data, (x, y) in (
      (task.train, _examples(200, seed=200)),
      (task.test, _examples(50, seed=50)),
  ):
    sizes = {int(d['num_examples']) for d in data}
    assert sizes <= {len(x) // 8, len(x) // 8 + 1}
    back, labels = [], []
    for client, group in zip(data, task.groups):
      images = np.round(client['examples']['x'][..., 0] * 255).astype(np.uint8)
      turned = partition == 'rotated_clusters'
      back.extend(np.rot90(images, -group if turned else 0, axes=(1, 2)))
      shift = 0 if turned else group
      labels.extend((client['examples']['y'] - shift) % 10)
    found = sorted((image.tobytes(), y) for image, y in zip(back, labels))
    assert found == sorted((image.tobytes(), y) for image, y in zip(x, y))


def test_fraction_cuts_the_training_set_of_clusters_alone(tmp_path):
  """Floral trap 12, "reduced": at least 10 stay, test sets are whole."""
  build = lambda fraction: _build(
      'mnist', _write(tmp_path), num_clients=4, partition='rotated_clusters',
      train_fraction=fraction,
  )
  sizes = lambda data: [int(d['num_examples']) for d in data]
  full, half, reduced = build(0.0), build(0.5), build(0.05)
  assert sizes(full.train) == [50] * 4
  assert sizes(half.train) == [25] * 4
  assert sizes(reduced.train) == [10] * 4
  for task in (half, reduced):
    for a, b in zip(task.test, full.test):
      np.testing.assert_array_equal(a['examples']['x'], b['examples']['x'])
    for a, b in zip(task.train, full.train):
      rows = {row.tobytes() for row in b['examples']['x']}
      assert {row.tobytes() for row in a['examples']['x']} <= rows
  assert (full.rounds, reduced.rounds) == (500, 1500)
  router = lambda task: settings.of(
      'mnist', 'floral', ['router_learning_rate'], task.regimes
  )
  assert router(full) == dict(router_learning_rate=0.1)
  assert router(reduced) == dict(router_learning_rate=0.3)


def test_defaults_of_clusters_are_those_of_floral(tmp_path, monkeypatch):
  """papers/floral.md 5.2, MNIST-R: 300 clients, 30 per round, 784-200-10."""
  def from_tfds(name, split):
    del name  # Any.
    return _examples({'train': 600, 'test': 300}[split], seed=0)
  monkeypatch.setattr(sources, 'from_tfds', from_tfds)
  task = _build('mnist', '', partition='rotated_clusters')
  assert (task.num_clients, task.clients_per_round) == (300, 30)
  assert task.model.num_parameters == 785 * 200 + 201 * 10
  names = ['batch_size', 'learning_rate', 'local_epochs']
  assert settings.of('mnist', 'fedavg', names, task.regimes) == dict(
      batch_size=32, learning_rate=0.1, local_epochs=1
  )
  with pytest.raises(errors.DataError, match='test example for every client'):
    _build('mnist', _write(tmp_path), partition='rotated_clusters',
           num_clients=60)


def test_without_data_dir_tfds_is_asked(monkeypatch):
  def from_tfds(name, split):
    assert name == 'fashion_mnist'
    x, y = _examples({'train': 100, 'test': 20}[split], seed=0)
    return x[..., None], y.astype(np.int64)
  monkeypatch.setattr(sources, 'from_tfds', from_tfds)
  task = _build('fashion_mnist', '', num_clients=5, partition='iid')
  assert task.train[0]['examples']['x'].shape == (16, 28, 28, 1)
  assert task.global_test['num_examples'] == 20


@pytest.mark.parametrize(
    'name,partition',
    [
        ('train-images-idx3-ubyte', 'iid'),
        ('t10k-labels-idx1-ubyte', 'iid'),
        ('qmnist-train-labels-idx2-int', 'by_client'),
    ],
)
def test_raises_on_missing_file_and_names_it(tmp_path, name, partition):
  folder = _write(tmp_path, leave_out=[name])
  with pytest.raises(errors.DataError, match=f'must hold {name} or {name}.gz'):
    _build('mnist', folder, partition=partition, num_clients=4)


@pytest.mark.parametrize(
    'name,content,message',
    [
        (
            'train-images-idx3-ubyte', _idx(np.zeros([200, 8, 8], np.uint8)),
            r'uint8 of 28 x 28, found uint8 of shape \[200, 8, 8\]',
        ),
        (
            'train-labels-idx1-ubyte', _idx(np.zeros([9], np.uint8)),
            'one label per image, found 200 images and 9 labels',
        ),
        (
            'train-labels-idx1-ubyte', _idx(np.full([200], 10, np.uint8)),
            r'labels must be in 0\.\.9, found 10 in row 0',
        ),
        (
            'train-images-idx3-ubyte', _idx(_examples(200, 0)[0])[:-5],
            'must hold 156816 bytes',
        ),
        (
            'qmnist-train-labels-idx2-int', _idx(np.zeros([9, 8], '>i4'), 12),
            'must hold 200 rows of 8 columns',
        ),
        (
            'qmnist-train-labels-idx2-int', _idx(np.zeros([200, 8], '>i4'), 12),
            'same labels as the training set',
        ),
    ],
    ids=['size', 'lengths', 'range', 'cut', 'writer_rows', 'writer_labels'],
)
def test_raises_on_files_that_do_not_fit(tmp_path, name, content, message):
  folder = _write(tmp_path)
  (folder / name).write_bytes(content)
  with pytest.raises(errors.DataError, match=message) as info:
    _build('mnist', folder, partition='by_client', num_clients=4)
  assert str(folder) in str(info.value)


def test_raises_without_a_folder_or_writers(tmp_path):
  with pytest.raises(errors.DataError, match='`data_dir` must be a folder'):
    _build('mnist', tmp_path / 'nowhere')
  with pytest.raises(errors.DataError, match='must not be by_client'):
    _build('fashion_mnist', _write(tmp_path), partition='by_client')


_DATA_DIR = os.environ.get('TFF_PERS_DATA_DIR', '')
_real = pytest.mark.skipif(
    not _DATA_DIR, reason='TFF_PERS_DATA_DIR does not name a folder of data'
)


@_real
def test_real_mnist_has_its_published_counts():
  """Class counts of the official training set, and 539 writers of 19 to 131."""
  task = _build('mnist', _DATA_DIR, partition='iid')
  labels = np.concatenate(
      [d['examples']['y'] for d in [*task.train, *task.test]]
  )
  np.testing.assert_array_equal(
      np.bincount(labels),
      [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
  )
  assert task.global_test['num_examples'] == 10000
  task = _build('mnist', _DATA_DIR, partition='by_client', num_clients=539)
  sizes = [
      int(a['num_examples'] + b['num_examples'])
      for a, b in zip(task.train, task.test)
  ]
  assert (min(sizes), max(sizes), np.median(sizes)) == (19, 131, 116)


@_real
def test_real_mnist_clusters_have_200_and_33_examples():
  """papers/floral.md 5.2: MNIST-LS, 300 clients; reduced: 10."""
  task = _build('mnist', _DATA_DIR, partition='label_shift_clusters')
  assert {int(d['num_examples']) for d in task.train} == {200}
  assert {int(d['num_examples']) for d in task.test} == {33, 34}
  task = _build(
      'mnist', _DATA_DIR, partition='label_shift_clusters', train_fraction=0.05
  )
  assert {int(d['num_examples']) for d in task.train} == {10}
  assert sum(int(d['num_examples']) for d in task.test) == 10000


@_real
def test_real_fashion_mnist_has_its_published_counts():
  """Class counts of the first 18,000 training images."""
  task = _build('fashion_mnist', _DATA_DIR, partition='iid')
  labels = np.concatenate(
      [d['examples']['y'] for d in [*task.train, *task.test]]
  )
  np.testing.assert_array_equal(
      np.bincount(labels),
      [1744, 1821, 1794, 1812, 1766, 1807, 1845, 1816, 1769, 1826],
  )
