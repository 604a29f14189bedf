"""Pages that are made from the code: methods, and the reference."""

import inspect
import pathlib
import pkgutil
import shutil
import sys
from typing import Sequence

import baselines
from docs.site import advice
from tff_pers import algorithms
from tff_pers.config import methods
from tff_pers.data import tasks
from tff_pers.experiments import flags

# Packages of the reference, and what they are.
_PACKAGES = {
    'tff_pers.algorithms': 'PERM, FLoRAL, FFGG, FedHM, local update methods',
    'baselines': 'What they are compared with',
    'tff_pers.composition': 'A method from plain functions',
    'tff_pers.client_works': 'What clients compute',
    'tff_pers.aggregators': 'What servers do with messages',
    'tff_pers.models': 'Models, adaptors, factorised and narrower models',
    'tff_pers.data': 'Clients, partitions, tasks, formats',
    'tff_pers.config': 'Hyperparameters, methods, settings',
    'tff_pers.core': 'The one interface, randomness, files',
    'tff_pers.attacks': 'What Byzantine clients send',
    'tff_pers.simulation': 'Rounds, cohorts, checkpoints',
    'tff_pers.evaluation': 'Tables, plots, reports',
    'tff_pers.experiments': 'An experiment, one run, many, a search',
    'tff_pers.analysis': 'Quantities of theory',
    'tff_pers.numerics': 'Projections, water-filling, k-means, matching',
    'tff_pers.runtime': 'Where computations run',
    'tff_pers.testing': 'What every method and task must pass',
}


def write(folder: pathlib.Path) -> None:
  """Writes all pages to a folder of their own, which is made again."""
  shutil.rmtree(folder, ignore_errors=True)
  _write(folder / 'methods', _methods())
  _write(folder / 'api', _reference())


def _write(folder: pathlib.Path, pages) -> None:
  folder.mkdir(parents=True)
  for name, lines in pages.items():
    (folder / f'{name}.md').write_text('\n'.join(lines) + '\n')


def _methods():
  """Returns the page of every method, and the list of them."""
  names = methods.names()
  index = ['# Algorithms and flags', '']
  for title, own in advice.families(names).items():
    index += [
        f'## {title}', '',
        *(f'* [`{name}`]({name}.md): {methods.get(name).summary}'
          for name in own), '',
    ]
  index += ['```{toctree}', ':hidden:', '', *names, '```']
  return {'index': index, **{name: method(name) for name in names}}


def method(name: str) -> list[str]:
  """Returns the page of a method, in Markdown."""
  family = methods.get(name)
  module = sys.modules[family.build.__module__]
  text = inspect.getdoc(builder(name)) or ''
  when, when_not = advice.of(name)
  return [
      f'# `{name}`', '', f'{_capital(family.summary)}.', '',
      *_fenced(_with_references(inspect.getdoc(module).splitlines())), '',
      '## Algorithm', '', *_fenced(_before_sections(text)), '',
      '## When to use it', '', _capital(when), '', '## When not', '',
      _capital(when_not), '',
      f'[What it costs, and who sees what](../../methods.md#{name}).', '',
      '## Run it', '', '```',
      f'python -m binaries.train --algo={name} --task=digits{_tips(family)}',
      '```', '', *_hyperparameters(name), '', f'Source: `{module.__name__}`.',
  ]


def builder(name: str):
  """Returns the public function that builds a method from a model.

  Methods that are others with a hyperparameter set share that of their module.
  """
  module = sys.modules[methods.get(name).build.__module__]
  own = getattr(module, f'build_{name}', None)
  return own or next(
      value for key, value in vars(module).items()
      if key.startswith('build_') and inspect.isfunction(value)
  )


def _tips(family) -> str:
  """Returns the flags that the task digits needs for a method, if any."""
  lacking = [
      methods.NEEDS[need] for need in family.needs
      if methods.NEEDS[need].holds(tasks.get('digits').declares.traits) is False
  ]
  return ''.join(dict.fromkeys(
      f' {need.tip}' for need in lacking if need.tip.startswith('--')
  ))


def _capital(text: str) -> str:
  return text[0].upper() + text[1:]


def _with_references(lines: Sequence[str]) -> list[str]:
  """Returns the lines; authors below the title of a paper follow it."""
  made = []
  for line in lines:
    title = made[-1] if made else ''
    if line.startswith('    ') and title and not title.startswith(' '):
      made[-1] += f' {line.strip()}'
    else:
      made.append(line)
  return made


def _before_sections(text: str) -> list[str]:
  lines = text.splitlines()
  ends = [number for number, line in enumerate(lines) if line == 'Args:']
  return lines[:ends[0]] if ends else lines


def _fenced(lines: Sequence[str]) -> list[str]:
  """Returns text whose indented blocks are fenced, as Markdown has code."""
  made, block = [], []
  for line in [*lines, 'end']:
    if line.startswith('  ') or (block and not line):
      block.append(line)
      continue
    if block:
      made += ['```text', *'\n'.join(block).rstrip().split('\n'), '```', '']
      block = []
    made.append(line)
  return made[:-1]


def _hyperparameters(name: str) -> list[str]:
  """Returns the table of a method's flags."""
  rows = [
      f'| `--{flag}` | `{flags.default_text(flag, entry)}` | {_cell(entry)} |'
      for flag, entry in flags.all_flags().items()
      if entry.kind == 'method' and entry.owner == name
  ]
  return [
      '## Hyperparameters', '',
      'Flags of the programs; in brackets behind `--algo` without the name of'
      ' the method.', '', '| flag | default | |', '|---|---|---|', *rows,
  ]


def _cell(entry) -> str:
  return entry.spec.metadata['help'].replace('|', '\\|')


def _reference():
  """Returns a page per package, and the list of them."""
  index = [
      '# API', '', 'From the docstrings of the code.', '',
      '```{toctree}', '', *_PACKAGES, 'tff_pers.plugins', '```',
  ]
  own = {'tff_pers.plugins': _automodules(
      'tff_pers.plugins', 'Methods and tasks of other packages',
      ['tff_pers.plugins'],
  )}
  for package, title in _PACKAGES.items():
    own[package] = _automodules(package, title, _modules(package))
  return {'index': index, **own}


def _modules(package: str) -> list[str]:
  """Returns the names of the modules of a package, and of those below."""
  __import__(package)
  return sorted(
      info.name for info in pkgutil.walk_packages(
          sys.modules[package].__path__, f'{package}.'
      ) if not info.ispkg
  )


def _automodules(package: str, title: str, names: Sequence[str]) -> list[str]:
  lines = [f'# `{package}`', '', f'{title}.', '']
  for name in names:
    lines += [
        f'## `{name}`', '', '```{eval-rst}', f'.. automodule:: {name}',
        '   :members:', '```', '',
    ]
  return lines
