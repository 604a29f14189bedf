"""Draws faults that any tool thinks of: a list for `run.py`, once per release.

    python -m venv build/cosmic && build/cosmic/bin/pip install cosmic-ray
    build/cosmic/bin/python tests/mutants/generic.py
    make test-mutants ARGS="--lists=build/generic --fast"

Needs cosmic-ray, in an environment of its own. Every place at which one of its
operators can change a comparison, an operation, a number or a condition is as
likely as another. The tests of a fault are those of the files of its family
that import the module or are called after it; if there is none, of any. A survivor is mended by a test,
or named: many change nothing that a test could see.
"""

import argparse
import ast
import json
import pathlib
import random
import re

from cosmic_ray import ast as cosmic_ast
from cosmic_ray import mutating
from cosmic_ray import plugins

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FAMILIES = ('aggregators', 'client_works', 'numerics')
# Operators whose changes do not survive an import, that nothing here uses, or
# that need to be told what to replace.
_LEFT_OUT = re.compile(
    'Bit|Break|Continue|Decorator|Exception|Invert|Is|Shift|Variable'
)


def main() -> None:
  """Writes build/generic/FAMILY.yaml."""
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument('--number', type=int, default=200)
  parser.add_argument('--seed', type=int, default=0)
  flags = parser.parse_args()
  points = [
      (path, name, number)
      for family in _FAMILIES
      for path in sorted((_ROOT / 'tff_pers' / family).rglob('*.py'))
      for name, count in _operators(path.read_text('utf-8'))
      for number in range(count)
  ]
  random.Random(flags.seed).shuffle(points)
  found, seen = {family: {} for family in _FAMILIES}, set()
  for path, name, number in points:
    row = _row(path, name, number)
    if row is None or not row['by'] or (row['at'], row['old'], row['new']) in seen:
      continue
    seen.add((row['at'], row['old'], row['new']))
    found[_family(path)][f'{path.stem}_{len(seen)}'] = row
    if len(seen) == flags.number:
      break
  folder = _ROOT / 'build' / 'generic'
  folder.mkdir(parents=True, exist_ok=True)
  for family, rows in found.items():  # JSON is YAML.
    (folder / f'{family}.yaml').write_text(json.dumps(rows, indent=1), 'utf-8')
  print(f'{len(points)} places, {len(seen)} faults in {folder}')


def _operators(code):
  """Yields (name, number of places) of each operator."""
  nodes = list(cosmic_ast.ast_nodes(cosmic_ast.get_ast(code)))
  for name in plugins.operator_names():
    if not _LEFT_OUT.search(name):
      operator = plugins.get_operator(name)()
      yield name, sum(len(list(operator.mutation_positions(n))) for n in nodes)


def _row(path, name, number):
  """Returns the row of a fault, or None if it changes more than a line."""
  code = path.read_text('utf-8')
  changed = mutating.mutate_code(code, plugins.get_operator(name)(), number)
  if changed is None:
    return None
  lines, others = code.splitlines(), changed.splitlines()
  places = [i for i, (a, b) in enumerate(zip(lines, others)) if a != b]
  if len(lines) != len(others) or len(places) != 1:
    return None
  try:
    ast.parse(changed)
  except SyntaxError:
    return None
  first = stop = places[0]
  stop += 1
  while code.count('\n'.join(lines[first:stop])) > 1:  # Until it is the only.
    stop += 1
  return dict(
      what=name, at=str(path.relative_to(_ROOT)),
      old='\n'.join(lines[first:stop]), new='\n'.join(others[first:stop]),
      by=_tests(path),
  )


def _tests(path):
  """Returns the test functions that are nearest to a module."""
  module = f'from {".".join(path.relative_to(_ROOT).parent.parts)} import'
  imports = re.compile(rf'{re.escape(module)} {path.stem}\b')
  found: list[str] = []
  for folder in (f'tests/{_family(path)}', 'tests'):
    for test in sorted((_ROOT / folder).rglob('*_test.py')):
      code = test.read_text('utf-8')
      if test.stem == f'{path.stem}_test' or imports.search(code):
        found += [
            f'{test.relative_to(_ROOT)}::{node.name}'
            for node in ast.parse(code).body
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith('test_')
        ]
    if found:
      break
  return found


def _family(path):
  return path.relative_to(_ROOT).parts[1]


if __name__ == '__main__':
  main()
