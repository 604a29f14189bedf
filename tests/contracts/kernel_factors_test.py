"""Kernels held as factors change the numbers of a method by rounding only.

Every method is built on a task whose first kernel has more rows than a client
has examples: with factors, and with dense kernels only.
"""

import collections

import pytest
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tests.conformance import cases
from tff_pers.client_works import factored_sgd
from tff_pers.config import methods
from tff_pers.testing import tiny

# Methods whose clients take the plain steps of `local_sgd`.
APPLIES = (
    'ditto', 'fedadagrad', 'fedadam', 'fedala', 'fedalt', 'fedavg',
    'fedavg_finetuned', 'fedavgm', 'fedbuff', 'fedfomo', 'fedrecon', 'fedrep',
    'fedrolex', 'fedyogi', 'fomaml', 'heterofl', 'ifca', 'knn_per',
    'local_only', 'maml',
    'oracle_groups', 'perfedavg', 'perm', 'reptile', 'uniform_shuffling',
)


def _played(name, allowed):
  """Returns (values after two rounds and at last, names of the kernels)."""
  task = tiny.wide_task()
  with factored_sgd.building(max(tiny.SIZES), allowed) as scope:
    process = tiny.build(name, task)
  state = process.initialize_seeded(3)
  clients = [process.initialize_client(state, i) for i in range(4)]
  metrics = []
  for _ in range(2):
    output = process.next(state, clients, task.train)
    state, clients = output['state'], output['client_states']
    metrics.append(output['metrics'])
  data = [
      collections.OrderedDict(adapt=a, test=t)
      for a, t in zip(task.train, task.test)
  ]
  last = process.evaluate(state, clients, data)
  return [state, clients, metrics, last], scope.names


@pytest.mark.parametrize('name', cases.cases(
    APPLIES, fast=['fedavg', 'local_only']
))
def test_rounds_are_those_of_dense_kernels(name):
  found, names = _played(name, True)
  expected, none = _played(name, False)
  assert names and not none
  # Two float32 rounds, sums in another order.
  agree_lib.assert_equal(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('name', methods.names())
def test_the_list_of_methods_is_complete(name):
  with factored_sgd.building(max(tiny.SIZES)) as scope:
    tiny.build(name, tiny.wide_task())
  assert bool(scope.names) == (name in APPLIES)


def test_rules_other_than_the_mean_get_dense_updates():
  """They compare updates, and factors cannot be compared."""
  with factored_sgd.building(max(tiny.SIZES)):
    robust, mean = (
        tiny.build('fedavg', tiny.wide_task(), aggregator=aggregator)
        for aggregator in ('median', 'mean')
    )
  for process, is_dense in ((robust, True), (mean, False)):
    update = process.parts.work.type_signature.result.member['update']
    names = tff.structure.name_list_with_nones(update)
    assert ('factors' in names) != is_dense
