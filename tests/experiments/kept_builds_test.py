"""Builds from traces on disk: the same computations, and only for equal ones."""

import dataclasses
import os

import pytest

from tests.baselines.rounds import assert_identical
from tests.experiments.processes_test import _experiment
from tff_pers.config import methods
from tff_pers.config import registry
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
# of others, kernels as factors, tiers, an attack on a robust rule.
_BUILDS = [
    dict(algo='perm', clients_per_round=3),
    dict(algo='floral'),
    dict(algo='fedavg', model='mlp_200'),
    dict(algo='fedhm', model='mlp_20'),
    dict(algo='fedavg[aggregator=median]', num_byzantine=1, attack='sign_flip'),
]
_PARTS = ('initialize_seeded', 'initialize_client', 'next', 'evaluate')


@pytest.fixture(name='build')
def fixture_build(tmp_path, monkeypatch):
  """Returns a function that builds like a new process, and counts traces."""

  def build(experiment=None, **given):
    count = []

    def counted(self, signature, trace):
      return take(self, signature, lambda: count.append(signature) or trace())

    with monkeypatch.context() as patch, fused.use(
        'cpu', compile_cache=tmp_path / 'kept'
    ):
      patch.setattr(processes, '_last', None)
      patch.setattr(traces.Traces, 'take', counted)
      experiment = experiment or _experiment(**given)
      built = processes.build(experiment)
      fixed = [
          name for name, number in processes._last.numbers.items()
          if number.fixed
      ]
    return built, fixed, count

  take = traces.Traces.take
  return build


def _bytes(computation):
  proto = tff.framework.serialize_computation(computation)
  return number_variables.numbered(libraries.canonical(proto))[0]


def _assert_equal(one, other):
  (built, *one_fixed), (again, *other_fixed) = one[:2], other[:2]
  assert built.kernel_names == again.kernel_names
  assert one_fixed == other_fixed
  for part in _PARTS:
    made, found = (getattr(each.process, part) for each in (built, again))
    # With the Python classes of types.
    assert repr(made.type_signature) == repr(found.type_signature), part
    assert _bytes(made) == _bytes(found), part


@pytest.mark.parametrize('given', _BUILDS, ids=lambda given: given['algo'])
def test_an_equal_build_traces_nothing(given, build):
  first, second = build(**given), build(**given)
  assert first[2] and not second[2]
  _assert_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize('algo', methods.names())
def test_every_method_is_built_alike(algo, build):
  first, second = build(algo=algo), build(algo=algo)
  assert first[2] and not second[2]
  _assert_equal(first, second)


def test_seeds_share_what_does_not_depend_on_them(build):
  build(algo='fedavg')
  assert not build(algo='fedavg', seed=1)[2]


@pytest.mark.parametrize('other', [
    dict(algo='fedavg[local_steps=3]'), dict(algo='fedavg[learning_rate=0.03]'),
    dict(model='mlp_20'), dict(client_weighting='uniform'),
    dict(num_byzantine=1, attack='nan'), dict(num_byzantine=1, attack='huge'),
])
def test_what_differs_is_traced(other, build):
  build(algo='fedavg', num_byzantine=1, attack='sign_flip')
  build(algo='fedavg')
  assert build(**{'algo': 'fedavg', **other})[2]


def test_groups_that_a_method_reads_count(build):
  given = dict(algo='oracle_groups')
  build(**given)
  experiment = _experiment(**given)
  groups = experiment.task.groups.copy()
  groups[0] = groups[-1]
  task = dataclasses.replace(experiment.task, groups=groups)
  assert build(dataclasses.replace(experiment, task=task))[2]


def test_edited_sources_are_traced(build, monkeypatch):
  build(algo='fedavg')
  monkeypatch.setattr(kept, 'sources', lambda *parts: 'edited')
  assert build(algo='fedavg')[2]


def test_sources_that_were_edited_after_the_import_keep_nothing(
    build, monkeypatch, tmp_path
):
  """A later process would take the old code for the new."""
  kept.sources.cache_clear()
  with monkeypatch.context() as patch:
    patch.setattr(kept, '_IMPORTED', 0.0)
    build(algo='fedavg')
  kept.sources.cache_clear()
  assert not os.listdir(tmp_path / 'kept')


@pytest.mark.parametrize('foreign', ['method', 'rule', 'model'])
def test_nothing_is_kept_of_foreign_code(foreign, build, monkeypatch, tmp_path):
  """Nobody can see whether it has changed."""
  experiment = _experiment('fedavg')
  if foreign == 'rule':
    monkeypatch.setattr(registry, 'modules', {'my_package.my_rule'})
  elif foreign == 'method':
    method = experiment.method
    experiment = dataclasses.replace(experiment, method=dataclasses.replace(
        method, build=lambda *arguments: method.build(*arguments)
    ))
  else:
    model = dataclasses.replace(
        experiment.task.model, example_loss=lambda y, outputs: outputs[:, 0]
    )
    experiment = dataclasses.replace(
        experiment, task=dataclasses.replace(experiment.task, model=model)
    )
  build(experiment)
  assert not os.listdir(tmp_path / 'kept')


def test_other_rates_share_a_kept_build(build, tmp_path):
  """Products of rates, too, are those of this process."""
  build(algo='floral')
  found = []
  for folder in (tmp_path / 'kept', None):
    with fused.use('cpu', compile_cache=folder):
      processes._last = None
      if folder:
        processes.build(_experiment('floral'))
      other = _experiment('floral[learning_rate=0.03]')
      process = processes.build(other).process
      found.append(rounds.train(process, other.task.train, 3))
  for one, other in zip(*found):
    assert_identical((one.state, one.clients), (other.state, other.clients))


def test_a_build_that_cannot_be_read_is_traced(build, monkeypatch, caplog):
  build(algo='fedavg')
  monkeypatch.setattr(stored, '_PACKAGES', ())
  assert build(algo='fedavg')[2] == []
  assert 'not kept' in caplog.text
