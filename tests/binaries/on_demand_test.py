"""Runs on clients whose data are read when they are asked for."""

import json
import threading

import numpy as np
import pytest

from binaries import compare
from binaries import evaluate
from binaries import train
from tests import csv_rows
from tff_pers.data import errors
from tff_pers.data import holdout
from tff_pers.data import on_demand
from tff_pers.simulation import cohort
from tests import lazy_tasks

FLAGS = [
    '--algo=apfl', '--num_clients=12', '--partition=iid',
    '--train_fraction=0.1', '--rounds=3', '--eval_every=2',
    '--clients_per_round=3', '--validation_fraction=0.2',
    '--holdout_clients=2', '--num_byzantine=2', '--attack=sign_flip',
]


def _train(folder, *argv):
  return train.main(['train', *FLAGS, *argv, f'--output_dir={folder}'])


def _without_seconds(folder, name):
  return [
      {key: value for key, value in row.items() if key != 'seconds'}
      for row in csv_rows.read(folder / name)
  ]


def _clients(folder, seen=1):
  return [
      int(row['client']) for row in _without_seconds(folder, 'clients.csv')
      if row['seen'] == str(seen)
  ]


def _assert_same_results(one, other):
  for name in ('metrics.csv', 'clients.csv', 'validation.csv'):
    rows = _without_seconds(one, name)
    assert rows and rows == _without_seconds(other, name), name


@pytest.mark.parametrize('more', [
    ['--eval_clients=3'],
    ['--algo=fedavg', '--finetune_steps=0,2'],
    ['--algo=l2gd', '--rounds=auto', '--max_rounds=3'],
    ['--algo=fedbuff', '--num_byzantine=0', '--attack=none'],
], ids=['sample', 'finetuning', 'auto', 'events'])
def test_a_list_and_clients_on_demand_give_the_same_bits(
    more, tmp_path, monkeypatch
):
  listed, lazy = tmp_path / 'list', tmp_path / 'lazy'
  assert _train(listed, *more) == 0
  reads = lazy_tasks.make_on_demand(monkeypatch)
  assert _train(lazy, *more) == 0
  assert reads.train
  _assert_same_results(listed, lazy)


def test_nobody_but_cohorts_and_evaluated_clients_is_read(
    tmp_path, monkeypatch
):
  reads = lazy_tasks.make_on_demand(monkeypatch)
  folder = tmp_path / 'run'
  assert _train(folder, '--eval_clients=2') == 0
  held_out = holdout.choose(12, 2, 0)
  training = np.setdiff1d(np.arange(12), held_out)
  cohorts = [cohort.uniform(10, 3)(0, number) for number in range(3)]
  asked = {*training[np.concatenate(cohorts)], *_clients(folder), *held_out}
  assert {*reads.train} <= asked < {*range(12)}
  assert {*reads.test} == {*_clients(folder), *_clients(folder, seen=0)}
  assert len(_clients(folder)) == 2


def test_the_sample_is_honest_and_the_same_in_every_round_and_run(tmp_path):
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  assert _train(whole, '--eval_clients=4') == 0
  assert _train(parts, '--eval_clients=4', '--rounds=2') == 0
  assert _train(parts, '--resume', '--rounds=3') == 0
  _assert_same_results(whole, parts)
  config = json.loads((whole / 'config.json').read_text())
  assert config['flags']['eval_clients'] == 4
  everybody = tmp_path / 'everybody'
  assert _train(everybody) == 0
  # Everybody who is honest, trains and is evaluated without a sample.
  rows = {
      row['client']: row for row in _without_seconds(everybody, 'clients.csv')
  }
  sample = [
      row for row in _without_seconds(whole, 'clients.csv')
      if row['seen'] == '1'
  ]
  assert len(sample) == 4
  assert all(rows[row['client']] == row for row in sample)
  last = _without_seconds(whole, 'metrics.csv')[-1]
  assert float(last['accuracy_mean']) == pytest.approx(
      np.mean([float(row['accuracy']) for row in sample])
  )


def test_the_description_says_how_many_are_evaluated(tmp_path, capsys):
  assert _train(tmp_path / 'run', '--eval_clients=3', '--rounds=1') == 0
  assert '10 clients (2 Byzantine, 3 are evaluated) and' in capsys.readouterr().out


def test_evaluate_evaluates_the_sample_once_more(tmp_path, monkeypatch):
  reads = lazy_tasks.make_on_demand(monkeypatch)
  folder = tmp_path / 'run'
  assert _train(folder, '--eval_clients=3') == 0
  del reads.train[:], reads.test[:]
  assert evaluate.main(['evaluate', f'--run={folder}']) == 0
  by_client = lambda row: row['client']
  assert sorted(
      _without_seconds(folder / 'evaluation', 'clients.csv'), key=by_client
  ) == sorted(_without_seconds(folder, 'clients.csv'), key=by_client)
  assert len({*reads.test}) == 5  # And two held out.


def test_data_that_cannot_be_read_end_the_run_in_one_sentence(
    tmp_path, monkeypatch, capsys
):
  lazy_tasks.make_on_demand(monkeypatch)
  read = on_demand.OnDemand.__getitem__
  bad = int(cohort.uniform(10, 3)(0, 2)[0])

  def broken(clients, place):
    if threading.current_thread() is not threading.main_thread():
      if place == bad:
        raise errors.DataError(f'Client {place} must be whole.')
    return read(clients, place)

  monkeypatch.setattr(on_demand.OnDemand, '__getitem__', broken)
  assert _train(tmp_path / 'run', '--eval_every=1') == 1
  err = capsys.readouterr().err
  assert f'Client {bad} must be whole. The last good checkpoint is' in err
  assert 'Traceback' not in err
  # The round before the one that needed the client is there.
  rounds = [
      row['round'] for row in _without_seconds(tmp_path / 'run', 'metrics.csv')
  ]
  first = next(
      number for number in range(3) if bad in cohort.uniform(10, 3)(0, number)
  )
  assert rounds == [str(number + 1) for number in range(first)]


@pytest.mark.slow
def test_a_comparison_says_how_many_were_evaluated(tmp_path):
  argv = [flag for flag in FLAGS if not flag.startswith('--algo')]
  for number, sentence in ((0, ''), (3, 'evaluated a fixed sample of 3 ')):
    top = tmp_path / str(number)
    assert compare.main([
        'compare', *argv, '--algos=fedavg,local_only', '--rounds=1',
        f'--eval_clients={number}', f'--output_dir={top}',
    ]) == 0
    text = (top / 'summary.md').read_text()
    assert sentence in text and ('sample' in text) == bool(sentence)
    runs = [
        _clients(top / algo / 'seed0') for algo in ('fedavg', 'local_only')
    ]
    assert runs[0] == runs[1] and len(runs[0]) == (number or 8)
