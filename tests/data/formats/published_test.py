"""Tests of `published` and `clients`: finding files, and clients in them."""

import lzma

import numpy as np
import pytest

from tests.data.formats import files
from tff_pers.data import errors
from tff_pers.data.formats import clients
from tff_pers.data.formats import download
from tff_pers.data.formats import emnist
from tff_pers.data.formats import published

_SET = emnist.data_set(digits_only=False)
TRAIN = files.emnist({'a': 3, 'b': 5, 'c': 4, 'd': 6})
TEST = files.emnist({'a': 2, 'b': 1, 'd': 3}, seed=1)  # c has none.


def sqlite(folder):
  files.sqlite(
      folder / 'emnist_all.sqlite', {'all_train': TRAIN, 'all_test': TEST}
  )


def packed(folder):
  sqlite(folder)
  path = folder / 'emnist_all.sqlite'
  (folder / 'emnist_all.sqlite.lzma').write_bytes(
      lzma.compress(path.read_bytes())
  )
  path.unlink()


def hdf5(folder):
  files.hdf5(folder / 'fed_emnist_train.h5', TRAIN)
  files.hdf5(folder / 'fed_emnist_test.h5', TEST)


def leaf(folder):
  for name, part in (('train', TRAIN), ('test', TEST)):
    files.leaf(folder / name, {
        user: dict(x=own['pixels'].reshape(-1, 784), y=own['label'])
        for user, own in part.items()
    })


def leaf_data(folder):
  leaf(folder / 'data')


FORMATS = dict(
    sqlite=sqlite, packed=packed, hdf5=hdf5, leaf=leaf, leaf_data=leaf_data
)


@pytest.mark.parametrize('name', FORMATS)
def test_all_forms_of_a_data_set_hold_the_same(tmp_path, name):
  FORMATS[name](tmp_path)
  parts = published.find(_SET, str(tmp_path))
  assert parts['train'].clients == ['a', 'b', 'c', 'd']
  assert parts['test'].clients == ['a', 'b', 'd']
  own = parts['test'].read(2)
  np.testing.assert_array_equal(own['pixels'], TEST['d']['pixels'])
  np.testing.assert_array_equal(own['label'], TEST['d']['label'])


def test_a_folder_without_files_holds_nothing(tmp_path):
  assert published.find(_SET, str(tmp_path)) is None
  files.hdf5(tmp_path / 'fed_emnist_test.h5', TEST)
  with pytest.raises(errors.DataError, match='found only fed_emnist_test.h5'):
    published.find(_SET, str(tmp_path))
  assert 'emnist_all.sqlite' in published.describe(_SET)


def test_without_a_folder_the_cache_is_used_or_a_sentence_said(
    tmp_path, monkeypatch
):
  monkeypatch.setattr(download, 'cache_folder', lambda: str(tmp_path))
  monkeypatch.setattr(published, '_ORIGIN', 'http://127.0.0.1:9')
  with pytest.raises(errors.DataError, match='Task emnist needs --data_dir'):
    published.fetch(_SET)
  sqlite(tmp_path)
  assert published.fetch(_SET)['train'].clients == ['a', 'b', 'c', 'd']


def test_clients_with_enough_in_both_parts_are_kept(tmp_path):
  sqlite(tmp_path)
  parts = published.find(_SET, str(tmp_path))
  assert clients.with_enough(parts, dict(train=1, test=1), '') == ['a', 'b', 'd']
  assert clients.with_enough(parts, dict(train=4, test=1), '') == ['b', 'd']
  assert clients.with_enough(parts, dict(train=1, test=2), '') == ['a', 'd']
  with pytest.raises(errors.DataError, match='7 train .*none among 4. Tip: wait'):
    clients.with_enough(parts, dict(train=7, test=1), 'wait')


def test_clients_are_matched_by_name(tmp_path):
  """Their positions differ in the two parts."""
  sqlite(tmp_path)
  parts = published.find(_SET, str(tmp_path))
  names = ['d', 'b']
  train, test = clients.on_request(
      parts, names, lambda own, where: (own['pixels'], own['label'])
  )
  assert train.sizes.tolist() == [6, 5]
  assert test.sizes.tolist() == [3, 1]
  for place, name in enumerate(names):
    for part, written in ((train, TRAIN), (test, TEST)):
      np.testing.assert_array_equal(
          part[place]['examples']['x'], written[name]['pixels']
      )


def test_samples_are_those_of_the_partition():
  names = [f'w{i:02}' for i in range(20)]
  assert clients.sample(names, 0, seed=3) == names
  some = clients.sample(names, 5, seed=3)
  assert len(set(some)) == 5 and some == sorted(some)
  assert some == clients.sample(names, 5, seed=3)
  assert some != clients.sample(names, 5, seed=4)
  with pytest.raises(errors.DataError, match='20 clients.*found 21'):
    clients.sample(names, 21, seed=3)


def test_ink_is_one_and_labels_are_checked():
  x, y = emnist.ink(dict(
      pixels=np.array([np.ones([28, 28]), np.zeros([28, 28])], np.float32),
      label=np.array([3, 61]),
  ), 'F', 62)
  assert x.shape == (2, 28, 28, 1) and (x[0] == 0).all() and (x[1] == 1).all()
  assert y.tolist() == [3, 61]
  with pytest.raises(errors.DataError, match='F, label.*0..9, found 61'):
    emnist.ink(
        dict(pixels=np.ones([1, 28, 28]), label=np.array([61])), 'F', 10
    )
