"""Every method on every task that needs no files, as the table says."""

import functools

import pytest
import tensorflow_federated as tff

from tests.contracts import alike
from tff_pers.config import methods
from tff_pers.data import tasks
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import processes

TABLE = flags.all_flags(flags.own_flag('algo', 'perm', 'The method.'))
# One of regression: the tiny task of the other contracts has labels. With
# labels on all the others, which takes minutes.
FAST = ['floral_linear']
SLOW = [
    'digits', 'floral_label_shift', 'floral_mlp', 'gaussian_modes',
    'low_rank_regression', 'overpersonalized', 'overpersonalized_control',
    'synthetic_groups',
]
TASKS = [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
_NAMES = alike.slow_if_alike(methods.names())


@functools.lru_cache(maxsize=None)
def _process(name, task):
  given = dict(algo=name, task=task)
  return processes.build(experiment.build(given, TABLE)).process


def _fit(name, task):
  declares = tasks.get(task).declares
  return methods.fit(
      methods.get(name), declares.traits, declares.alternatives()
  )


def _lacks(name, task):
  return methods.missing_needs(
      methods.get(name), tasks.get(task).declares.traits
  )


@pytest.mark.parametrize('name', _NAMES)
@pytest.mark.parametrize('task', TASKS)
def test_a_pair_is_built_or_refused_as_declared(task, name):
  lacks = _lacks(name, task)
  # Of what other flags help with, a model is chosen.
  if not lacks or (_fit(name, task) == 'flags' and lacks[0].model):
    _process(name, task)
    return
  with pytest.raises(flags.UsageError) as error:
    _process(name, task)
  assert lacks[0].sentence in str(error.value)


@pytest.mark.parametrize('name', _NAMES)
def test_what_travels_are_fields_of_the_server_state(name):
  """The contract of methods compares the types; see there."""
  if 'batch_norm' in methods.get(name).needs:
    pytest.skip('The default models of these tasks have none.')
  travels = methods.get(name).travels or methods.Travels((), ())
  # The fastest task whose model has layers enough.
  fits_linear = _fit(name, 'floral_linear') == 'yes'
  task = 'floral_linear' if fits_linear else 'floral_mlp'
  fields = tff.structure.name_list(_process(name, task).server_state_type)
  assert {*travels.down, *travels.up} <= set(fields)


def test_a_pair_is_refused_as_declared_on_files(tmp_path):
  """A `-` of the table where the data are a user's own file."""
  path = tmp_path / 'mine.csv'
  path.write_text('client,x,y\n' + '0,1,0\n0,2,1\n1,1,0\n1,3,1\n' * 5)
  refused = [n for n in methods.names() if _fit(n, 'csv') == 'no']
  assert 'oracle_groups' in refused
  for name in refused:
    given = dict(algo=name, task='csv', data_dir=str(path))
    with pytest.raises(flags.UsageError) as error:
      experiment.build(given, TABLE)
    assert _lacks(name, 'csv')[0].sentence in str(error.value)
    assert 'Tip' not in str(error.value)


def test_all_tasks_without_files_are_here():
  """A task that takes no files refuses `--data_dir`."""
  embedded = []
  for name in tasks.names():
    family = tasks.get(name)
    try:
      family.build(tasks.TaskRequest(data_dir='/nonexistent'), family.options())
    except ValueError as error:
      if '`data_dir` must not be given' in str(error):
        embedded.append(name)
  assert sorted([*FAST, *SLOW]) == embedded
