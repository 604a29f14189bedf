"""Clients of a page are the rows of clients.csv, by name."""

import numpy as np

from tests.evaluation import made_runs

from tff_pers.evaluation.report import client_data
from tff_pers.evaluation.report import members


def _member(folder, label, seed, **options):
  return members.Member(made_runs.read(folder, label, seed, **options), label)


def test_values_stand_under_the_name_of_their_client(tmp_path):
  found = client_data.of_group([
      _member(tmp_path / 'a', 'perm', 0, clients={'3': 0.5, '7': 0.75}),
      _member(tmp_path / 'b', 'fedavg', 1, clients={'7': 0.25, '9': 1.0}),
      _member(tmp_path / 'c', 'ditto', 0, finished=False),
  ])
  assert found['metric'] == 'accuracy' and found['names'] == ['3', '7', '9']
  assert found['runs'] == [
      dict(label='perm', seed=0, values=[0.5, 0.75, None]),
      dict(label='fedavg', seed=1, values=[None, 0.25, 1]),
  ]
  assert found['seeds']['0'] == dict(num_test=[10, 10, None], unseen=[])


def test_regression_has_losses(tmp_path):
  found = client_data.of_group([
      _member(tmp_path, 'perm', 0, accuracy=None, clients={'3': 2.5, '7': 0.5})
  ])
  assert found['metric'] == 'loss' and found['runs'][0]['values'] == [2.5, 0.5]


def test_clients_that_never_train_are_known(tmp_path):
  member = _member(tmp_path, 'perm', 0)
  member.run.clients['seen'] = np.array([1.0, 0.0])
  member.run.clients['client'] = np.array(['ann', '007'])
  found = client_data.of_group([member])
  assert found['names'] == ['ann', '007']
  assert found['seeds']['0']['unseen'] == [1]


def test_numbers_of_clients_are_written_whole():
  assert client_data.as_names(np.array([3.0, 1234567.0])) == ['3', '1234567']
  assert client_data.as_names(np.array([3, 14])) == ['3', '14']
