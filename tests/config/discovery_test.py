"""Modules of packages are found by themselves."""

import sys

import pytest

from tff_pers.config import discovery


@pytest.fixture(name='package')
def _package(tmp_path, monkeypatch):
  """A package on the path: its folder; what was imported goes again."""
  folder = tmp_path / 'a_package'
  (folder / 'inner').mkdir(parents=True)
  (folder / '__init__.py').write_text('')
  (folder / 'inner' / '__init__.py').write_text('')
  monkeypatch.syspath_prepend(str(tmp_path))
  yield folder
  for name in [n for n in sys.modules if n.split('.')[0] == 'a_package']:
    del sys.modules[name]


def _find(folder):
  return discovery.import_modules('a_package', [str(folder)])


def test_all_modules_are_found_in_order(package):
  (package / 'second.py').write_text('')
  (package / 'first.py').write_text('from a_package import second')
  (package / 'inner' / 'third.py').write_text('')
  assert [module.__name__ for module in _find(package)] == [
      'a_package.first', 'a_package.inner', 'a_package.inner.third',
      'a_package.second',
  ]


@pytest.mark.parametrize('file', ['broken.py', 'inner/__init__.py'])
@pytest.mark.parametrize('content', ['import nothing_like_it', '1 / 0', 'if'])
def test_a_module_that_fails_says_so(file, content, package):
  (package / file).write_text(content)
  with pytest.raises(
      ImportError, match=r'Module a_package\.(broken|inner) must be importable'
  ):
    _find(package)


def test_builders_are_those_that_a_module_defines(package):
  (package / 'first.py').write_text(
      'def build_first(): pass\n'
      'def _build(): pass\n'
      'def make(): pass\n'
  )
  (package / 'second.py').write_text(
      'from a_package.first import build_first\n'
      'def build_second(): pass\n'
      'class SecondHyperparameters: pass\n'
      'class _OtherHyperparameters: pass\n'
  )
  found = discovery.builders(_find(package))
  assert {name: f.__module__ for name, f in found.items()} == {
      'build_first': 'a_package.first', 'build_second': 'a_package.second',
      'SecondHyperparameters': 'a_package.second',
  }


def test_raises_on_two_builders_of_one_name(package):
  for name in ('first', 'second'):
    (package / f'{name}.py').write_text('def build_it(): pass')
  with pytest.raises(
      ValueError, match='`build_it` must be defined once.*first and a_package.se'
  ):
    discovery.builders(_find(package))
