"""Builds from traces on disk: the same computations, and only for equal ones."""

import contextlib
import dataclasses
import os

import pytest
import tensorflow as tf

from tests.baselines.rounds import assert_identical
from tests.experiments.processes_test import _experiment
from tff_pers.config import methods
from tff_pers.config import registry
from tff_pers.core import interception
from tff_pers.core import traces
from tff_pers.experiments import processes
from tff_pers.runtime import fused
from tff_pers.runtime.fused import kept
from tff_pers.runtime.fused.graphs import libraries
from tff_pers.runtime.fused.graphs import number_variables
from tff_pers.runtime.fused.graphs import stored
from tff_pers.testing import rounds
from tff_pers import tff

# What has a build of its own kind: rounds of cohorts, rates that are products
# of others, kernels as factors, tiers, an attack on a robust rule, an input
# that only traced functions fix.
_BUILDS = [
    dict(algo='perm', clients_per_round=3),
    dict(algo='floral'),
    dict(algo='local_only[local_steps=1]', model='mlp_200'),
    dict(algo='fedhm', model='mlp_20'), dict(algo='fedamp'),
    dict(algo='fedavg[aggregator=median]', num_byzantine=1, attack='sign_flip'),
]
_PARTS = ('initialize_seeded', 'initialize_client', 'next', 'evaluate')


@pytest.fixture(name='build')
def fixture_build(tmp_path, monkeypatch):
  """Returns a function that builds like a new process.

  It returns what was built, the inputs that are fixed, and what was traced.
  """

  def build(experiment=None, folder=tmp_path / 'kept', **given):
    traced = []

    def counted(self, signature, trace):
      return take(self, signature, lambda: traced.append(signature) or trace())

    with monkeypatch.context() as patch, fused.use('cpu', compile_cache=folder):
      patch.setattr(processes, '_last', None)
      patch.setattr(traces.Traces, 'take', counted)
      built = processes.build(experiment or _experiment(**given))
      numbers = processes._last.numbers  # pylint: disable=protected-access
    return built, [name for name in numbers if numbers[name].fixed], traced

  take = traces.Traces.take
  return build


@pytest.fixture(name='shared', scope='module')
def fixture_shared(tmp_path_factory):
  return tmp_path_factory.mktemp('shared') / 'kept'


def _bytes(computation):
  proto = tff.framework.serialize_computation(computation)
  return number_variables.numbered(libraries.canonical(proto))[0]


def _values_of_inputs(computation):
  """Canonical bytes leave them out."""
  proto = tff.framework.serialize_computation(computation)
  graphs = [
      tf.compat.v1.GraphDef.FromString(part.graph_def.value)
      for part in libraries._graphs(proto)  # pylint: disable=protected-access
  ]
  functions = [f for graph in graphs for f in graph.library.function]
  return sorted(
      tf.make_ndarray(node.attr['value'].tensor).item()
      for nodes in [*(g.node for g in graphs), *(f.node_def for f in functions)]
      for node in nodes if number_variables.of_node(node) is not None
  )


def _assert_equal(one, other):
  assert one[0].kernel_names == other[0].kernel_names
  assert one[1] == other[1]
  for part in _PARTS:
    made, found = (getattr(each[0].process, part) for each in (one, other))
    # With the Python classes of types.
    assert repr(made.type_signature) == repr(found.type_signature), part
    assert _bytes(made) == _bytes(found), part
    assert _values_of_inputs(made) == _values_of_inputs(found), part


@pytest.mark.parametrize('given', _BUILDS, ids=lambda given: given['algo'])
def test_an_equal_build_traces_nothing(given, build):
  first, second = build(**given), build(**given)
  assert first[2] and not second[2]
  _assert_equal(first, second)
  assert bool(second[0].kernel_names) == ('local_steps=1' in given['algo'])


@pytest.mark.slow
@pytest.mark.parametrize('algo', methods.names())
def test_methods_do_not_take_those_of_others(algo, build, shared):
  expected, found = build(algo=algo, folder=None), build(algo=algo, folder=shared)
  _assert_equal(expected, found)
  again = build(algo=algo, folder=shared)
  assert found[2] and not again[2]
  _assert_equal(expected, again)


def test_seeds_share_what_does_not_depend_on_them(build):
  build(algo='fedavg')
  assert not build(algo='fedavg', seed=1)[2]


@pytest.mark.parametrize('other', [
    dict(algo='fedyogi'),  # The same builder and hyperparameters as fedadam's.
    dict(algo='fedadam[local_steps=3]'), dict(algo='fedadam[learning_rate=0.03]'),
    dict(model='mlp_20'), dict(client_weighting='uniform'),
    dict(num_byzantine=1, attack='nan'), dict(num_byzantine=1, attack='huge'),
])
def test_what_differs_is_traced(other, build):
  build(algo='fedadam', num_byzantine=1, attack='sign_flip')
  build(algo='fedadam')
  assert build(**{'algo': 'fedadam', **other})[2]


def test_groups_that_a_method_reads_count(build):
  build(algo='oracle_groups')
  experiment = _experiment(algo='oracle_groups')
  groups = experiment.task.groups.copy()
  groups[0] = groups[-1]
  task = dataclasses.replace(experiment.task, groups=groups)
  assert build(dataclasses.replace(experiment, task=task))[2]


def test_edited_sources_are_traced(build, monkeypatch):
  build(algo='fedavg')
  monkeypatch.setattr(kept, 'process', lambda: 'other sources of the runtime')
  assert build(algo='fedavg')[2]


@pytest.mark.parametrize('reason', ['edited', 'broken link'])
def test_sources_that_are_not_what_was_imported_keep_nothing(
    reason, build, monkeypatch, tmp_path
):
  """A later process would take the old code for the new."""
  kept.sources.cache_clear()
  with monkeypatch.context() as patch:
    if reason == 'edited':
      patch.setattr(kept, '_IMPORTED', 0.0)
    else:
      (tmp_path / 'tff_pers').mkdir()
      (tmp_path / 'tff_pers' / '.#lock.py').symlink_to('user@host.1')
      patch.setattr(kept, '_ROOT', tmp_path)
    build(algo='fedavg')
  kept.sources.cache_clear()
  assert not os.listdir(tmp_path / 'kept')


@pytest.mark.parametrize(
    'foreign', ['method', 'rule', 'model', 'debugger', 'change']
)
def test_nothing_is_kept_of_foreign_code(foreign, build, monkeypatch, tmp_path):
  """Nobody can see whether it has changed."""
  experiment, around = _experiment('fedavg'), contextlib.nullcontext()
  method, task = experiment.method, experiment.task
  if foreign == 'method':
    method = dataclasses.replace(
        method, build=lambda *arguments: experiment.method.build(*arguments)
    )
  if foreign == 'rule':
    monkeypatch.setattr(registry, 'modules', {'my_package.my_rule'})
  if foreign == 'model':
    task = dataclasses.replace(task, model=dataclasses.replace(
        task.model, example_loss=lambda y, outputs: outputs[:, 0]
    ))
  if foreign == 'debugger':
    tf.debugging.enable_check_numerics()
  if foreign == 'change':
    around = interception.changing(interception.Change())
  try:
    with around:
      build(dataclasses.replace(experiment, method=method, task=task))
  finally:
    tf.debugging.disable_check_numerics()
  assert not os.listdir(tmp_path / 'kept')


def test_other_rates_share_a_kept_build(build, tmp_path, monkeypatch):
  """Products of rates, too, are those of this process."""
  build(algo='floral')
  monkeypatch.setattr(processes, '_last', None)
  other, found, reads = _experiment('floral[learning_rate=0.03]'), [], []
  read = stored.read
  monkeypatch.setattr(
      stored, 'read', lambda *arguments: reads.append(0) or read(*arguments)
  )
  with fused.use('cpu', compile_cache=tmp_path / 'kept'):
    first = processes.build(_experiment('floral'))
    assert reads and processes.build(other) is first
    found.append(rounds.train(first.process, other.task.train, 3))
  processes._last = None
  with fused.use('cpu'):
    process = processes.build(other).process
    found.append(rounds.train(process, other.task.train, 3))
  for one, two in zip(*found):
    assert_identical((one.state, one.clients), (two.state, two.clients))


def test_a_build_that_cannot_be_read_is_traced(build, monkeypatch, caplog):
  first = build(algo='fedavg')
  with monkeypatch.context() as patch:
    patch.setattr(stored, '_PACKAGES', ())
    second = build(algo='fedavg')
  assert second[2] and 'not kept' in caplog.text
  _assert_equal(first, second)


@pytest.mark.parametrize('change', [lambda rows: rows[::-1], lambda rows: [
    *rows, rows[0]
]], ids=['order', 'number'])
def test_a_build_that_differs_is_traced(change, build, monkeypatch, caplog):
  first = build(algo='fedavg')
  with monkeypatch.context() as patch:
    start = traces.Traces.__init__
    patch.setattr(traces.Traces, '__init__', lambda self, rows=None: start(
        self, rows and change(rows)
    ))
    second = build(algo='fedavg')
  assert second[2] and 'traced again' in caplog.text
  _assert_equal(first, second)
