"""Measures the size of the project: lines, modules, import closures.

    .venv/bin/python tools/measure.py

Lines are those of all .py files outside of tests, docs and examples, unchanged.
With `--formatted`, a copy is first formatted by pyink with the settings of
Google's style, so that nothing is gained by denser lines. pyink is not a
requirement here; any Python that has it can run this file.

The closure of a module contains every file here that is reached by following
all imports from it, including those within functions, by name
(`importlib.import_module`) and of all modules of a package (`discovery`), but
not those for type checkers only.
"""

import argparse
import ast
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ('tff_pers', 'baselines', 'binaries')
_NOT_SOURCE = ('tests', 'docs', 'examples')
_CLOSURES = (
    'baselines.fedavg', 'tff_pers.algorithms.floral.floral',
    'tff_pers.algorithms.perm.perm', 'tff_pers.experiments.runner',
)


def modules(root: pathlib.Path) -> dict[str, pathlib.Path]:
  """Returns the files of the packages by the names of their modules."""
  found = {}
  for package in PACKAGES:
    for path in sorted((root / package).rglob('*.py')):
      parts = path.relative_to(root).with_suffix('').parts
      found['.'.join(part for part in parts if part != '__init__')] = path
  return found


def imported(path: pathlib.Path, for_types: bool = False) -> list[str]:
  """Returns the dotted names that a file imports anywhere.

  Args:
    path: The file.
    for_types: Whether to include imports for type checkers.
  """
  tree = ast.parse(path.read_text(encoding='utf-8'))
  for node in ast.walk(tree):
    is_typing = isinstance(node, ast.If) and (
        ast.unparse(node.test) == 'TYPE_CHECKING'
    )
    if is_typing and not for_types:
      node.body = []
  names = []
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      names += [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      package = '.' * node.level + (node.module or '')
      names += [f'{package}.{alias.name}' for alias in node.names]
    elif isinstance(node, ast.Call) and re.search(
        r'\b(import_module|import_named|__import__)$', ast.unparse(node.func)
    ):
      names += [
          argument.value for argument in node.args
          if isinstance(argument, ast.Constant)
      ]
  return names


def closure(name: str, files: dict[str, pathlib.Path]) -> set[str]:
  """Returns the modules reached from `name`, including itself."""
  found, open_names = set(), [name]
  while open_names:
    module = open_names.pop()
    # `from package import name`: a module of that name, else the package.
    while module not in files:
      module = module.rpartition('.')[0]
    if module in found:
      continue
    found.add(module)
    open_names += [
        name for name in imported(files[module])
        if name.split('.')[0] in PACKAGES
    ]
    if 'import_modules(__name__' in files[module].read_text(encoding='utf-8'):
      open_names += [m for m in files if m.startswith(f'{module}.')]
  return found


def lines(path: pathlib.Path) -> int:
  return len(path.read_text(encoding='utf-8').splitlines())


def _sources(root):
  """Yields (folder, file) for every file that counts as source or test."""
  for path in sorted(root.rglob('*.py')):
    parts = path.relative_to(root).parts
    if parts[0] in ('build', 'runs') or any(p.startswith('.') for p in parts):
      continue
    is_package = parts[0] == 'tff_pers' and len(parts) > 2
    yield '/'.join(parts[:2]) if is_package else parts[0], path


def _formatted(root, scratch):
  """Returns a copy of the tree with formatted files."""
  copy = scratch / 'tree'
  shutil.copytree(
      root, copy, symlinks=True,
      ignore=shutil.ignore_patterns('.*', 'build', 'runs', 'bazel-*'),
  )
  subprocess.run(
      [
          sys.executable, '-m', 'pyink', '--quiet', '--line-length=80',
          '--pyink-indentation=2', '--pyink-use-majority-quotes', str(copy),
      ],
      check=True,
  )
  return copy


def _print(root):
  rooms = collections.Counter()
  for room, path in _sources(root):
    rooms[room] += lines(path)
  source = {room: n for room, n in rooms.items() if room not in _NOT_SOURCE}
  width = max(map(len, rooms))
  print('Lines of .py:')
  for room in sorted(source):
    print(f'  {room:<{width}} {source[room]:7,}')
  print(f'  {"source":<{width}} {sum(source.values()):7,}')
  print(f'  {"tests":<{width}} {rooms["tests"]:7,}')
  files = modules(root)
  top = [
      name for name, path in files.items()
      if path.parent.name == 'tff_pers' and path.name != '__init__.py'
  ]
  print(f'\nModules directly in tff_pers: {len(top)}')
  print('\nReached from a module (files, lines):')
  for name in _CLOSURES:
    if name in files:
      found = closure(name, files)
      total = sum(lines(files[module]) for module in found)
      print(f'  {name:<28} {len(found):4} {total:7,}')


def main(arguments=None) -> None:
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument(
      '--formatted', action='store_true', help='format a copy of the tree first'
  )
  parser.add_argument('--root', default=ROOT, type=pathlib.Path)
  flags = parser.parse_args(arguments)
  if not flags.formatted:
    _print(flags.root)
    return
  with tempfile.TemporaryDirectory() as scratch:
    _print(_formatted(flags.root, pathlib.Path(scratch)))


if __name__ == '__main__':
  main()
