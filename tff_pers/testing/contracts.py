"""Contracts of methods and tasks, as tests added by one import.

    # tests/contracts_test.py of your package
    from tff_pers.testing.contracts import *
    import my_package.trimmed_prox
    import my_package.moons

    METHODS = ('trimmed_prox',)
    TASKS = ('moons',)

pytest then runs every battery on these. METHODS may be a mapping to values of
hyperparameters, for methods that need other values than the defaults to be
visible in three rounds of three steps: `{'perm': dict(warmup_rounds=1)}`.
Either may be left out.

A method is tested on a tiny task: types, messages, seeds, resuming, order,
padding, NaN, clients without examples, a decreasing loss, partial cohorts,
Byzantine clients, the hyperparameter space. A task: that it matches its
declaration, its data, seeds, splits, that each of METHODS is built on it or
refused in one sentence, and that FedAvg trains on it.
"""

from typing import Iterator

import pytest

from tff_pers.runtime import fused
from tff_pers.runtime import native
from tff_pers.testing import rounds
# pylint: disable=wildcard-import
from tff_pers.testing.method_contract import *
from tff_pers.testing.registry_contract import *
from tff_pers.testing.task_contract import *


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
  """Parametrizes tests by methods and tasks; pytest finds it by name."""
  methods = getattr(metafunc.module, 'METHODS', ())
  tasks = getattr(metafunc.module, 'TASKS', ())
  names = set(metafunc.fixturenames)
  if 'case' in names:
    metafunc.parametrize('case', list(methods), indirect=True, scope='module')
  if 'task_name' in names:
    metafunc.parametrize('task_name', list(tasks))
  if 'method_name' in names:
    metafunc.parametrize('method_name', list(methods))


@pytest.fixture(scope='module', autouse=True)
def fused_runtime() -> Iterator[None]:
  """Runs the tests of a module in this process, without a worker."""
  with fused.use(strategy='loop'):
    yield
  native.stop()


@pytest.fixture(scope='module')
def case(request: pytest.FixtureRequest) -> rounds.Case:
  """The method of a test, and its first rounds."""
  methods = getattr(request.module, 'METHODS', ())
  values = methods[request.param] if isinstance(methods, dict) else {}
  return rounds.case(request.param, values)
