"""Tests of the readers of files by TFF and LEAF: `hdf5`, `sqlite`, `leaf`."""

import contextlib
import gc
import json
import os
import sqlite3

import h5py
import numpy as np
import pytest

from tests.data.formats import files
from tff_pers.data import errors
from tff_pers.data.formats import hdf5
from tff_pers.data.formats import leaf
from tff_pers.data.formats import records
from tff_pers.data.formats import sqlite

_FIELDS = {
    'x': records.Field(np.float32, (2, 3)), 'y': records.Field(np.int64),
    'words': records.Field(bytes),
}
_NUMBERS = {name: _FIELDS[name] for name in ('x', 'y')}


def _client(size: int, first: int):
  return dict(
      x=np.arange(6 * size, dtype=np.float32).reshape(size, 2, 3) + first,
      y=np.arange(size) + first,
      words=[f'é {first + row}'.encode() for row in range(size)],
  )


# Not in the order of names; one has one record, and one has none.
PART = {'zoe': _client(3, 10), 'al': _client(1, 50), 'bo': _client(0, 0)}
OTHER = {'al': _client(2, 70)}


def _read_hdf5(path, part=None, fields=None):
  part = PART if part is None else part
  return hdf5.read(str(files.hdf5(path / 'a.h5', part)), fields or _FIELDS)


def _read_sqlite(path, part=None, fields=None, **options):
  splits = {'test': OTHER, 'train': PART if part is None else part}
  files.sqlite(path / 'a.sqlite', splits, **options)
  return sqlite.read(str(path / 'a.sqlite'), 'train', fields or _FIELDS)


READERS = {
    'hdf5': _read_hdf5,
    'sqlite': _read_sqlite,
    'sqlite_without_index': lambda path, *rest: _read_sqlite(
        path, *rest, index=False
    ),
    'sqlite_mixed_rows': lambda path, *rest: _read_sqlite(
        path, *rest, index=False, shuffled=True
    ),
}


@pytest.mark.parametrize('kind', READERS)
def test_records_are_those_that_were_written(tmp_path, kind):
  found = READERS[kind](tmp_path)
  assert found.clients == ['al', 'bo', 'zoe']
  assert found.sizes.tolist() == [1, 0, 3]
  for position, client in enumerate(found.clients):
    own = found.read(position)
    np.testing.assert_array_equal(own['x'], PART[client]['x'])
    np.testing.assert_array_equal(own['y'], PART[client]['y'])
    assert own['x'].dtype == np.float32 and own['y'].dtype == np.int64
    assert own['x'].shape == (len(own['y']), 2, 3)
    assert list(own['words']) == PART[client]['words']
    assert records.text(own['words'], 'here') == [
        words.decode() for words in PART[client]['words']
    ]


def _is_open(path) -> bool:
  open_files = []
  for descriptor in os.listdir('/proc/self/fd'):
    with contextlib.suppress(OSError):  # It may be closed meanwhile.
      open_files.append(os.readlink(f'/proc/self/fd/{descriptor}'))
  return str(path) in open_files


@pytest.mark.parametrize('kind', ['hdf5', 'sqlite'])
def test_a_file_is_open_as_long_as_its_records_are_there(tmp_path, kind):
  found = READERS[kind](tmp_path)
  path, = tmp_path.iterdir()
  assert _is_open(path)
  del found
  gc.collect()
  assert not _is_open(path)


def test_a_file_of_another_form_is_closed(tmp_path):
  with h5py.File(tmp_path / 'a', 'w') as file:
    file.create_group('samples')
  with pytest.raises(errors.DataError, match='could not be read') as info:
    hdf5.read(str(tmp_path / 'a'), _FIELDS)
  assert info.value.__cause__ is not None  # It holds on to what was there.
  assert not _is_open(tmp_path / 'a')


@pytest.mark.parametrize('kind', READERS)
def test_a_client_with_records_of_another_form_is_named(tmp_path, kind):
  zoe = PART['zoe']
  for field, spoiled in (
      ('y', {n: zoe[n] for n in ('x', 'words')}),
      ('x', dict(zoe, x=np.zeros([3, 7], np.float32))),
  ):
    found = READERS[kind](tmp_path / field, {**PART, 'zoe': spoiled})
    assert len(found.read(0)['y']) == 1  # Others can be read.
    with pytest.raises(errors.DataError, match=f'client zoe.* {field}'):
      found.read(2)


def test_text_that_is_not_utf8_is_named(tmp_path):
  part = {**PART, 'al': dict(PART['al'], words=[b'caf\xe9'])}
  found = _read_sqlite(tmp_path, part)
  with pytest.raises(errors.DataError, match='F, client al.*UTF-8.*record 0'):
    records.text(found.read(0)['words'], 'F, client al')


@pytest.mark.parametrize('read', [_read_hdf5, _read_sqlite])
def test_files_that_are_cut_short_are_named(tmp_path, read):
  read(tmp_path)
  path, = tmp_path.iterdir()
  whole = path.read_bytes()
  for length in (0, 40, len(whole) // 2):
    path.write_bytes(whole[:length])
    with pytest.raises(errors.DataError, match='must be an .*could not be read'):
      if read is _read_hdf5:
        hdf5.read(str(path), _FIELDS).read(0)
      else:
        found = sqlite.read(str(path), 'train', _FIELDS)
        for position in range(3):
          found.read(position)


def test_a_file_of_another_kind_is_named(tmp_path):
  (tmp_path / 'a').write_text('hello')
  for read in (hdf5.read, lambda path, f: sqlite.read(path, 'train', f)):
    with pytest.raises(errors.DataError, match=f'{tmp_path}/a must be an'):
      read(str(tmp_path / 'a'), _FIELDS)
  with sqlite3.connect(tmp_path / 'b') as database:
    database.execute('CREATE TABLE examples (client_id TEXT)')
  with pytest.raises(errors.DataError, match='client_metadata'):
    sqlite.read(str(tmp_path / 'b'), 'train', _FIELDS)


def test_reading_makes_no_database(tmp_path):
  with pytest.raises(errors.DataError):
    sqlite.read(str(tmp_path / 'nowhere'), 'train', _FIELDS)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    'columns,expected',
    [
        (None, False), ('client_id', True), ('client_id, split_name', True),
        ('split_name, client_id', True), ('split_name', False),
    ],
)
def test_clients_are_found_by_an_index(tmp_path, columns, expected):
  """Where there is one; else by a pass over the file before the first."""
  files.sqlite(tmp_path / 'a', {'train': PART}, index=False)
  if columns:
    with sqlite3.connect(tmp_path / 'a') as database:
      database.execute(f'CREATE INDEX i ON examples ({columns})')
  # pylint: disable-next=protected-access
  assert sqlite._has_index(sqlite._Database(str(tmp_path / 'a'))) == expected


def test_a_split_that_is_not_there_is_named_with_those_that_are(tmp_path):
  files.sqlite(tmp_path / 'a', {'all_train': PART})
  with pytest.raises(errors.DataError, match='split train, found all_train'):
    sqlite.read(str(tmp_path / 'a'), 'train', _FIELDS)


def _leaf_part(sizes):
  return {
      user: {n: v for n, v in _client(size, 0).items() if n != 'words'}
      for user, size in sizes.items()
  }


def test_files_of_leaf_are_read_together(tmp_path):
  files.leaf(tmp_path, _leaf_part({'b': 2}), 'one')
  files.leaf(tmp_path, _leaf_part({'a': 1, 'c': 0}), 'two')
  found = leaf.read(str(tmp_path), _NUMBERS)
  assert found.clients == ['a', 'b', 'c'] and found.sizes.tolist() == [1, 2, 0]
  np.testing.assert_array_equal(found.read(1)['x'], _client(2, 0)['x'])
  assert found.read(2)['x'].shape == (0, 2, 3)
  # LEAF writes images as flat lists, under names of its own.
  renamed = leaf.read(
      str(tmp_path), {'image': records.Field(np.float32, (6,))}, {'image': 'x'}
  )
  assert renamed.read(1)['image'].shape == (2, 6)


BAD_LEAF = {
    'no_json': (lambda c: 'hello', 'must be a JSON file of LEAF'),
    'cut': (lambda c: json.dumps(c)[:-20], 'must be a JSON file of LEAF'),
    'a_list': (lambda c: '[1]', 'must have "users"'),
    'no_users': (lambda c: json.dumps({'user_data': {}}), 'must have "users"'),
    'missing_user': (
        lambda c: json.dumps(dict(c, users=['a', 'x'], num_samples=[1, 1])),
        'user x must have "x" and "y".*no entry',
    ),
    'lengths': (
        lambda c: json.dumps(dict(c, num_samples=[3, 1])),
        'user a must have 3 examples, found 1',
    ),
}


@pytest.mark.parametrize('case', BAD_LEAF)
def test_bad_files_of_leaf_are_named(tmp_path, case):
  files.leaf(tmp_path, _leaf_part({'a': 1, 'b': 1}))
  path = tmp_path / 'all_data_0.json'
  spoil, message = BAD_LEAF[case]
  path.write_text(spoil(json.loads(path.read_text())))
  with pytest.raises(errors.DataError, match=message) as info:
    leaf.read(str(tmp_path), _NUMBERS)
  assert str(path) in str(info.value)


def test_a_user_in_two_files_of_leaf_is_named(tmp_path):
  for name in ('one', 'two'):
    files.leaf(tmp_path, _leaf_part({'a': 1}), name)
  with pytest.raises(errors.DataError, match='found a in'):
    leaf.read(str(tmp_path), _NUMBERS)
  with pytest.raises(errors.DataError, match='must hold .json files'):
    leaf.read(str(tmp_path / 'nowhere'), _NUMBERS)


def test_a_file_without_clients_is_named(tmp_path):
  with pytest.raises(errors.DataError, match='must hold a client, found none'):
    _read_hdf5(tmp_path, {})
