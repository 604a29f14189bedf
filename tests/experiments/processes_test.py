"""Runs of several seeds or rates share a process where it is the same for all."""

import dataclasses

import pytest

from binaries import compare
from binaries import train
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.runtime.fused import stages

TABLE = flags.all_flags(flags.own_flag('algo', 'perm', 'The method.'))
SMALL = ['--task=digits', '--num_clients=4', '--rounds=3', '--eval_every=3']


def _experiment(algo='fedavg', **given):
  return experiment.build(
      dict(algo=algo, task='digits', num_clients=4, **given), TABLE
  )


def _build(*args, **given):
  return processes.build(_experiment(*args, **given))


@pytest.mark.parametrize('algo, rates', [
    ('perm', 'learning_rate=0.2'),
    ('fedavg', 'learning_rate=0.03,server_learning_rate=0.5'),
    ('floral', 'learning_rate=0.03'),  # That of adaptors is a multiple of it.
])
def test_seeds_and_rates_share_a_process(algo, rates):
  first = _build(algo)
  assert _build(algo, seed=1) is first
  assert _build(f'{algo}[{rates}]') is first


def test_a_number_that_python_has_used_is_not_shared():
  """The server's rate is in the state of TFF's optimizer."""
  first = _build('fedavgm')
  assert _build('fedavgm[server_learning_rate=0.5]') is not first


@pytest.mark.parametrize('other', [
    dict(algo='fedavg[local_steps=3]'), dict(algo='fedavg[momentum=0.5]'),
    dict(algo='fedprox'), dict(model='mlp_20'), dict(num_byzantine=1), dict(train_fraction=0.6),
    dict(num_byzantine=1, attack='nan'),
])
def test_what_differs_is_built_anew(other):
  first = _build()
  assert _build(**other).process is not first.process


def test_clients_that_attack_differ():
  first = _build(num_byzantine=1, attack='nan')
  assert _build(num_byzantine=1, attack='huge') is not first


def test_what_a_method_looks_at_counts():
  """Others than oracles do not know the groups."""
  one = _experiment('oracle_groups', partition='label_shift_clusters')
  other = dataclasses.replace(
      one, task=dataclasses.replace(one.task, groups=one.task.groups[::-1])
  )
  assert processes.build(one) is processes.build(one)
  assert processes.build(other) is not processes.build(one)
  one, other = (
      dataclasses.replace(each, method=_experiment('fedavg').method,
                          hyperparameters=_experiment('fedavg').hyperparameters)
      for each in (one, other)
  )
  assert processes.build(other) is processes.build(one)


def test_a_run_of_a_comparison_is_a_run_alone(tmp_path, monkeypatch):
  """To the last bit; other seeds and rates trace nothing."""
  other = 'fedavg[local_steps=2,learning_rate=0.03]'
  traced = []
  trace = stages.Program.trace

  def count(self, *args):
    traced.append(self)
    return trace(self, *args)

  monkeypatch.setattr(stages.Program, 'trace', count)
  assert compare.main([
      'compare', *SMALL, '--algos=fedavg[local_steps=2]', '--seeds=0',
      f'--output_dir={tmp_path}/both',
  ]) == 0
  first = len(traced)
  assert compare.main([
      'compare', *SMALL, f'--algos=fedavg[local_steps=2],{other}',
      '--seeds=0,1', f'--output_dir={tmp_path}/both',
  ]) == 0
  assert len(traced) == first > 0
  monkeypatch.setattr(processes, '_last', None)
  assert train.main([
      'train', *SMALL, f'--algo={other}', '--seed=1',
      f'--output_dir={tmp_path}/alone',
  ]) == 0
  assert len(traced) > first
  shared = tmp_path / 'both' / experiment.folder_name(other) / 'seed1'
  for name in ('clients.csv', 'runtime.json'):
    alone = (tmp_path / 'alone' / name).read_bytes()
    assert (shared / name).read_bytes() == alone
