"""What tasks declare without data is what they are with data."""

import dataclasses

import numpy as np
import pytest

from tests import built
from tests.data import silo_files
from tff_pers.data import emnist
from tff_pers.data import errors
from tff_pers.data import partition as partition_lib
from tff_pers.data import sources
from tff_pers.data import tasks
from tff_pers.data import text_files
from tff_pers.data.formats import texts as text_formats

# Images of the real sets' shapes; enough for every client of the defaults.
_SHAPES = {
    'cifar10': (32, 32, 3), 'cifar100': (32, 32, 3),
    'fashion_mnist': (28, 28), 'mnist': (28, 28),
}
_OWN_DATA = {
    'labels': np.arange(60) % 3, 'numbers': np.linspace(0.0, 1.0, 60)
}


@pytest.fixture(name='silos', scope='module')
def fixture_silos(tmp_path_factory):
  folder = tmp_path_factory.mktemp('silos')
  silo_files.heart(folder, counts=(20,) * 4)
  return silo_files.school(folder, counts=(22,) * 51)


@pytest.fixture(autouse=True)
def _no_files(monkeypatch, silos):
  def from_tfds(name, split):
    del split  # The same for both.
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, [1000, *_SHAPES[name]]).astype(np.uint8)
    return x, np.arange(1000) % (100 if name == 'cifar100' else 10)
  def read_emnist(data_dir, writers):
    del data_dir, writers  # The same for all.
    size = 11 * 110
    return emnist.Writers(
        'files', np.zeros([size, 28, 28], np.uint8), np.arange(size) % 62,
        np.repeat([f'w{i:02}' for i in range(11)], 110),
        (np.arange(size) % 11 == 0).astype(np.int8),
    )
  def read_texts(*arguments):
    del arguments  # The same for all.
    own = [text_files.Text('To be?', ('life',))] * 10
    return text_files.Corpus('file', {f'c{i:02}': own for i in range(51)})
  paths = sources.paths
  monkeypatch.setattr(
      sources, 'paths', lambda task, data_dir, names: paths(task, silos, names)
  )
  monkeypatch.setattr(sources, 'from_tfds', from_tfds)
  monkeypatch.setattr(emnist, 'read', read_emnist)
  monkeypatch.setattr(text_formats, 'plays', read_texts)
  monkeypatch.setattr(text_formats, 'posts', read_texts)


_build = built.task
_OWN = ('csv', 'images', 'leaf', 'npz', 'parquet', 'tfrecord')
_BUILT_IN = [name for name in tasks.names() if name not in _OWN]


@pytest.mark.parametrize('name', _BUILT_IN)
def test_defaults_are_as_declared(name):
  declares, task = tasks.get(name).declares, _build(name)
  assert task.traits == declares.traits
  # Of writers and of texts the data say how many.
  num_clients = declares.num_clients or dict(emnist=11).get(name, 51)
  assert task.num_clients == num_clients
  assert task.clients_per_round == declares.clients_per_round
  assert task.partition == declares.partition


@pytest.mark.parametrize('name', _BUILT_IN)
def test_partitions_are_as_declared(name):
  """Those that are declared deal out clients, and the others are refused."""
  declares = tasks.get(name).declares
  # One class needs a client.
  num_clients = {'cifar100': 100, 'emnist': 62}.get(name, 20)
  for partition in partition_lib.names():
    if partition in declares.partitions and partition != 'by_client':
      task = _build(name, partition=partition, num_clients=num_clients)
      assert task.has_groups == partition_lib.knows_groups(partition)
      assert task.has_groups == _declared_groups(name, partition)
    elif partition not in declares.partitions:
      with pytest.raises((ValueError, errors.DataError), match='`partition`'):
        _build(name, partition=partition)


def _declared_groups(name, partition):
  """Returns what the traits with that partition say."""
  declares = tasks.get(name).declares
  position = declares.partitions.index(partition)
  return list(declares.alternatives())[position].groups


@pytest.mark.parametrize('order, knows', [('sorted', True), ('random', False)])
def test_options_of_a_partition_may_decide_what_is_known(order, knows):
  text = f'shards[classes=2,order={order}]'
  assert partition_lib.knows_groups(text) == knows
  assert _build('digits', partition=text).has_groups == knows


@pytest.mark.parametrize('kind', sorted(_OWN_DATA))
def test_own_data_decide_what_is_declared_open(kind, tmp_path):
  path = tmp_path / 'mine.npz'
  np.savez(
      path, x=np.ones([60, 2], np.float32), y=_OWN_DATA[kind],
      client=np.arange(60) // 20,
  )
  declares = tasks.get('npz').declares
  task = _build('npz', data_dir=str(path))
  assert task.traits.classification == (kind == 'labels')
  assert declares.traits.classification is None
  assert declares.traits.model is None and declares.num_clients == 0
  assert task.partition == declares.partition
  assert task.traits.groups == declares.traits.groups
  assert task.full_participation and declares.traits.full_participation
  assert declares.standardize is False
  assert tasks.get('csv').declares == dataclasses.replace(
      declares, standardize=True
  )
