"""One process writes to a folder."""

import os

import pytest

from binaries import choose
from binaries import compare
from binaries import robustness
from binaries import sweep_splits
from binaries import train
from tff_pers.core import locks
from tff_pers.experiments import folders


def test_a_folder_is_held_once_and_let_go(tmp_path):
  path = str(tmp_path / 'a' / 'b')
  with folders.FolderLock(path):
    with pytest.raises(ValueError, match=f'found one writing to {path}. Tip'):
      folders.FolderLock(path)
    (tmp_path / 'a' / 'b' / 'results').write_text('1')
  with folders.FolderLock(path):
    pass
  assert os.path.exists(path + '/results')


def test_an_empty_folder_that_was_made_is_taken_away(tmp_path):
  (tmp_path / 'mine').mkdir()
  with pytest.raises(ZeroDivisionError), folders.FolderLock(
      str(tmp_path / 'mine' / 'a' / 'b')
  ):
    _ = 1 / 0
  with folders.FolderLock(str(tmp_path / 'mine')):
    pass
  assert os.listdir(tmp_path) == ['mine'] and not os.listdir(tmp_path / 'mine')


@pytest.mark.parametrize('program, argv', [
    (train, ['--algo=local_only']), (compare, ['--algos=local_only']),
    (robustness, ['--algo=ffgg', '--rules=mean', '--attacks=none']),
    (choose, ['--algos=local_only', '--task=digits']),
    (sweep_splits, ['--splits=bias', '--task=digits', '--model=mlp']),
])
def test_the_second_program_ends_with_a_sentence(
    program, argv, tmp_path, capsys
):
  lock = locks.attempt(str(tmp_path))
  code = program.main([
      'x', '--task=overpersonalized', '--rounds=1', *argv,
      f'--output_dir={tmp_path}',
  ])
  lock.release()
  assert code == 2 and not os.listdir(tmp_path)
  error = capsys.readouterr().err
  assert '`--output_dir` must be a folder that no other process' in error
  assert error.count('\n') == 1
