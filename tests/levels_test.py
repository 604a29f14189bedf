"""The levels of tests: how they are chosen, and that the list fits the tests."""

import ast
import pathlib

import pytest

from tests import levels

pytestmark = pytest.mark.text

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECONDS = {
    'a.py::quick': 0.1, 'a.py::medium': 0.35, 'a.py::slow': 9.0,
    'a.py::cases[1]': 2.0, 'a.py::cases[2]': 0.1, 'a.py::cheapest': 1.0,
    'b.py::alone': 3.0, 'c.py::alone': 7.0,
}


def test_what_faults_and_files_need_is_not_slow():
  chosen = levels.chosen(SECONDS, [
      ['a.py::slow', 'a.py::cheapest', 'a.py::gone'], ['a.py::slow'], [],
  ])
  assert chosen == {
      'a.py::medium': 'medium', 'a.py::slow': 'slow', 'a.py::cases[1]': 'slow',
      'a.py::cheapest': 'medium', 'b.py::alone': 'medium',
      'c.py::alone': 'slow',
  }
  assert levels.lines(SECONDS, chosen)[:2] == [
      'slow 2.0 a.py::cases[1]', 'medium 1.0 a.py::cheapest',
  ]


def test_a_fault_of_a_test_with_cases_needs_them_all():
  chosen = levels.chosen(SECONDS, [['a.py::cases']])
  assert chosen['a.py::cases[1]'] == 'medium'


@pytest.mark.parametrize('name, level', [
    ('a.py::x', 'slow'), ('a.py::x[fedavg]', 'slow'), ('a.py::y[perm]', None),
    ('tests/contracts/methods_test.py::y', None),
    ('tests/contracts/methods_test.py::y[fedavg]', None),
    ('tests/contracts/methods_test.py::y[fedavg-2]', None),
    ('tests/contracts/methods_test.py::y[fedavgm]', 'medium'),
])
def test_contracts_of_few_methods_are_quick(name, level):
  assert levels.of(name, {'a.py::x': 'slow'}) == level


def test_what_was_not_measured_keeps_its_line():
  # Of a test with slow cases `make test` measures the others alone.
  before = ['slow 2.0 a.py::cases[1]', 'slow 9.0 a.py::slow']
  kept = ['slow 2.0 a.py::cases[3]', 'slow 9.0 a.py::other', 'medium 1 b.py::x[1]']
  assert levels.unmeasured(before + kept, SECONDS) == kept


def test_no_method_lacks_its_recorded_values_because_it_once_was_slow():
  """In `make test`; those in `contracts.alike` share their code with others."""
  name = 'tests/contracts/methods_test.py::test_rounds_give_the_recorded_values'
  line = f'slow 0.5 {name}[perm]'
  assert levels.unmeasured([line], {name + '[fedavg]': 0.3}) == []
  assert 'slow' not in {
      level for test, level in levels.read().items() if test.startswith(name)
  }


def test_the_lists_name_tests_that_are_there():
  defined = {}
  for name in {*levels.read(), *levels.kept()}:
    path, test = name.partition('[')[0].split('::')
    if path not in defined:
      defined[path] = {
          node.name for node in ast.walk(ast.parse((ROOT / path).read_text()))
          if isinstance(node, ast.FunctionDef)
      }
    # Contracts are tests that an import brings.
    if not path.startswith('tests/contracts/'):
      assert test in defined[path], name


def test_cases_stay_of_a_test_that_is_slow(monkeypatch):
  monkeypatch.setattr(levels, 'kept', lambda: {'a.py::cases[2]'})
  before = ['slow 9.0 a.py::cases', 'slow 9.0 a.py::cases[2]']
  seconds = {'a.py::cases[2]': 0.1}
  assert levels.unmeasured(before, seconds) == before[:1]
  assert levels.lines(seconds, {}) == ['medium 0.1 a.py::cases[2]']


def test_what_stays_is_not_slow():
  stays = levels.kept()
  assert not [
      name for name, level in levels.read().items()
      if level == 'slow' and {name, name.partition('[')[0]} & stays
  ]
