"""The front door: public names, each imported when it is first used."""

import ast
import configparser
import importlib
import inspect
import pathlib
import subprocess
import sys

import pytest

import tff_pers
from tff_pers import algorithms

ROOT = pathlib.Path(__file__).resolve().parents[1]
_PUBLIC = [name for name in tff_pers.__all__ if name != '__version__']


def test_importing_it_is_cheap_and_says_what_there_is():
  code = (
      'import sys, tff_pers\n'
      'assert set(tff_pers.__all__) <= set(dir(tff_pers))\n'
      'print(sorted({"numpy", "tensorflow", "tff_pers.models"} & set(sys.modules)))'
  )
  done = subprocess.run(
      [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True,
      check=True, timeout=60,
  )
  assert done.stdout == '[]\n'


@pytest.mark.parametrize('name', _PUBLIC)
def test_a_public_name_is_there_and_documented(name):
  found = getattr(tff_pers, name)
  assert inspect.getdoc(found)
  if inspect.ismodule(found):
    assert found.__name__ == f'tff_pers.{name}'
  else:
    assert found.__name__ == name and found.__module__.startswith('tff_pers.')


def test_raises_on_an_unknown_name():
  with pytest.raises(AttributeError, match="'tff_pers' has no attribute 'buil'"):
    tff_pers.buil  # pylint: disable=pointless-statement
  with pytest.raises(ImportError, match='cannot import name'):
    from tff_pers import buil  # noqa: F401 pylint: disable=unused-import,g-import-not-at-top


def test_the_version_is_that_of_the_package():
  config = configparser.ConfigParser()
  config.read(ROOT / 'setup.cfg')
  assert config['metadata']['version'] == 'attr: tff_pers.__version__'
  assert tff_pers.__version__.count('.') == 2


def _for_type_checkers(package):
  """Returns the names behind `TYPE_CHECKING`, and the modules they are of."""
  tree = ast.parse(pathlib.Path(package.__file__).read_text())
  [branch] = [node for node in tree.body if isinstance(node, ast.If)]
  assert ast.unparse(branch.test) == 'TYPE_CHECKING'
  seen = {}
  for node in branch.body:
    if isinstance(node, ast.ImportFrom):
      for alias in node.names:
        assert alias.asname == alias.name  # Else it is not exported.
        seen[alias.name] = node.module
  return seen


@pytest.mark.parametrize('package', [tff_pers, algorithms])
def test_type_checkers_see_the_same_names(package):
  """What stands behind `TYPE_CHECKING` is what Python finds."""
  for name, module in _for_type_checkers(package).items():
    found = getattr(importlib.import_module(module), name)
    assert found is getattr(package, name)


def test_type_checkers_see_all_names():
  front = _for_type_checkers(tff_pers)
  assert set(front) == set(_PUBLIC)
  assert set(_for_type_checkers(algorithms)) == {
      name for name, module in front.items() if module == algorithms.__name__
  }


def test_annotations_are_for_users_too():
  """PEP 561: type checkers read them where this file is installed."""
  config = configparser.ConfigParser()
  config.read(ROOT / 'setup.cfg')
  assert (ROOT / 'tff_pers' / 'py.typed').exists()
  assert 'py.typed' in config['options.package_data']['tff_pers'].split()
