"""Imports point one way (DESIGN, layout): a package imports lower ones only."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Lowest first. Packages of one layer may import each other's modules, except
# that `runtime` and the layers know nothing of each other.
LAYERS = (
    (
        'tff_pers.conditions', 'tff_pers.hyperparameters', 'tff_pers.methods',
        'tff_pers.models',
        'tff_pers.data', 'tff_pers.numerics', 'tff_pers.process',
        'tff_pers.random', 'tff_pers.round_metrics',
        'tff_pers.server_optimizers',
    ),
    ('tff_pers.aggregators', 'tff_pers.client_works'),
    (
        'tff_pers.composition', 'tff_pers.deployment', 'tff_pers.dispatch',
        'tff_pers.round_steps', 'tff_pers.server_state',
    ),
    ('tff_pers.algorithms', 'baselines'),
    ('tff_pers.analysis', 'tff_pers.evaluation', 'tff_pers.simulation'),
    ('binaries',),
)
RUNTIME = 'tff_pers.runtime'


def _modules():
  for package in ('tff_pers', 'baselines', 'binaries'):
    for path in sorted((ROOT / package).rglob('*.py')):
      parts = path.relative_to(ROOT).with_suffix('').parts
      yield '.'.join(p for p in parts if p != '__init__'), path


MODULES = dict(_modules())


def _imported(path):
  """Yields the names of our modules that the file imports, wherever."""
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{path}: relative import'
      names = [f'{node.module}.{alias.name}' for alias in node.names]
    else:
      continue
    for name in names:
      if name.split('.')[0] in ('tff_pers', 'baselines', 'binaries', 'tests'):
        yield name


def _layer(name):
  """Returns the number of the layer, or None outside of them."""
  for number, packages in enumerate(LAYERS):
    if any(name == p or name.startswith(p + '.') for p in packages):
      return number
  return None


def _is_runtime(name):
  return name == RUNTIME or name.startswith(RUNTIME + '.')


def test_every_module_has_its_layer():
  homeless = [
      name for name in MODULES
      if _layer(name) is None and not _is_runtime(name) and name != 'tff_pers'
  ]
  assert not homeless


@pytest.mark.parametrize('name', sorted(MODULES))
def test_module_imports_lower_layers_only(name):
  for imported in _imported(MODULES[name]):
    assert not imported.startswith('tests.'), 'code does not import tests'
    if name == 'tff_pers':  # Exposes its packages.
      continue
    if _is_runtime(name):
      assert _is_runtime(imported), f'runtime imports {imported}'
    elif _is_runtime(imported):
      assert name.startswith('binaries'), f'{name} knows where it runs'
    else:
      assert _layer(imported) is not None, imported
      assert _layer(imported) <= _layer(name), imported


def test_method_files_do_not_import_binaries_or_tests_by_string():
  """No module is imported by a string, past the test above."""
  for name, path in MODULES.items():
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        assert called not in ('importlib.import_module', '__import__'), name
