"""The table of methods and tasks, and its page in docs/."""

import dataclasses
import pathlib

from tff_pers.config import methods
from tff_pers.data import tasks
from tff_pers.experiments import methods_and_tasks

PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'tasks.md'


def test_the_page_is_up_to_date():
  """Else: `make docs`."""
  made = methods_and_tasks.page()
  head, heading, rest = PAGE.read_text().partition(made.split('\n')[0])
  assert head and heading + rest == made


def test_the_table_is_whole():
  number = len(tasks.names())
  lines = [line.split() for line in methods_and_tasks.matrix()]
  assert [head[-1] for head in lines[:number]] == tasks.names()
  assert [row[0] for row in lines[number:]] == methods.names()
  assert {len(row) for row in lines[number:]} == {1 + number}


def _marks(name):
  rows = [line.split() for line in methods_and_tasks.matrix()]
  return dict(zip(tasks.names(), next(r[1:] for r in rows if r[0] == name)))


def test_marks_say_what_is_declared(monkeypatch):
  marks = _marks('oracle_groups')
  assert (marks['digits'], marks['npz']) == ('+', '-')
  needy = dataclasses.replace(
      methods.get('fedavg'), name='needy', needs={'full_participation': bool}
  )
  # pylint: disable-next=protected-access
  monkeypatch.setitem(methods._METHODS._entries, 'needy', needy)
  marks = _marks('needy')
  assert (marks['digits'], marks['cifar100'], marks['npz']) == ('+', 'f', '+')


def test_needs_are_named_with_flags_that_help():
  text = ' '.join(' '.join(methods_and_tasks.help_lines()).split())
  need = methods.NEEDS['groups']
  assert f'oracle_groups needs {need.sentence}. Flags: {need.tip}.' in text
