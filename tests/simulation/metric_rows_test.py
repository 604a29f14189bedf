"""Columns of metrics that a method reports in nested structures."""

import collections
import types

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_pers.simulation import metric_rows
from tff_pers.simulation import position


def _process(metrics_type):
  """Returns what `MetricRows` looks at of a process with metrics M."""
  server = lambda member: tff.FederatedType(member, tff.SERVER)
  result = collections.OrderedDict(metrics=server(metrics_type))
  has_type = lambda result: types.SimpleNamespace(
      type_signature=types.SimpleNamespace(result=result)
  )
  return types.SimpleNamespace(
      next=has_type(result),
      evaluate=has_type(tff.FederatedType(
          collections.OrderedDict(loss=np.float32), tff.CLIENTS
      )),
      server_state_type=tff.to_type(collections.OrderedDict(seed=np.int64)),
  )


_OWN = collections.OrderedDict(
    train_loss=np.float32, num_examples=np.int32, bytes_down=np.float32,
    bytes_up=np.float32, non_finite=(np.int32, [None]), drift=np.float32,
)
_COMMON = [
    'seconds', 'train_loss', 'accuracy_mean', 'loss_mean',
    'accuracy_worst_decile', 'bytes_down', 'bytes_up',
]


def test_scalars_of_an_aggregator_are_columns_named_by_path():
  rows = metric_rows.MetricRows(_process(collections.OrderedDict(
      _OWN,
      aggregator=collections.OrderedDict(
          clipping=collections.OrderedDict(
              clipping_norm=np.float32, clipped_count=np.int32
          ),
          histogram=(np.float32, [5]),
          pair=(np.float32, np.bool_),
      ),
  )))
  assert rows.columns == [
      *_COMMON, 'num_examples', 'drift', 'aggregator/clipping/clipping_norm',
      'aggregator/clipping/clipped_count', 'aggregator/pair/0',
      'aggregator/pair/1',
  ]
  metrics = dict(
      train_loss=np.float32(0.5), num_examples=np.int32(7),
      bytes_down=np.float32(1), bytes_up=np.float32(2),
      non_finite=np.zeros(0, np.int32), drift=np.float32(3),
      aggregator=dict(
          clipping=dict(clipping_norm=np.float32(4), clipped_count=np.int32(5)),
          histogram=np.zeros(5), pair=(np.float32(6), np.bool_(True)),
      ),
  )
  measured = rows.measured(metrics)
  row = rows.row(
      position.Position(round=1, clients=1, bytes_down=10.0), measured,
      dict(loss=np.array([1.0, 3.0]), num_examples=np.array([1, 1])), state={},
  )
  assert list(row) == rows.columns
  assert row['aggregator/clipping/clipping_norm'] == 4.0
  assert row['aggregator/clipping/clipped_count'] == 5
  assert row['aggregator/pair/1'] is not True
  assert row['aggregator/pair/1'] == 1 and row['drift'] == 3.0
  assert row['bytes_down'] == 10.0 and row['loss_mean'] == 2.0
  assert row['accuracy_mean'] is None


def test_measurements_in_named_tuples_are_found():
  Measured = collections.namedtuple('Measured', ['norm'])  # pylint: disable=invalid-name
  rows = metric_rows.MetricRows(_process(collections.OrderedDict(
      _OWN, aggregator=Measured(norm=np.float32)
  )))
  metrics = {name: np.float32(1) for name in _OWN}
  metrics['aggregator'] = Measured(norm=np.float32(9))
  assert rows.measured(metrics)['aggregator/norm'] == 9.0


@pytest.mark.parametrize('knowledge, added', [
    (dict(has_validation=True), ['accuracy_validation', 'loss_validation']),
    (dict(has_distance=True), ['distance']),
    (dict(has_dropped=True), ['dropped']),
    ({}, []),
])
def test_columns_of_what_is_known_come_last(knowledge, added):
  rows = metric_rows.MetricRows(_process(_OWN), **knowledge)
  assert rows.columns == [*_COMMON, 'num_examples', 'drift', *added]


def test_clusters_are_scored_for_honest_clients_alone():
  """The Byzantine client 1 would be in the wrong cluster, and NaN elsewhere."""
  mixing = np.zeros([5, 5], np.float32)
  for pair in ((0, 2), (1, 3), (1, 4), (3, 4)):
    mixing[pair] = mixing[pair[::-1]] = 0.5
  process = _process(_OWN)
  process.server_state_type = tff.to_type(
      collections.OrderedDict(mixing=(np.float32, [5, 5]))
  )
  rows = metric_rows.MetricRows(
      process, groups=np.array([0, 0, 0, 1, 1]), honest=np.array([0, 2, 3, 4])
  )
  score = lambda **state: rows.row(
      position.Position(), {n: 0 for n in ('train_loss', *rows.columns)},
      dict(loss=np.ones(4), num_examples=np.ones(4)), state=state,
  )['cluster_accuracy']
  assert score(mixing=mixing, assignment=()) == 1.0
  # With a model per cluster it is said who has which; client 4 has none yet.
  shared = dict(mixing=mixing[:3], assignment=np.array([2, 0, 2, 0, -1]))
  assert score(**shared) == 0.75


@pytest.mark.parametrize(
    'name', ['round', 'seconds', 'accuracy_mean', 'virtual_time']
)
def test_refuses_a_metric_with_the_name_of_another_column(name):
  own = collections.OrderedDict(_OWN, **{name: np.float32})
  with pytest.raises(ValueError, match=f'metric {name}, .* another column'):
    metric_rows.MetricRows(_process(own), others=['virtual_time'])
