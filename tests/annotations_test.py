"""Annotations of public functions are complete; sources are of Python 3.9.

Whether the annotations are right says `make types`.
"""

import ast
import pathlib

import pytest

pytestmark = pytest.mark.text

ROOT = pathlib.Path(__file__).resolve().parents[1]
_PACKAGES = ('tff_pers', 'baselines', 'binaries')
_SOURCES = sorted(
    path.relative_to(ROOT)
    for folder in (*_PACKAGES, 'docs', 'examples', 'tests')
    for path in (ROOT / folder).rglob('*.py')
)


def _public_functions(node):
  """Yields the public functions of a module, and of its public classes."""
  for child in node.body:
    is_public = not getattr(child, 'name', '_').startswith('_')
    if isinstance(child, ast.ClassDef) and is_public:
      yield from _public_functions(child)
    elif isinstance(child, ast.FunctionDef):
      if is_public or child.name == '__init__':
        yield child


def _lacking(function):
  """Returns the names of what has no annotation."""
  arguments = function.args
  named = [
      *arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs,
      arguments.vararg, arguments.kwarg,
  ]
  lacking = [
      argument.arg for argument in named
      if argument is not None and argument.annotation is None
      and argument.arg not in ('self', 'cls')
  ]
  if function.returns is None and function.name != '__init__':
    lacking.append('return')
  return lacking


@pytest.mark.parametrize('package', _PACKAGES)
def test_public_functions_are_annotated(package):
  lacking = [
      f'{path}:{function.lineno} {function.name}: {", ".join(names)}'
      for path in _SOURCES if path.parts[0] == package
      for function in _public_functions(ast.parse((ROOT / path).read_text()))
      for names in [_lacking(function)] if names
  ]
  assert not lacking


def test_a_function_without_annotations_is_found():
  source = 'class A:\n  def f(self, x: int, *y, z): pass\n  def _g(self, x): pass\n'
  [function] = _public_functions(ast.parse(source))
  assert _lacking(function) == ['z', 'y', 'return']


@pytest.mark.parametrize('path', _SOURCES, ids=str)
def test_sources_are_of_the_oldest_python(path):
  """Its grammar; that of another Python runs, checks `tools/check_python.sh`."""
  ast.parse((ROOT / path).read_text(), feature_version=(3, 9))
