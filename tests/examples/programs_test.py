"""The programs of a library user run, and what they assert holds.

They run in this process: what takes long is to import TensorFlow. On the fused
runtime, which they ask for, and with TFF's own contexts in its place.
"""

import ast
import pathlib
import runpy

import psutil
import pytest
import tensorflow_federated as tff

from tff_pers import runtime
from tff_pers.runtime import context

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / 'examples' / 'programs').glob('*.py'))
TRANSFORMER = ROOT / 'examples' / 'lora_transformer.py'


def test_there_are_some():
  assert len(PROGRAMS) == 13


def _run(path):
  runpy.run_path(str(path), run_name='__main__')


@pytest.mark.parametrize(
    'path', [*PROGRAMS, TRANSFORMER], ids=lambda path: path.stem
)
def test_runs(path):
  _run(path)


def _use_stock(name='fused', asynchronous=False):
  """Installs TFF's own context where a program asks for one of our runtimes."""
  del name  # Whatever it is.
  native = tff.backends.native
  create = (
      native.create_async_local_cpp_execution_context if asynchronous
      else native.create_sync_local_cpp_execution_context
  )
  return context.Installed(create())


@pytest.mark.slow
@pytest.mark.parametrize(
    'path', [*PROGRAMS, TRANSFORMER], ids=lambda path: path.stem
)
def test_runs_on_tffs_own_contexts(path, monkeypatch):
  # TFF would look for its worker by that proxy.
  monkeypatch.delenv('https_proxy', raising=False)
  monkeypatch.setattr(runtime, 'use', _use_stock)
  before = set(psutil.Process().children())
  try:
    _run(path)
  finally:
    # TFF leaves its worker running when the interpreter exits.
    for child in set(psutil.Process().children()) - before:
      child.kill()


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
