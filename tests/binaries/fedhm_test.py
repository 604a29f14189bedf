"""FedHM from flags to files: tiers, their assignment, and slim FedAvg."""

import numpy as np
import pytest

from binaries import compare
from binaries import train
from tests import csv_rows

from tff_pers.evaluation import results
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import processes

_read = csv_rows.read

TABLE = flags.all_flags(flags.own_flag('algo', 'perm', 'The method.'))
SMALL = dict(
    task='gaussian_modes', num_clients=4, clients_per_round=0, partition='iid',
    gaussian_modes_train=80, gaussian_modes_test=20,
)


def _build(**given):
  return experiment.build({'algo': 'fedhm', **given}, TABLE)


@pytest.mark.usefixtures('no_plots')
def test_tiers_are_compared_with_slim_fedavg(tmp_path):
  """The columns of tiers.csv; sizes of check A15."""
  argv = [f'--{name}={value}' for name, value in SMALL.items()]
  assert compare.main([
      'compare', '--seeds=0',
      '--algos=fedhm[tiers=1:0.0625],fedavg,slim_fedavg',
      '--rounds=1', f'--output_dir={tmp_path}', *argv,
  ]) == 0
  rows = _read(tmp_path / 'tiers.csv')
  assert {r['round'] for r in rows} == {'1'}
  assert [(r['algo'], r['tier'], r['parameters']) for r in rows] == [
      ('fedhm[tiers=1:0.0625]', '1', '38538'),
      ('fedhm[tiers=1:0.0625]', '0.0625', '9866'), ('fedavg', '1', '38538'),
      ('slim_fedavg', '1', '9910'),
  ]
  [metrics] = _read(
      tmp_path / 'fedhm-tiers=1-0.0625' / 'seed0' / 'metrics.csv'
  )
  # Two clients of each tier.
  assert float(metrics['bytes_up']) == 4 * (38538 + 9866) / 2
  assert 0 < float(metrics['energy_top_rmin']) < 1


def test_a_resumed_run_has_every_evaluated_round_of_its_tiers_once(tmp_path):
  """Figure 2: 1 round, then up to 3; the table has one of round 2 too many."""
  argv = ['train', '--algo=fedhm', '--fedhm_tiers=1:0.0625', '--eval_every=1',
          f'--output_dir={tmp_path}']
  argv += [f'--{name}={value}' for name, value in SMALL.items()]
  assert train.main([*argv, '--rounds=1']) == 0
  results.write_tiers(tmp_path, [
      *_read(tmp_path / 'tiers.csv'), dict.fromkeys(results.TIER_COLUMNS, '2')
  ])
  assert train.main([*argv, '--rounds=3', '--resume']) == 0
  rows = _read(tmp_path / 'tiers.csv')
  assert [(row['round'], row['tier']) for row in rows] == [
      (number, tier) for number in '123' for tier in ('1', '0.0625')
  ]
  assert len({row['loss'] for row in rows}) == 6
  smallest, largest = results.read_tiers(results.read_run(tmp_path)).values()
  losses = [float(row['loss']) for row in rows]
  assert smallest['loss'].tolist() == losses[1::2]
  assert largest['loss'].tolist() == losses[::2]
  assert (tmp_path / 'tiers.png').exists()


def test_assignment_is_a_flag():
  assert _build(**SMALL).task.tier_assignment == 'fixed'
  drawn = _build(**SMALL, tier_assignment='dynamic')
  assert drawn.task.tier_assignment == 'dynamic'
  assert drawn.flag('tier_assignment') == 'dynamic'


def _own_data(tmp_path):
  """Returns a file: the tier of client i is i mod 3."""
  path = tmp_path / 'mine.npz'
  client = np.repeat(np.arange(6), 4)
  x = np.random.default_rng(0).normal(size=[24, 3])
  np.savez(path, x=x, y=np.arange(24) % 2, client=client, tier=client % 3)
  return dict(task='npz', data_dir=str(path))


def test_tiers_go_with_the_clients_of_own_data(tmp_path):
  """Also with those that are held out, which come last."""
  built = _build(**_own_data(tmp_path), holdout_clients=2)
  numbers = [*built.clients, *built.unseen_clients]
  assert len(numbers) == 6 and numbers != sorted(numbers)
  np.testing.assert_array_equal(built.task.tiers, np.array(numbers) % 3)


@pytest.mark.parametrize('given, message', [
    (dict(tier_assignment='dynamic'), '`--tier_assignment` must be fixed'),
    (dict(fedhm_tiers='1:0.5'), '`--fedhm_tiers` must be at least 3'),
    (dict(fedhm_full_rank='dense_7'), '`--fedhm_full_rank` must be layers of'),
])
def test_what_does_not_go_together_is_one_sentence(tmp_path, given, message):
  with pytest.raises(flags.UsageError, match=message):
    processes.build(_build(**_own_data(tmp_path), **given))


@pytest.mark.parametrize('model, warns', [
    ('logistic_regression', True), ('mlp', False),
])
def test_tiers_are_described_and_ranks_below_the_classes_are_said(model, warns):
  built = _build(task='digits', model=model)
  said = built.hyperparameters.describe(built.task)
  assert said.startswith('tier 1: ')
  assert ('it cannot separate 10 classes' in said) == warns
  if warns:  # A 64 x 10 kernel: 2 (64 + 10) factors and 10 biases.
    assert 'tier 0.25: 158 parameters; dense_0/kernel of rank 2' in said
