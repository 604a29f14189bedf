"""Imports point down: the floors of the house, in order, and what may be where.

Every module is checked by reading its file. The modules that `discovery` finds
are imported by a string, but what they import stands in their files too.
"""

import ast
import pathlib
import re

import pytest

from tools import measure

pytestmark = pytest.mark.text

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Knows none of the floors, and of them only programs and tests know it: a method
# does not know where it runs.
RUNTIME = 'tff_pers.runtime'
RUNTIME_USERS = ('binaries', 'tff_pers.experiments', 'tff_pers.testing')
# TensorFlow Federated: the only module that imports it, but for what TFF does not
# publish, which the runtime needs.
TFF = 'tff_pers.tff'
# Its own floors, as those of the page; the entries of one are three products.
_RUNTIME_FLOORS = """
context errors executor line worker_process
serving
native remote fused.devices fused.disk fused.operations fused.optimizer
fused.values
fused.graphs fused.schedule fused.side_by_side
fused.choices fused.intrinsics fused.kept fused.singles
fused.evaluation
fused.client_loop
fused.adding fused.merging
fused.stages
fused.mapping fused.measuring
fused.choosing fused.debugging
fused.compiled
fused
"""
PRIVATE = [
    'proto.v0',
    'python.core.environments.tensorflow_backend',
    'python.core.environments.tensorflow_frontend',
    'python.core.impl.compiler',
    'python.core.impl.executors',
    'python.core.impl.types',
]
# The modules that may import by a string: what registers itself, programs.
FINDER = 'tff_pers.config.discovery'
STARTUP = 'tff_pers.experiments.startup'


MODULES = measure.modules(ROOT)


def _floors():
  """Returns the table of docs/architecture.md: names of entries, by floor.

  Lowest first. A module imports what is below it, and modules of its own entry;
  entries that share a floor know nothing of each other.
  """
  page = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
  rows = page.partition('| rooms, the lowest first |')[2].split('\n\n')[0]
  return [
      [
          name if name in measure.PACKAGES else f'tff_pers.{name}'
          for name in re.findall('`([a-z_.]+)`', row.split('|')[1])
      ] for row in rows.splitlines()[2:]
  ]


FLOORS = _floors()
RUNTIME_FLOORS = [
    *([f'{RUNTIME}.{name}' for name in line.split()]
      for line in _RUNTIME_FLOORS.strip().splitlines()),
    [RUNTIME],
]


def _imported(name, for_types=True):
  """Returns the names of our modules that the module `name` imports."""
  names = measure.imported(MODULES[name], for_types)
  assert not [n for n in names if n.startswith('.')], 'relative import'
  ours = (*measure.PACKAGES, 'tests')
  return [n for n in names if n.split('.')[0] in ours]


def _is_in(name, entry):
  return name == entry or name.startswith(entry + '.')


def _place(name, floors=FLOORS):
  """Returns (number of the floor, entry) of a module, or None.

  The longest entry counts: `data.tasks` is not on the floor of `data`.
  """
  places = [
      (number, entry) for number, entries in enumerate(floors)
      for entry in entries if _is_in(name, entry)
  ]
  return max(places, key=lambda place: len(place[1]), default=None)


def _may_import(name, imported):
  """Returns whether the module `name` may import `imported`."""
  if imported in ('tff_pers', TFF, 'tff_pers.number_inputs'):
    return True
  if _is_in(name, RUNTIME) or _is_in(imported, RUNTIME):
    if not _is_in(imported, RUNTIME) or not _is_in(name, RUNTIME):
      return _is_in(imported, RUNTIME) and any(
          _is_in(name, entry) for entry in RUNTIME_USERS
      )
    mine, other = (_place(n, RUNTIME_FLOORS) for n in (name, imported))
  else:
    mine, other = _place(name), _place(imported)
  return other is not None and (mine == other or other[0] < mine[0])


def test_every_module_has_its_floor():
  homeless = [
      name for name in MODULES
      if not _place(name) and not _is_in(name, RUNTIME) and name != 'tff_pers'
  ]
  assert not homeless


@pytest.mark.parametrize('name', sorted(MODULES))
def test_module_imports_lower_floors_only(name):
  if name == 'tff_pers':  # Else every module would import all of them.
    assert _imported(name, for_types=False) == ['tff_pers.moved']
    return
  assert not [i for i in _imported(name) if not _may_import(name, i)]


@pytest.mark.parametrize(
    'name, imported, may',
    [
        ('tff_pers.models.zoo', 'tff_pers.numerics.low_rank', True),
        ('tff_pers.models.zoo', 'tff_pers.models.functional', True),
        ('tff_pers.numerics.mixing', 'tff_pers.models.zoo', False),
        ('tff_pers.config.methods', 'tff_pers.numerics.mixing', False),
        ('tff_pers.data.split', 'tff_pers.data.tasks.digits', False),
        ('tff_pers.algorithms.floral.floral', 'baselines.fedavg', False),
        ('baselines.fedavg', 'tff_pers.algorithms.floral.floral', True),
        ('baselines.fedavg', 'tff_pers.simulation.program', False),
        ('tff_pers.algorithms.perm.perm', 'tff_pers.algorithms.floral.floral', False),
        ('tff_pers.core.process', 'tff_pers.config.methods', False),
        ('baselines.fedavg', 'tff_pers.runtime.fused', False),
        ('tff_pers.runtime.fused', 'tff_pers.core.random', False),
        ('tff_pers.runtime.fused.mapping', 'tff_pers.runtime.fused.merging.merge', True),
        ('tff_pers.runtime.fused.values.layout', 'tff_pers.runtime.fused.graphs.graph', False),
        ('tff_pers.runtime.native.runtime', 'tff_pers.runtime.remote.round', False),
        ('tff_pers.runtime.fused.runtime', 'tff_pers.runtime.native', True),
        ('binaries.train', 'tff_pers.runtime.fused', True),
        ('binaries.train', 'tests.problems', False),
    ],
)
def test_floors_mean_what_they_say(name, imported, may):
  assert _may_import(name, imported) == may


def test_tff_is_imported_in_one_module():
  """And its private modules in the runtime, listed."""
  found = {}
  for name, path in MODULES.items():
    for node in ast.walk(ast.parse(path.read_text())):
      imported = [] if not isinstance(node, ast.Import) else [
          alias.name for alias in node.names
      ]
      if isinstance(node, ast.ImportFrom):
        imported = [node.module]
      for module in imported:
        if module.split('.')[0] == 'tensorflow_federated':
          found.setdefault(module, set()).add(name)
  assert found.pop('tensorflow_federated') == {TFF}
  private = sorted(module.removeprefix('tensorflow_federated.') for module in found)
  assert private == PRIVATE
  assert all(_is_in(n, RUNTIME) for names in found.values() for n in names)


def test_only_the_finder_imports_by_a_string():
  """An import by a string goes past the test of the floors."""
  users = {
      name for name, path in MODULES.items()
      for node in ast.walk(ast.parse(path.read_text()))
      if isinstance(node, ast.Call) and ast.unparse(node.func).split('.')[-1]
      in ('import_module', '__import__')
  }
  # The package itself does so where a public name, or an old path, is used;
  # `startup.program` for a script of the top floor, which may import everything.
  assert users == {FINDER, 'tff_pers', 'tff_pers.moved', STARTUP}
  scripts = [
      name for name, path in MODULES.items()
      if 'startup.program(' in path.read_text()
  ]
  assert scripts and all(_is_in(name, 'binaries') for name in scripts)
