"""Tests of the idx reader."""

import gzip

import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import idx


def content(array, code):
  """Returns the bytes of an idx file."""
  sizes = np.array(array.shape, '>u4').tobytes()
  return bytes([0, 0, code, array.ndim]) + sizes + array.tobytes()


@pytest.mark.parametrize('code,dtype', [(8, 'u1'), (12, '>i4')])
@pytest.mark.parametrize('compressed', [False, True])
def test_reads_what_was_written(tmp_path, code, dtype, compressed):
  array = np.arange(24).reshape(2, 3, 4).astype(dtype)
  path = str(tmp_path / ('a.gz' if compressed else 'a'))
  with (gzip.open if compressed else open)(path, 'wb') as file:
    file.write(content(array, code))
  read = idx.read(path)
  np.testing.assert_array_equal(read, array)
  assert read.dtype.isnative


def test_finds_plain_before_gzipped(tmp_path):
  assert idx.find(str(tmp_path), 'a') == ''
  (tmp_path / 'a.gz').write_bytes(b'')
  assert idx.find(str(tmp_path), 'a') == str(tmp_path / 'a.gz')
  (tmp_path / 'a').write_bytes(b'')
  assert idx.find(str(tmp_path), 'a') == str(tmp_path / 'a')


_GOOD = content(np.arange(6, dtype='u1').reshape(2, 3), 8)


@pytest.mark.parametrize(
    'name,bad,message',
    [
        ('a', b'', 'must be an idx file'),
        ('a', b'\x89PNG' + _GOOD, 'must be an idx file'),
        ('a', b'\0\0\x07\1' + _GOOD[4:], 'must be an idx file'),
        ('a', _GOOD[:7], 'must hold 12 bytes of header, found 7'),
        ('a', _GOOD[:-1], r'18 bytes for the shape \[2, 3\].*found 17'),
        ('a', _GOOD + b'x', 'must hold 18 bytes .* found 19'),
        ('a.gz', _GOOD, 'must be a complete idx file'),
        ('a.gz', gzip.compress(_GOOD, mtime=0)[:-9], 'must be a complete idx file'),
        (
            'a.gz', gzip.compress(_GOOD, mtime=0)[:12] + b'\xff' * 20,
            'must be a complete idx file',
        ),
    ],
)
def test_raises_on_damaged_file_and_names_it(tmp_path, name, bad, message):
  path = tmp_path / name
  path.write_bytes(bad)
  with pytest.raises(errors.DataError, match=message) as info:
    idx.read(str(path))
  assert str(path) in str(info.value)
  assert '\n' not in str(info.value)
