"""The folder of compiled computations: who may write there, what is believed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tff_pers.runtime.fused import disk

_ENTRY = disk.Entry({'arguments': [0, 2]}, b'first\nsecond\0')


def test_an_entry_is_read_by_another_process_under_its_key(tmp_path, warnings):
  path = str(tmp_path / 'caches' / 'tff_pers')
  disk.Folder(path).put('ab', _ENTRY)
  assert disk.Folder(path).get('ab') == _ENTRY
  assert disk.Folder(path).get('ac') is None
  assert os.stat(path).st_mode & 0o777 == 0o700
  assert not warnings


@pytest.mark.parametrize('change', [
    lambda content: content[:-1],
    lambda content: content.replace(b'second', b'sec0nd'),
    lambda content: content.replace(b'[0, 2]', b'[0, 1]'),
    lambda content: b'',
    lambda content: b'of another program',
])
def test_a_damaged_entry_is_made_again(tmp_path, change, warnings):
  folder = disk.Folder(str(tmp_path / 'kept'))
  folder.put('ab', _ENTRY)
  file = tmp_path / 'kept' / 'ab'
  file.write_bytes(change(file.read_bytes()))
  assert folder.get('ab') is None
  assert len(warnings) == 1 and str(file) in warnings[0]
  folder.put('ab', _ENTRY)
  assert folder.get('ab') == _ENTRY


def test_an_entry_does_not_serve_another_key(tmp_path, warnings):
  folder = disk.Folder(str(tmp_path / 'kept'))
  folder.put('ab', _ENTRY)
  os.rename(tmp_path / 'kept' / 'ab', tmp_path / 'kept' / 'ac')
  assert folder.get('ac') is None
  assert len(warnings) == 1


def _open_to_others(folder):
  os.chmod(folder, 0o750)


def _link(folder):
  os.rename(folder, folder + '_moved')
  os.symlink(folder + '_moved', folder)


def _file(folder):
  os.rename(folder, folder + '_moved')
  with open(folder, 'w', encoding='utf-8'):
    pass


@pytest.mark.parametrize('change', [_open_to_others, _link, _file])
def test_a_folder_that_others_may_use_is_ignored(tmp_path, change, warnings):
  path = str(tmp_path / 'kept')
  disk.Folder(path).put('ab', _ENTRY)
  change(path)
  folder = disk.Folder(path)
  assert folder.get('ab') is None
  folder.put('ac', _ENTRY)
  assert not os.path.isdir(path) or os.listdir(path) == ['ab']
  assert len(warnings) == 1 and path in warnings[0]


def test_what_belongs_to_somebody_else_is_ignored(
    tmp_path, monkeypatch, warnings
):
  path = str(tmp_path / 'kept')
  folder = disk.Folder(path)
  folder.put('ab', _ENTRY)
  os.chmod(tmp_path / 'kept' / 'ab', 0o620)
  assert folder.get('ab') is None
  user = os.geteuid() + 1
  monkeypatch.setattr(os, 'geteuid', lambda: user)
  os.chmod(tmp_path / 'kept' / 'ab', 0o600)
  assert folder.get('ab') is None
  assert disk.Folder(path).get('ab') is None
  assert len(warnings) == 3


def test_a_full_disk_costs_one_line(tmp_path, monkeypatch, warnings):
  folder = disk.Folder(str(tmp_path / 'kept'))

  def full(*_):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(os, 'replace', full)
  folder.put('ab', _ENTRY)
  folder.put('ac', _ENTRY)
  assert len(warnings) == 1 and 'No space left' in warnings[0]
  assert not os.listdir(tmp_path / 'kept')


def test_what_was_not_used_for_longest_goes_first(tmp_path):
  """Remains of a process that was killed are files like others."""
  path = tmp_path / 'kept'
  size = 4000
  folder = disk.Folder(str(path), most_bytes=4 * size + 1000)
  b, c, d, e, f, g = keys = [letter * 64 for letter in 'bcdef0']
  (path / f'{b}_killed').write_bytes(bytes(size))
  # Others in the folder are neither counted nor removed.
  (path / 'thesis.tex').write_bytes(bytes(3 * size))
  (path / 'photos').mkdir()
  for key in (c, d, e, f):
    folder.put(key, disk.Entry({}, bytes(size)))
  others = ['photos', 'thesis.tex']
  assert sorted(os.listdir(path)) == [c, d, e, f, *others]
  # Distinct times, whatever the resolution of the file system's clock.
  for age, key in enumerate((e, d, c, f)):
    os.utime(path / key, (age, age))
  assert folder.get(e) is not None
  folder.put(g, disk.Entry({}, bytes(size)))
  assert sorted(os.listdir(path)) == [g, c, e, f, *others]
  # What would make all others go is not kept.
  folder.put(b, disk.Entry({}, bytes(3 * size)))
  assert folder.get(b) is None and folder.get(keys[1]) is not None


_WRITER = '''
import runpy, sys
disk = runpy.run_path(sys.argv[1])
folder = disk['Folder'](sys.argv[2])
print('begun', flush=True)
for number in range(10**9):
  content = bytes([number % 256]) * 10**6
  folder.put('ab', disk['Entry']({'number': number % 256}, content))
'''


def test_writers_at_once_and_kills_leave_whole_entries(tmp_path, warnings):
  """The module is run alone: importing TensorFlow would take seconds."""
  path = str(tmp_path / 'kept')
  folder = disk.Folder(path)
  writers = [
      subprocess.Popen(
          [sys.executable, '-c', _WRITER, disk.__file__, path],
          stdout=subprocess.PIPE,
      ) for _ in range(2)
  ]
  try:
    assert all(writer.stdout.readline() == b'begun\n' for writer in writers)
    found = 0
    for number in range(20):
      entry = folder.get('ab')
      if entry is not None:
        found += 1
        number = entry.description['number']
        assert entry.content == bytes([number]) * 10**6
      time.sleep(0.01)
  finally:
    for writer in writers:
      writer.send_signal(signal.SIGKILL)
      writer.wait()
      writer.stdout.close()
  assert found and not warnings
  entry = folder.get('ab')
  assert entry.content == bytes([entry.description['number']]) * 10**6


def test_programs_use_the_folder_of_their_flag(monkeypatch):
  monkeypatch.delenv(disk.VARIABLE)
  monkeypatch.setenv('XDG_CACHE_HOME', '/caches')
  assert disk.path_of_programs() == '/caches/tff_pers'
  monkeypatch.delenv('XDG_CACHE_HOME')
  monkeypatch.setenv('HOME', '/home/me')
  assert disk.path_of_programs() == '/home/me/.cache/tff_pers'
  # A user of a container may have no home.
  monkeypatch.setattr(os.path, 'expanduser', lambda path: path)
  assert disk.path_of_programs() is None
  monkeypatch.setenv('XDG_CACHE_HOME', 'relative')
  assert disk.path_of_programs() is None
  monkeypatch.setenv(disk.VARIABLE, '/elsewhere')
  assert disk.path_of_programs() == '/elsewhere'
  monkeypatch.setenv(disk.VARIABLE, disk.OFF)
  assert disk.path_of_programs() is None
