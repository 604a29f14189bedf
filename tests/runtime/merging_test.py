"""Accumulators of single clients become one, whatever their merge does."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import fused
from tff_pers.runtime.fused import merging

TOTAL = tff.to_type(collections.OrderedDict(
    count=np.int32, rows=tff.TensorType(np.float32, [None, 2])
))

JOINS = {
    'in_order': lambda a, b: (a['count'] + b['count'], (a['rows'], b['rows'])),
    'swapped': lambda a, b: (a['count'] + b['count'], (b['rows'], a['rows'])),
    'bounded': lambda a, b: (
        tf.minimum(a['count'] + b['count'], 4), (a['rows'], b['rows'])
    ),
    'doubled': lambda a, b: (
        a['count'] + b['count'], (a['rows'], 2 * b['rows'])
    ),
}


def _collect(join):
  """Collects a row of each client; merges by `join`."""

  @tff.tensorflow.computation
  def zero():
    return collections.OrderedDict(
        count=tf.constant(0), rows=tf.zeros([0, 2])
    )

  @tff.tensorflow.computation(TOTAL, tff.TensorType(np.float32, [2]))
  def accumulate(total, row):
    return collections.OrderedDict(
        count=total['count'] + 1, rows=tf.concat([total['rows'], [row]], 0)
    )

  @tff.tensorflow.computation(TOTAL, TOTAL)
  def merge(a, b):
    count, rows = join(a, b)
    return collections.OrderedDict(count=count, rows=tf.concat(rows, 0))

  report = tff.tensorflow.computation(lambda total: total, TOTAL)

  @tff.federated_computation(
      tff.FederatedType(tff.TensorType(np.float32, [2]), tff.CLIENTS)
  )
  def collect(rows):
    return tff.federated_aggregate(rows, zero(), accumulate, merge, report)

  return collect


def _expected(join, rows):
  """The same merges in NumPy, neighbours first."""
  level = [dict(count=1, rows=row[None]) for row in rows]
  while len(level) > 1:
    pairs = [level[k:k + 2] for k in range(0, len(level), 2)]
    level = [functools.reduce(functools.partial(_pair, join), p) for p in pairs]
  return level[0]


def _pair(join, a, b):
  count, rows = join(a, b)
  return dict(count=int(count), rows=np.concatenate(rows))


@pytest.mark.parametrize('num_clients', [1, 2, 5, 8])
@pytest.mark.parametrize('name', JOINS)
def test_merges_in_a_balanced_tree(name, num_clients, monkeypatch):
  trees = []
  tree = merging._tree
  monkeypatch.setattr(
      merging, '_tree', lambda *a: trees.append(name) or tree(*a)
  )
  rows = np.random.default_rng(0).normal(size=[num_clients, 2])
  rows = rows.astype(np.float32)
  with fused.use(strategy='loop'):
    found = _collect(JOINS[name])(list(rows))
  expected = _expected(JOINS[name], rows)
  assert found['count'] == expected['count']
  np.testing.assert_allclose(found['rows'], expected['rows'], rtol=1e-6)
  # One that only joins all rows and adds all counts needs no tree.
  assert bool(trees) == (name != 'in_order')
