"""Console programs are ours, whatever folders there are where they start."""

import configparser
import os
import pathlib
import subprocess
import sys

import pytest

from tff_pers import console

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_every_program_of_the_package_is_one():
  config = configparser.ConfigParser()
  config.read(ROOT / 'setup.cfg')
  lines = config['options.entry_points']['console_scripts'].split('\n')
  found = dict(line.split(' = ') for line in lines if line)
  assert found == {
      f'tff-pers-{name.replace("_", "-")}': f'tff_pers.console:{name}'
      for name in console.PROGRAMS
  }
  for name in console.PROGRAMS:
    assert callable(getattr(console, name))
    assert (ROOT / 'binaries' / f'{name}.py').exists()


def test_raises_on_an_unknown_program():
  with pytest.raises(AttributeError, match='There is no program trian.'):
    console.trian  # pylint: disable=pointless-statement


def _lacking(monkeypatch, module):
  def run_module(*_, **__):
    raise ModuleNotFoundError(f"No module named '{module}'", name=module)

  monkeypatch.setattr(console.runpy, 'run_module', run_module)
  console.train()


def test_without_the_extra_of_the_programs_there_is_one_sentence(monkeypatch):
  with pytest.raises(SystemExit) as error:
    _lacking(monkeypatch, 'yaml')
  assert str(error.value) == (
      'The programs need yaml, which is not installed. Tip: install tff_pers'
      " with its extra, as in pip install '.[programs]'."
  )
  with pytest.raises(ModuleNotFoundError):
    _lacking(monkeypatch, 'a_users_own')


def test_what_programs_need_is_their_extra():
  config = configparser.ConfigParser()
  config.read(ROOT / 'setup.cfg')
  extra = config['options.extras_require']['programs'].split('\n')
  names = {'scikit-learn': 'sklearn', 'pyyaml': 'yaml'}
  found = [line for line in extra if line and not line.startswith('#')]
  assert sorted(names.get(name, name) for name in found) == sorted(
      console._OF_PROGRAMS  # pylint: disable=protected-access
  )


@pytest.mark.parametrize('strange', ['baselines', 'binaries', 'binaries.py'])
def test_ours_come_before_the_first_that_is_not(tmp_path, monkeypatch, strange):
  folders = [tmp_path / name for name in ('plain', 'strange', 'ours')]
  for folder in folders:
    folder.mkdir()
  (folders[1] / strange).mkdir()
  plain, other, ours = map(str, folders)
  path = [plain, other, plain, ours]
  console.put_ours_first(path, ours)
  assert path == [plain, ours, other, plain, ours]
  monkeypatch.chdir(other)
  path = ['', ours]
  console.put_ours_first(path, ours)
  assert path == [ours, '', ours]
  for path in ([plain, ours, other], [plain]):
    before = list(path)
    console.put_ours_first(path, ours)
    assert path == before


def test_a_program_does_not_import_the_folders_of_a_stranger(tmp_path):
  for name in ('baselines', 'binaries'):
    (tmp_path / name).mkdir()
    (tmp_path / name / '__init__.py').write_text('raise SystemExit("strange")')
  done = subprocess.run(
      [
          # As the script that pip writes; Python puts its folder first.
          sys.executable, '-c', 'import sys; sys.path.pop(0)\n'
          'from tff_pers.console import plot; sys.exit(plot())', '--help',
      ], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
      env={**os.environ, 'PYTHONPATH': os.pathsep.join(['.', str(ROOT)])},
  )
  assert done.returncode == 0, done.stderr
  assert 'python -m binaries.plot' in done.stdout
