"""`benchmark fedhm`: two rounds on the digits, and the flags it passes."""

import pytest
import tensorflow as tf

from binaries import benchmark
from tff_pers.config import methods
from tff_pers.data import brackets
from tff_pers.experiments import benchmark_runs
from tff_pers.experiments import flags
from tff_pers.models import zoo

BENCHMARK = benchmark_runs.read('fedhm')


def _benchmark(folder, *argv):
  return benchmark.main(
      ['benchmark', 'fedhm', *argv, f'--output_dir={folder}']
  )


def _flags(argv):
  return dict(word[2:].split('=', 1) for word in argv if word[:2] == '--')


@pytest.fixture(name='handed')
def _handed(monkeypatch):
  """The flags that `compare_tuned` is called with, in place of the call."""
  handed = []
  def main(own, argv):
    del own
    handed.append(_flags(argv))
    return 0
  monkeypatch.setattr(flags.Program, '__call__', main)
  monkeypatch.setattr(benchmark_runs, 'of_parts', lambda *args: 'the page')
  return handed


def test_the_scale_of_the_paper(tmp_path, handed):
  argv = ('--scale=paper', '--parts=cifar10_iid_fixed', '--data_dir=/data')
  assert _benchmark(tmp_path, *argv) == 0
  own, = handed
  assert (tmp_path / BENCHMARK.page).read_text() == 'the page'
  expected = dict(
      model='resnet18', rounds='160', fedhm_local_epochs='10',
      fedavg_local_epochs='10', fedhm_batch_size='64',
      fedhm_learning_rate_rounds='100:150', num_clients='20',
      clients_per_round='10', fedhm_masked_loss='true',
      splitmix_masked_loss='true', slim_fedavg_masked_loss='true',
  )
  assert {name: own[name] for name in expected} == expected


def test_the_scale_of_the_paper_for_cifar100(tmp_path, handed):
  argv = ('--scale=paper', '--parts=cifar100_iid_fixed', '--data_dir=/data')
  assert _benchmark(tmp_path, *argv) == 0
  own, = handed
  expected = dict(
      task='cifar100', model='resnet34', rounds='100',
      fedhm_learning_rate_rounds='70:90', heterofl_learning_rate_rounds='70:90',
      fedhm_local_epochs='10', fedhm_batch_size='64', fedhm_momentum='0.9',
      fedhm_weight_decay='0.0001', num_clients='20', clients_per_round='10',
  )
  assert {name: own[name] for name in expected} == expected


def _sizes(own, model, ratios):
  """Returns millions of parameters of the tiers of each variant."""
  found = []
  for name, options in map(brackets.parse, brackets.split_list(own['algos'])):
    values = methods.get(name).hyperparameters(**options)
    tiers = ()
    if name == 'fedhm':
      tiers = values.tiered(model, ratios).tiers
    # Of all, the widths are found, which takes long.
    if name == 'heterofl' and options:
      tiers = values.submodels(model, ()).tiers
    found.append([round(tier.num_parameters / 1e6, 2) for tier in tiers])
  return found


def test_tables_2_3_7_and_8_have_the_sizes_of_the_paper(tmp_path, handed):
  """All but Split-Mix and FedAvg; FedHM also with few parameters."""
  argv = ('--scale=paper', '--data_dir=/data', '--parts=cifar10_iid_fixed,'
          'cifar10_iid_dynamic,cifar100_iid_fixed')
  assert _benchmark(tmp_path, *argv) == 0
  model = zoo.build('resnet18', tf.TensorSpec([None, 32, 32, 3]), 10)
  found = _sizes(handed[0], model, (1, 0.5, 0.25, 0.125))
  assert found[:7] == [
      [11.17, 4.16, 2.21, 1.24], [4.16, 4.16, 2.21, 1.24],
      [2.21, 2.21, 2.21, 1.24], [], [4.29, 4.29, 2.8, 1.37],
      [2.8, 2.8, 2.8, 1.37], [],
  ]
  assert found[7:] == [
      [], [4.16], [2.21], [1.24], [0.38], [0.14], [4.29], [2.8], [],
  ]
  fixed, dynamic, of_34 = (brackets.split_list(own['algos']) for own in handed)
  assert dynamic == fixed[:7]
  # Widths of ResNet-34; ranks are the same.
  assert [new for old, new in zip(fixed, of_34) if new != old] == [
      'heterofl[tiers=0.64:0.64:0.5:0.4]', 'heterofl[tiers=0.5:0.5:0.5:0.4]',
      'heterofl[tiers=0.64]',
  ]


@pytest.mark.parametrize('code', [2, 1])
def test_bad_flags_or_a_run_that_fails_end_it_at_once(
    tmp_path, monkeypatch, code
):
  called = []
  monkeypatch.setattr(
      flags.Program, '__call__', lambda own, argv: called.append(argv) or code
  )
  assert _benchmark(tmp_path, '--rounds=7') == code
  assert len(called) == 1 and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_writes_a_table_of_clients_and_one_of_tiers(tmp_path, capsys):
  assert _benchmark(
      tmp_path, '--parts=dirichlet_dynamic', '--rounds=2', '--eval_every=1',
      '--seeds=0,1',
  ) == 0
  page = (tmp_path / BENCHMARK.page).read_text()
  assert page in capsys.readouterr().out
  assert '## Digits, Dirichlet(0.5), dynamic tiers' in page
  lines = [line.split('|') for line in page.splitlines() if '| fedhm[' in line]
  assert [line[2].strip() for line in lines] == ['1', '0.25', '0.125', '0.0625']
  macs, bytes_up, seeds = (
      [int(line[column]) for line in lines] for column in (4, 5, 6)
  )
  for costs in (macs, bytes_up):
    assert costs == sorted(costs, reverse=True) and costs[0] > 2 * costs[-1]
  assert seeds == [2] * 4
