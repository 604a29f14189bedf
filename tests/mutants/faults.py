"""Planted faults: their format, how they are read and checked.

A planted fault is a small scientific mistake that somebody could make and that
no tool would think of, such as a transposed matrix, a mean in place of a sum, a
hyperparameter without effect. `run.py` puts each into a copy of the tree, one at
a time, and checks that the tests of its row fail. A fault that passes them shows
what no test looks at.

Every file of `tests/mutants/lists/` has the faults of one family, by name:

    transposed_weights:
      what: The mixing weight is that of the host for the owner.
      at: tff_pers/algorithms/perm/shuffling.py::step_scale
      old: '[owner, host]'
      new: '[host, owner]'
      by: tests/algorithms/perm/shuffling_test.py::test_owner_row_scales

`at` is the file, and in it the function, method or class (`Client.train`), inner
ones included; without one, the whole file. `old` must occur there exactly once,
so that a row whose code has changed is noticed, and a row survives a move by its
first line. The file must still be Python with `new` in its place. `by` is a test
function, or a list of them, all their cases or one (`test_x[case]`), that pass
without the fault; one of them must fail with it. Name the fastest test that is
meant to catch the fault, not every test that does.
"""

import ast
import pathlib
from typing import NamedTuple, Optional

import yaml

LISTS = pathlib.Path(__file__).parent / 'lists'
_PLACES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Fault(NamedTuple):
  """One planted fault, see the module.

  Attributes:
    name: Unique within its family.
    what: One sentence that says what is wrong.
    at: `path` or `path::function` from the root of the tree.
    old: Text that occurs exactly once there.
    new: What takes its place.
    tests: `path::function` or `path::function[case]` of each test that is meant
      to catch the fault.
  """

  name: str
  what: str
  at: str
  old: str
  new: str
  tests: tuple[str, ...]

  @property
  def file(self) -> str:
    """The path from the root of the tree."""
    return self.at.partition('::')[0]


def load(folder: pathlib.Path = LISTS) -> dict[str, tuple[Fault, ...]]:
  """Returns the faults of every list in `folder`, by family."""
  return {
      path.stem: tuple(
          _fault(name, **row)
          for name, row in yaml.safe_load(path.read_text('utf-8')).items()
      )
      for path in sorted(folder.glob('*.yaml'))
  }


def _fault(name, what, at, old, new, by):
  return Fault(
      name, what, at, old, new, (by,) if isinstance(by, str) else tuple(by)
  )


def planted(fault: Fault, root: pathlib.Path) -> str:
  """Returns the text of the fault's file with the fault in it.

  Raises:
    ValueError: If the row does not fit the tree at `root`.
  """
  path = root / fault.file
  if not path.is_file():
    raise ValueError(f'there is no file {fault.file}')
  text = path.read_text(encoding='utf-8')
  start, end = _place(text, fault.at)
  count = text[start:end].count(fault.old)
  if count != 1:
    raise ValueError(
        f'`old` must occur exactly once in {fault.at}, found {count} times'
    )
  if fault.new == fault.old:
    raise ValueError('`new` must differ from `old`')
  changed = (
      text[:start] + text[start:end].replace(fault.old, fault.new) + text[end:]
  )
  try:
    ast.parse(changed)
  except SyntaxError as error:
    raise ValueError(f'{fault.file} is no Python with `new`: {error}') from None
  return changed


def _place(text, at):
  """Returns the positions of the first and after the last letter of a place."""
  node = ast.parse(text)
  names = at.partition('::')[2]
  if not names:
    return 0, len(text)
  for name in names.split('.'):
    found = [
        inner for inner in ast.walk(node)
        if isinstance(inner, _PLACES)
        and inner is not node and inner.name == name
    ]
    if not found:
      raise ValueError(f'there is no {at}')
    node = found[0]
  lines = text.splitlines(keepends=True)
  first = min(part.lineno for part in (node, *node.decorator_list))
  start = len(''.join(lines[:first - 1]))
  return start, start + len(''.join(lines[first - 1:node.end_lineno]))


def error(fault: Fault, root: pathlib.Path) -> Optional[str]:
  """Returns what is wrong with a row of the list, or None."""
  try:
    planted(fault, root)
  except ValueError as found:
    return str(found)
  if not fault.tests:
    return '`by` must name at least one test'
  for test in fault.tests:
    path, _, function = test.partition('::')
    if function.partition('[')[0] not in _functions(root / path):
      return f'there is no test {test}'
  return None


def _functions(path):
  """Returns the names of the test functions of a file."""
  if not path.is_file():
    return []
  nodes = ast.parse(path.read_text(encoding='utf-8')).body
  return [
      node.name for node in nodes
      if isinstance(node, ast.FunctionDef) and node.name.startswith('test_')
  ]
