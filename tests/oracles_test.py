"""`oracles.yaml` has an oracle for every public function, and its tests exist."""

import ast
import functools
import pathlib
import re
from typing import NamedTuple

import pytest
import yaml

pytestmark = pytest.mark.text

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / 'tests' / 'oracles.yaml'
_FOLDERS = (
    'tff_pers/numerics', 'tff_pers/aggregators', 'tff_pers/client_works',
    'tff_pers/algorithms', 'tff_pers/analysis', 'baselines',
)


class Row(NamedTuple):
  """One name of the table.

  Attributes:
    module: Path of the module.
    name: A public function or class of it.
    kind: The kind of oracle.
    test: `path::function` of the test that has it; with `none` the reason.
    user: The module that the test knows it by; empty: its own.
  """

  module: str
  name: str
  kind: str
  test: str
  user: str = ''


def read(text: str) -> tuple[set[str], list[Row]]:
  """Returns the kinds of oracles and the rows of a table."""
  table = yaml.safe_load(text)
  kinds, rows = set(table.pop('kinds')), []
  for heading, oracles in table.items():
    module, _, file = heading.partition(' by ')
    for names, oracle in oracles.items():
      kind, _, test = oracle.partition(' ')
      test, _, user = test.partition(' through ')
      if kind != 'none' and '::' not in test:
        test = f'{file}::{test}'
      rows += [
          Row(module, name, kind, test, user) for name in names.split(', ')
      ]
  return kinds, rows


KINDS, ROWS = read(TABLE.read_text('utf-8'))


@functools.lru_cache(maxsize=None)
def _text(path):
  return path.read_text('utf-8') if path.is_file() else ''


@functools.lru_cache(maxsize=None)
def _defined(path, *kinds):
  """Returns the names at the top of a file, none if there is no such file."""
  body = ast.parse(_text(path)).body
  return [node.name for node in body if isinstance(node, kinds)]


def _public(root):
  """Returns (module, name) of all that the table must have, in order."""
  return [
      (path.relative_to(root).as_posix(), name)
      for folder in _FOLDERS for path in sorted((root / folder).rglob('*.py'))
      if not path.name.startswith('_')
      for name in _defined(path, ast.FunctionDef, ast.ClassDef)
      if not name.startswith('_')
  ]


def errors(kinds: set[str], rows: list[Row], root: pathlib.Path) -> list[str]:
  """Returns a sentence for everything that is wrong with a table."""
  public, known = _public(root), [row[:2] for row in rows]
  found = [
      f'{module} has {name}, which has no row: write "{name}: KIND TEST" below '
      f'"{module} by TEST FILE:" in tests/oracles.yaml.'
      for module, name in public if (module, name) not in known
  ]
  for number, row in enumerate(rows):
    where = f'tests/oracles.yaml, {row.module}, {row.name}:'
    path, _, test = row.test.partition('::')
    if row[:2] not in public:
      found.append(f'{where} there is no such function or class: remove the name.')
    elif row[:2] in known[:number]:
      found.append(f'{where} it has two rows: keep the better oracle.')
    elif row.kind not in kinds:
      found.append(f'{where} {row.kind} must be one of the kinds at the top.')
    elif row.kind == 'none':
      if not row.test:
        found.append(f'{where} none must have a reason behind it.')
    elif not test.startswith('test_') or test not in _defined(
        root / path, ast.FunctionDef
    ):
      found.append(f'{where} there is no test {row.test}: name one that exists.')
    elif not _is_known(row, path, root):
      found.append(
          f'{where} {path} mentions neither it nor its module: name the test that '
          'compares it with its oracle, or add "through USER", a module that the '
          'test mentions and that uses it.'
      )
  return found


def _is_known(row, path, root):
  """Whether the test's file mentions what is tested, or a user of that."""
  names = [row.name, pathlib.Path(row.module).stem]
  text = f'{path} {_text(root / path)}'.replace('/', ' ').replace('_test', ' ')
  if not row.user:
    return any(_mentions(text, name) for name in names)
  users = [
      user for folder in ('tff_pers', 'baselines')
      for user in (root / folder).rglob(f'{row.user}.py')
  ]
  return _mentions(text, row.user) and any(
      _mentions(_text(user), name) for name in names for user in users
  )


def _mentions(text, name):
  return re.search(rf'\b{name}\b', text) is not None


def test_the_table_is_complete_and_names_tests():
  found = errors(KINDS, ROWS, ROOT)
  assert not found, '\n'.join(found)


_GOOD = (
    'kinds: {numpy: again, none: not yet}\n'
    'baselines/kinds.py by tests/kinds_test.py:\n'
    '  find, Kind: numpy test_find\n'
)


@pytest.mark.parametrize('old, new, sentence', [
    ('find, Kind', 'find, Kind', None),
    ('find, Kind', 'find', 'baselines/kinds.py has Kind, which has no row'),
    ('find, Kind', 'find, Kind, lose', 'there is no such function or class'),
    ('find, Kind', 'find, Kind, find', 'it has two rows'),
    ('numpy test_find', 'scipy test_find', 'scipy must be one of the kinds'),
    ('numpy test_find', 'numpy test_lose', 'there is no test tests/kinds_test.py::test_lose'),
    ('numpy test_find', 'numpy helper', 'there is no test tests/kinds_test.py::helper'),
    ('numpy test_find', 'numpy tests/b_test.py::test_b', 'mentions neither it'),
    ('numpy test_find', 'numpy tests/b_test.py::test_b through uses', None),
    ('numpy test_find', 'numpy tests/b_test.py::test_b through _b', 'mentions neither'),
    ('numpy test_find', 'none', 'none must have a reason'),
    ('numpy test_find', 'none because it is long', None),
])
def test_a_wrong_table_is_one_clear_sentence(old, new, sentence, tmp_path):
  for name, text in (
      ('baselines/kinds.py', 'def find(): pass\nclass Kind: pass\ndef _hide(): pass\n'),
      ('baselines/_b.py', 'def hide(): pass\n'),
      ('baselines/uses.py', 'kinds\n'),
      ('tests/kinds_test.py', 'def helper(): find\ndef test_find(): Kind\n'),
      ('tests/b_test.py', 'def test_b(): uses\n'),
  ):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
  found = errors(*read(_GOOD.replace(old, new)), tmp_path)
  if sentence is None:
    assert not found
  else:
    assert sentence in found[0]
