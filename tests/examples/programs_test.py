"""The programs of a library user run, and what they assert holds.

They run in this process: what takes long is to import TensorFlow. Together they
take less than a CPU minute.
"""

import ast
import pathlib
import runpy

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / 'examples' / 'programs').glob('*.py'))


def test_there_are_eight():
  assert len(PROGRAMS) == 8


@pytest.mark.parametrize('path', PROGRAMS, ids=lambda path: path.stem)
def test_runs(path):
  runpy.run_path(str(path), run_name='__main__')


@pytest.mark.parametrize('path', PROGRAMS, ids=lambda path: path.stem)
def test_is_a_strangers(path):
  """It asserts something, and uses names that are public."""
  tree = ast.parse(path.read_text())
  assert ast.get_docstring(tree)
  nodes = list(ast.walk(tree))
  attributes = [n.attr for n in nodes if isinstance(n, ast.Attribute)]
  imported = [
      alias.name for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))
      for alias in n.names
  ]
  assert not [name for name in attributes + imported if name.startswith('_')]
  assert any(isinstance(n, ast.Assert) for n in nodes) or any(
      name.startswith('assert_') for name in attributes
  )


@pytest.mark.parametrize('path', PROGRAMS, ids=lambda path: path.stem)
def test_is_listed(path):
  page = (ROOT / 'docs' / 'building_blocks.md').read_text()
  assert f'(../examples/programs/{path.name})' in page
