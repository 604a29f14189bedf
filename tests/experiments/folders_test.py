"""Whether a folder can hold results."""

import os
import tempfile

import pytest

from tff_pers.experiments import folders


def test_a_folder_that_is_there_or_can_be_made_stays_as_it_is(tmp_path):
  folders.check(str(tmp_path))
  folders.check(str(tmp_path / 'a' / 'b'))
  assert not os.listdir(tmp_path)


def test_refuses_files_and_what_is_below_them(tmp_path):
  path = tmp_path / 'file'
  path.write_text('text')
  for folder in (path, path / 'a'):
    with pytest.raises(ValueError, match='file, which is not a folder'):
      folders.check(str(folder))
  (tmp_path / 'nowhere').symlink_to(tmp_path / 'gone')
  with pytest.raises(ValueError, match='nowhere, which is not a folder'):
    folders.check(str(tmp_path / 'nowhere'))


def test_refuses_what_cannot_be_written(tmp_path, monkeypatch):
  def read_only(dir):  # pylint: disable=redefined-builtin
    raise OSError(30, 'Read-only file system')

  monkeypatch.setattr(tempfile, 'TemporaryFile', read_only)
  with pytest.raises(ValueError, match=r'can be written, found .*\(Read-only'):
    folders.check(str(tmp_path / 'a'))
