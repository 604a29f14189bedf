"""Tests of reading CIFAR files, on small generated ones."""

import pickle

import numpy as np
import pytest

from tests.data import cifar_files
from tff_pers.data import cifar
from tff_pers.data import errors

_FOLDERS = {
    ('cifar10', 'python'): 'cifar-10-batches-py',
    ('cifar100', 'python'): 'cifar-100-python',
}


@pytest.mark.parametrize('where', ['inside', 'unpacked', 'parent'])
@pytest.mark.parametrize('version', ['python', 'subset'])
@pytest.mark.parametrize('name', ['cifar10', 'cifar100'])
def test_every_version_gives_the_same_arrays(tmp_path, name, version, where):
  inner = _FOLDERS.get((name, version), '')
  folder = {
      'inside': tmp_path, 'unpacked': tmp_path / inner, 'parent': tmp_path / name
  }[where]
  expected = cifar_files.write(folder, name, version)
  found = cifar.read(name, str(tmp_path))
  for (x, y), (x_expected, y_expected) in zip(found, expected):
    assert x.dtype == np.uint8 and x.shape[1:] == (32, 32, 3)
    np.testing.assert_array_equal(x, x_expected)
    np.testing.assert_array_equal(y, y_expected)


def test_a_pickle_cannot_run_code(tmp_path):
  class Attack:

    def __reduce__(self):
      return print, ('run',)

  folder = tmp_path / 'cifar-100-python'
  cifar_files.write(folder, 'cifar100', 'python')
  (folder / 'train').write_bytes(pickle.dumps({b'data': Attack()}))
  with pytest.raises(errors.DataError, match='builtins.print is not allowed'):
    cifar.read('cifar100', str(tmp_path))


def _cut(path):
  path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    'version,break_,message',
    [
        ('python', lambda f: _cut(f / 'test_batch'), 'must be a pickle'),
        (
            'python', lambda f: (f / 'data_batch_3').unlink(),
            'must hold .*data_batch_3, found no file',
        ),
        (
            'python', lambda f: (f / 'test_batch').write_bytes(
                pickle.dumps({b'data': np.zeros([2, 5]), b'labels': [0, 1]})
            ), r'3072 values, one per label, found float64 of shape \[2, 5\]',
        ),
        ('python', lambda f: (f / 'test_batch').unlink(), 'found none in'),
        (
            'subset', lambda f: np.savez(
                f / 'cifar10_subset.npz', train_d=np.zeros([2, 3, 32, 32]),
                train_y=np.zeros(2), test_d=np.zeros(1), test_y=np.zeros(1),
            ), r'must hold uint8 images \[n, 3, 32, 32\], .* found float64',
        ),
    ],
)
def test_raises_on_bad_files(tmp_path, version, break_, message):
  cifar_files.write(tmp_path, 'cifar10', version)
  break_(tmp_path)
  with pytest.raises(errors.DataError, match=message) as info:
    cifar.read('cifar10', str(tmp_path))
  assert str(tmp_path) in str(info.value)
