"""Docstrings: every public object has one, those that are exported a full one.

Files are read, not imported. A method that overrides a documented one of a base
class of this package needs none of its own.
"""

import ast
import pathlib
import re

import pytest

pytestmark = pytest.mark.text

ROOT = pathlib.Path(__file__).resolve().parents[1]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Packages whose `__init__` imports the names that users should find.
_EXPORTING = (
    'tff_pers.aggregators', 'tff_pers.aggregators.robust', 'tff_pers.attacks',
    'tff_pers.client_works', 'tff_pers.models',
)


def _trees():
  """Returns the syntax tree of every module of both packages, by name."""
  trees = {}
  for package in ('tff_pers', 'baselines'):
    for path in sorted((ROOT / package).rglob('*.py')):
      parts = path.relative_to(ROOT).with_suffix('').parts
      name = '.'.join(part for part in parts if part != '__init__')
      trees[name] = ast.parse(path.read_text())
  return trees


def _is_public(name: str) -> bool:
  return not any(part.startswith('_') for part in name.split('.'))


class Project:
  """Definitions of modules, found by what a module calls them."""

  def __init__(self, trees):
    self.trees = trees
    self._own = {
        name: {
            node.name: node for node in tree.body
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef))
        } for name, tree in trees.items()
    }
    self._methods_of = {
        name: {
            method.name: method for node in own.values()
            if isinstance(node, ast.ClassDef) for method in _methods(node)
        } for name, own in self._own.items()
    }
    self._imports = {name: self._imported(trees[name]) for name in trees}

  def _imported(self, tree):
    """Returns full dotted names by the names that imports give them."""
    return {
        alias.asname or alias.name: f'{node.module}.{alias.name}'
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) for alias in node.names
    }

  def find(self, module, expression):
    """Returns (module, definition) of a name or `module.name`, or None."""
    text = ast.unparse(expression)
    first, _, rest = text.partition('.')
    if not rest and first in self._own[module]:
      return module, self._own[module][first]
    full = self._imports[module].get(first, '') + ('.' + rest if rest else '')
    owner, _, name = full.rpartition('.')
    if name in self._own.get(owner, {}):
      return owner, self._own[owner][name]
    # A package re-exports what it imports, one of its own modules also to itself.
    if name in self._imports.get(owner, {}) and (owner, name) != (module, text):
      return self.find(owner, ast.Name(name))
    return None

  def is_inherited(self, module, cls, method) -> bool:
    """Whether a base class has a documented method of this name."""
    for base in cls.bases:
      found = self.find(module, base)
      if found is None:
        continue
      owner, parent = found
      for node in _methods(parent):
        if node.name == method and ast.get_docstring(node):
          return True
      if self.is_inherited(owner, parent, method):
        return True
    return False

  def undocumented(self, module):
    """Yields the names of public objects of a module without docstring."""
    tree = self.trees[module]
    if tree.body and not ast.get_docstring(tree):
      yield module
    for name, node in self._own[module].items():
      if name.startswith('_'):
        continue
      if not ast.get_docstring(node):
        yield f'{module}.{name}'
      for method in _methods(node) if isinstance(node, ast.ClassDef) else ():
        if (
            _is_public(method.name) and not ast.get_docstring(method)
            and not self.is_inherited(module, node, method.name)
        ):
          yield f'{module}.{name}.{method.name}'

  def silent(self, module):
    """Yields public functions that raise, and whose docstring does not say so."""
    waiting = list(self._own[module].values())
    while waiting:
      node = waiting.pop()
      text = _is_public(node.name) and ast.get_docstring(node)
      if text and isinstance(node, ast.ClassDef):
        waiting += _methods(node)
      elif text and _raised_in(node) and not re.search(r'\b[Rr]aise', text):
        yield f'{module}.{node.name}'

  def incomplete(self, module, node):
    """Yields what the docstring of a function or class does not say."""
    if isinstance(node, ast.ClassDef):
      yield from self._incomplete_class(module, node)
    else:
      yield from self._incomplete_function(module, node, ())

  def _incomplete_class(self, module, cls):
    documented = self._attributes(module, cls)
    for field in cls.body:
      if (
          isinstance(field, ast.AnnAssign) and _is_public(field.target.id)
          and field.target.id not in documented and not _has_help(field)
      ):
        yield f'{cls.name}: attribute {field.target.id}'
    for method in _methods(cls):
      if self.is_inherited(module, cls, method.name):
        continue
      if method.name == '__init__' or _is_public(method.name):
        for lack in self._incomplete_function(module, method, ('self', 'cls')):
          yield f'{cls.name}.{lack}'

  def _attributes(self, module, cls):
    """Returns the attributes that a class or a base of it explains."""
    names = _entries(ast.get_docstring(cls), 'Attributes')
    for base in cls.bases:
      found = self.find(module, base)
      if found is not None:
        names += self._attributes(*found)
    return names

  def _incomplete_function(self, module, function, unnamed):
    text = ast.get_docstring(function) or ''
    documented = _entries(text, 'Args')
    for name in _parameters(function):
      if name not in documented and name not in unnamed:
        yield f'{function.name}: argument {name}'
    is_property = any(
        'property' in ast.unparse(d) for d in function.decorator_list
    )
    is_builder = 'builders.checked' in map(ast.unparse, function.decorator_list)
    says_returns = is_builder or 'Returns:' in text or re.search(
        r'\b[Rr]eturns ', text.partition('\n\n')[0]
    )
    if _returns(function) and not is_property and not says_returns:
      yield f'{function.name}: what it returns'
    raised = self._raised(module, function)
    for name in sorted(raised - set(_entries(text, 'Raises'))):
      yield f'{function.name}: that it raises {name}'

  def _raised(self, module, function):
    """Returns what a function and its checks raise.

    A check is a private function or method beside it, or called `check...`.
    What the decorator of builders checks it says itself, see `builders_test`.
    """
    raised = _raised_in(function)
    for call in _calls(function):
      callee = self._callee(module, call.func)
      if callee and re.match(r'_|check(_|$)', callee.name):
        raised |= _raised_in(callee)
    return raised

  def _callee(self, module, expression):
    """Returns the called function, None if it is not in these packages."""
    text = ast.unparse(expression)
    if text.startswith('self.'):
      return self._methods_of[module].get(text[len('self.'):])
    found = self.find(module, expression)
    return found[1] if found and isinstance(found[1], _FUNCTIONS) else None

  def exported(self):
    """Yields (module, definition) of what users are shown first.

    That is what `tff_pers.__all__` lists, what its packages export by name, and
    builders of `baselines`.
    """
    for module, names in self._constant('tff_pers', '_NAMES').items():
      for name in names:
        yield self.find(module, ast.Name(name)) or self._in_package(module, name)
    for module, tree in self.trees.items():
      for node in tree.body if module in _EXPORTING else ():
        for alias in getattr(node, 'names', ()):
          found = self.find(module, ast.Name(alias.name))
          if found is not None:
            yield found
      for name, node in self._own[module].items():
        if module.startswith('baselines.') and name.startswith('build_'):
          yield module, node

  def _constant(self, module, name):
    """Returns the value of a constant of a module."""
    return next(
        ast.literal_eval(node.value) for node in self.trees[module].body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets) == name
    )

  def _in_package(self, package, name):
    """Returns a definition in a package that finds its modules by itself."""
    return next(
        (module, own[name]) for module, own in self._own.items()
        if module.startswith(f'{package}.') and name in own
    )


def _methods(cls):
  return [
      node for node in cls.body
      if isinstance(node, _FUNCTIONS) and not any(
          ast.unparse(d).endswith('.setter') for d in node.decorator_list
      )
  ]


def _parameters(function):
  arguments = function.args
  every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
  every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
  return [a.arg for a in every if not a.arg.startswith('_')]


def _entries(text, section):
  """Returns the names that a section of a docstring explains."""
  block = re.search(rf'^{section}:\n((?:  .*\n?|\n)*)', text or '', re.M)
  found = re.findall(r'^  (\S.*?):', block.group(1), re.M) if block else []
  return [name.split('.')[-1].strip('*') for name in found]


def _own_nodes(function):
  """Yields the nodes of a function without those of functions inside of it."""
  waiting = list(function.body)
  while waiting:
    node = waiting.pop()
    yield node
    if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
      waiting += ast.iter_child_nodes(node)


def _calls(node):
  """Yields the calls whose errors nothing turns into others."""
  for child in ast.iter_child_nodes(node):
    if isinstance(child, ast.Call):
      yield child
    if not isinstance(child, (ast.Try, ast.With)):
      yield from _calls(child)


def _has_help(field) -> bool:
  """Whether it is a hyperparameter, whose help text goes to the docstring."""
  return isinstance(field.value, ast.Call) and (
      ast.unparse(field.value.func) != 'dataclasses.field'
  )


def _returns(function) -> bool:
  return any(
      isinstance(node, ast.Return) and node.value is not None
      and ast.unparse(node.value) != 'None' for node in _own_nodes(function)
  )


def _raised_in(function):
  """Returns the names of the errors that stand in a function."""
  return {
      ast.unparse(node.exc).partition('(')[0].split('.')[-1]
      for node in _own_nodes(function)
      if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
  }


PROJECT = Project(_trees())
_EXPORTED = {
    f'{module}.{node.name}': (module, node)
    for module, node in PROJECT.exported()
}


def test_every_public_object_has_a_docstring():
  missing = [
      name for module in PROJECT.trees if _is_public(module)
      for name in PROJECT.undocumented(module)
  ]
  assert not missing


def test_every_public_function_that_raises_says_so():
  # What `load` raises it catches itself.
  silent = {
      name for module in PROJECT.trees if _is_public(module)
      for name in PROJECT.silent(module)
  }
  assert silent == {'tff_pers.plugins.load'}


@pytest.mark.parametrize('name', sorted(_EXPORTED))
def test_an_exported_name_says_arguments_results_and_errors(name):
  assert not list(PROJECT.incomplete(*_EXPORTED[name]))


def _project(**sources):
  """Returns a project of modules `tff_pers.NAME`."""
  return Project({
      f'tff_pers.{name}': ast.parse(text) for name, text in sources.items()
  })


def test_it_finds_what_has_no_docstring():
  base = '"""Base."""\nclass Base:\n  """B."""\n  def known(self):\n    """K."""\n'
  own = (
      'from tff_pers import base\n'
      'class Own(base.Base):\n'
      '  def known(self):\n    pass\n'
      '  def fresh(self):\n    pass\n'
      '  def _private(self):\n    pass\n'
      'def function():\n  def inner():\n    pass\n'
      'def _function():\n  pass\n'
  )
  project = _project(base=base, own=own)
  assert not list(project.undocumented('tff_pers.base'))
  assert list(project.undocumented('tff_pers.own')) == [
      'tff_pers.own', 'tff_pers.own.Own', 'tff_pers.own.Own.fresh',
      'tff_pers.own.function',
  ]


@pytest.mark.parametrize(
    'text, lacks',
    [
        ('"""Does it."""', ['argument x', 'what it returns', 'that it raises TypeError', 'that it raises ValueError']),
        ('"""Returns it.\n\n  Args:\n    x: A thing.\n\n  Raises:\n    TypeError: If no.\n  """', ['that it raises ValueError']),
        ('"""Does it.\n\n  Args:\n    x: A thing.\n\n  Returns:\n    It.\n\n  Raises:\n    TypeError: No.\n    ValueError: No.\n  """', []),
    ],
    ids=['nothing', 'no error', 'all'],
)
def test_it_finds_what_a_docstring_does_not_say(text, lacks):
  """The one error is raised in the body, the other by a check."""
  source = (
      f'def public(x):\n  {text}\n  _check(x)\n  if not x:\n'
      '    raise TypeError(x)\n  return x\n'
      'def _check(x):\n  raise ValueError(x)\n'
  )
  project = _project(module=source)
  function = project.trees['tff_pers.module'].body[0]
  found = project.incomplete('tff_pers.module', function)
  assert list(found) == [f'public: {lack}' for lack in lacks]
