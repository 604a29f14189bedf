"""Tables which method runs on which task, for `--help` and docs.

    python -m tff_pers.experiments.methods_and_tasks

prints the end of docs/tasks.md from the declarations of methods and tasks; it
loads no data and builds nothing. A test checks that the page is up to date.
"""

import os

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

# pylint: disable=g-import-not-at-top, unused-import
import textwrap
from typing import Iterable

import baselines
from tff_pers import algorithms
from tff_pers.config import methods
from tff_pers.data import tasks

_MARKS = {'yes': '+', 'flags': 'f', 'data': '?', 'no': '-'}
_LEGEND = (
    '+ runs, f runs with other flags than the defaults, - does not run,'
    ' ? depends on the data'
)
_WIDTH = 80


def matrix() -> list[str]:
  """Returns the lines of the table of methods (rows) and tasks (columns).

  Task names stand diagonally above their columns, so that sixteen of them fit
  into 80 characters.
  """
  families = [tasks.get(name) for name in tasks.names()]
  margin = ' ' * (2 + max(map(len, methods.names())))
  lines = [
      (margin + ' |' * number + f' {family.name}')
      for number, family in enumerate(families)
  ]
  for name in methods.names():
    marks = [
        _MARKS[methods.fit(
            methods.get(name), family.declares.traits,
            family.declares.alternatives(),
        )]
        for family in families
    ]
    lines.append(f'  {name}'.ljust(len(margin)) + f' {" ".join(marks)}')
  return lines


def help_lines() -> list[str]:
  """Returns the lines that `--help` prints about methods and tasks."""
  lines = ['Methods (--algo):']
  lines += _list((n, methods.get(n).summary) for n in methods.names())
  lines += ['', 'Tasks (--task):']
  lines += _list((n, tasks.get(n).summary) for n in tasks.names())
  lines += ['', *textwrap.wrap(f'Methods on tasks ({_LEGEND}):', _WIDTH), '']
  lines += matrix()
  needy = _needs()
  lines += [''] * bool(needy)
  for method, need in needy:
    lines += textwrap.wrap(
        f'{method} needs {methods.NEEDS[need].sentence}. Flags:'
        f' {methods.NEEDS[need].tip}.', _WIDTH, initial_indent='  ',
        subsequent_indent='    ',
    )
  return lines


def page() -> str:
  """Returns the end of a page of the documentation, in Markdown."""
  lines = [
      '## Methods on tasks', '',
      'Made by `make docs` from what methods and'
      ' tasks declare; not to be edited.', '',
      f'{_LEGEND[0].upper()}{_LEGEND[1:]}.', '', '```', *matrix(), '```', '',
      '### What methods need', '',
      'Without `--model`, `train` takes a model that fits the method, and says'
      ' so. Programs that compare methods do not: all methods have one model.',
      '',
      '| method | needs | flags that help |', '|---|---|---|',
  ]
  lines += [
      f'| `{method}` | {methods.NEEDS[need].sentence} |'
      f' {methods.NEEDS[need].tip} |' for method, need in _needs()
  ]
  lines += [
      '', '### What tasks have by default', '',
      '| task | y | model | clients | per round | partition | groups |',
      '|---|---|---|---|---|---|---|',
  ]
  lines += [_task_row(tasks.get(name)) for name in tasks.names()]
  return '\n'.join(lines) + '\n'


def _needs() -> list[tuple[str, str]]:
  """Returns pairs of a method and the name of one of its needs."""
  return [
      (name, need) for name in methods.names()
      for need in methods.get(name).needs
  ]


def _list(rows: Iterable[tuple[str, str]]) -> list[str]:
  return [f'  {name:22} {summary}' for name, summary in rows]


def _task_row(family: tasks.TaskFamily) -> str:
  declares = family.declares
  kinds = {True: 'labels', False: 'numbers', None: 'depends on the data'}
  cells = [
      f'`{family.name}`', kinds[declares.classification],
      f'`{declares.model}`' if declares.model else 'depends on y',
      f'{declares.num_clients or "all of the data"}',
      f'{declares.clients_per_round or "all"}',
      f'`{declares.partition}`' if declares.partitions else 'its own',
      'known' if declares.traits.groups else 'unknown',
  ]
  return f'| {" | ".join(cells)} |'


if __name__ == '__main__':
  print(page(), end='')
