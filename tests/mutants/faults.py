"""Lists of planted faults: their format, how they are read and checked.

A planted fault is a small scientific mistake that somebody could make, such as
a wrong sign, a transposed matrix or a hyperparameter without effect. `run.py`
puts each into a copy of the tree, one at a time, and checks that the tests of
its row fail. A fault that passes them shows what no test looks at.

Every file of `tests/mutants/lists/` is the list of one family; its name is that
of the family. It is plain data:

    from tests.mutants.faults import Fault

    FAULTS = (
        Fault(
            'transposed_weights',  # Unique within the family.
            what='The mixing weight is that of the host for the owner.',
            file='tff_pers/algorithms/perm/fixed_mixing.py',
            old='return mixing[owner, host]',
            new='return mixing[host, owner]',
            tests=(
                'tests/algorithms/perm/fixed_mixing_test.py'
                '::test_owner_row_scales_at_the_host',
            ),
        ),
    )

`old` may span several lines. It must occur exactly once in the file, so that a
row whose code has changed is noticed; take in a neighbouring line if it is not
unique. A Python file must still be one with `new` in its place. `tests`
names test functions, all their cases or one (`test_x[case]`), that pass without
the fault; at least one of them must fail with it. Name the fastest test that is meant to catch the
fault, not every test that does.
"""

import ast
import importlib.util
import pathlib
from typing import Dict, List, NamedTuple, Optional, Tuple

LISTS = pathlib.Path(__file__).parent / 'lists'


class Fault(NamedTuple):
  """One planted fault, see the module.

  Attributes:
    name: Unique within its family.
    what: One sentence that says what is wrong.
    file: Path from the root of the tree.
    old: Text that occurs exactly once in the file.
    new: What takes its place.
    tests: `path::function` or `path::function[case]` of each test that is meant to catch the fault.
  """

  name: str
  what: str
  file: str
  old: str
  new: str
  tests: Tuple[str, ...]


def load(folder: pathlib.Path = LISTS) -> Dict[str, Tuple[Fault, ...]]:
  """Returns the faults of every list in `folder`, by family."""
  families = {}
  for path in sorted(folder.glob('*.py')):
    if path.stem == '__init__':
      continue
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    families[path.stem] = tuple(module.FAULTS)
  return families


def planted(fault: Fault, root: pathlib.Path) -> str:
  """Returns the text of the fault's file with the fault in it.

  Raises:
    ValueError: If the row does not fit the tree at `root`.
  """
  path = root / fault.file
  if not path.is_file():
    raise ValueError(f'there is no file {fault.file}')
  text = path.read_text(encoding='utf-8')
  count = text.count(fault.old)
  if count != 1:
    raise ValueError(
        f'`old` must occur exactly once in {fault.file}, found {count} times'
    )
  if fault.new == fault.old:
    raise ValueError('`new` must differ from `old`')
  changed = text.replace(fault.old, fault.new)
  if not fault.file.endswith('.py'):
    return changed
  try:
    ast.parse(changed)
  except SyntaxError as error:
    raise ValueError(f'{fault.file} is no Python with `new`: {error}') from None
  return changed


def error(fault: Fault, root: pathlib.Path) -> Optional[str]:
  """Returns what is wrong with a row of the list, or None."""
  try:
    planted(fault, root)
  except ValueError as found:
    return str(found)
  if not fault.tests:
    return '`tests` must name at least one test'
  for test in fault.tests:
    path, _, function = test.partition('::')
    if function.partition('[')[0] not in _functions(root / path):
      return f'there is no test {test}'
  return None


def _functions(path: pathlib.Path) -> List[str]:
  """Returns the names of the test functions of a file."""
  if not path.is_file():
    return []
  nodes = ast.parse(path.read_text(encoding='utf-8')).body
  return [
      node.name for node in nodes
      if isinstance(node, ast.FunctionDef) and node.name.startswith('test_')
  ]
