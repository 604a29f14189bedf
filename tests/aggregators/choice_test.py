"""The aggregator that hyperparameters name, in methods with several parts."""

import collections
import collections.abc

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.aggregators import robust
from tff_pers.aggregators import router
from tff_pers.aggregators import sum_of_mean
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.testing import tiny


def _chosen(name):
  return choice.chosen(fedavg.FedAvgHyperparameters(aggregator=name))


def test_the_mean_is_left_to_the_method():
  assert _chosen('mean') is None


@pytest.mark.parametrize('name, sentence', [
    ('middle', '`aggregator` must be one of'),
    ('krum', '`aggregator` krum must be told how many clients'),
    ('bucketing(trimmed_mean)', 'must be told how many clients'),
    ('nnm(median)', r'Tip: nnm\[f=1\]\(median\)\.'),
    ('bucketing[s=3](krum)', r'Tip: bucketing\[f=1,s=3\]\(krum\)\.'),
])
def test_raises_on_rules_that_cannot_be(name, sentence):
  with pytest.raises(ValueError, match=sentence):
    _chosen(name)


def test_a_robust_sum_is_the_mean_of_honest_times_those_present():
  """Four clients, one of them absent: three times the median of 1, 2, 900."""
  factory = sum_of_mean.SumOfMeanFactory(_chosen('median'))
  process = factory.create(
      tff.TensorType(np.float64, [1]), tff.TensorType(np.float32)
  )
  output = process.next(
      process.initialize(),
      [np.float64([x]) for x in (1, 2, 900, 7)], [1.0, 1.0, 1.0, 0.0],
  )
  np.testing.assert_array_equal(output.result, [6.0])


def test_the_base_of_adaptors_has_a_rule_of_its_own():
  """Adaptors are router-weighted means as before; the base is a median."""
  value_type = tff.to_type(collections.OrderedDict(
      adaptors=(np.float64, [2]), base=(np.float64, [1])
  ))
  values = [
      collections.OrderedDict(
          adaptors=np.float64([x, 2 * x]), base=np.float64([y])
      )
      for x, y in ((1, 10), (3, 20), (5, 9000))
  ]
  weights = [np.float32([1, 1, 0]), np.float32([1, 0, 1]),
             np.float32([2, 1, 1])]
  results = []
  for base_factory in (None, _chosen('median')):
    process = router.RouterWeightedFactory(base_factory=base_factory).create(
        value_type, tff.TensorType(np.float32, [3])
    )
    results.append(process.next(process.initialize(), values, weights).result)
  plain, ruled = results
  np.testing.assert_array_equal(plain['adaptors'], ruled['adaptors'])
  np.testing.assert_array_equal(plain['base'], [18030 / 4])
  np.testing.assert_array_equal(ruled['base'], [20])


# Who averages nothing, a table of models whose rows have weights of their own,
# or each coordinate over the clients that have it.
WITHOUT = {
    'ensemble', 'fedamp', 'fedasync', 'fedbuff', 'fedem', 'fedfomo', 'fedrolex',
    'fjord', 'heterofl', 'ifca', 'local_only', 'oracle_groups', 'pfedgraph',
    'splitmix', 'uniform_shuffling',
}


def test_every_method_that_averages_has_the_choice():
  able = {
      name for name in methods.names()
      if issubclass(methods.get(name).hyperparameters, hp.Aggregation)
  }
  assert set(methods.names()) - able == WITHOUT


# Ways in which a rule is put in; the slow runs have all methods.
FAST = ('fedavg', 'fedhm', 'floral')
NAMES = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
    # FedBN's statistics are averages, which no rule takes.
    for name in methods.names() if name not in WITHOUT and name != 'fedbn'
]


@pytest.mark.parametrize('name', NAMES)
def test_the_rule_is_what_combines_the_updates(name, monkeypatch):
  """With a rule that returns zeros, what is averaged stays where it is.

  With the mean it moves. FedHM averages models, not differences: they are 0.
  """
  task = tiny.task()
  moved = []
  for aggregator in ('mean', 'median'):
    if aggregator == 'median':
      monkeypatch.setattr(
          robust.rules.Median, '__call__', lambda self, x, f, key: 0 * x[0]
      )
    process = tiny.build(name, task, aggregator=aggregator)
    state = process.initialize_seeded(1)
    clients = [
        process.initialize_client(state, i) for i in range(task.num_clients)
    ]
    after = process.next(state, clients, task.train)['state']
    before = [0 * leaf if name == 'fedhm' else leaf for leaf in _averaged(state)]
    moved.append(not all(
        np.array_equal(a, b) for a, b in zip(before, _averaged(after))
    ))
  assert moved == [True, False]


def test_a_masked_loss_is_a_mean_over_those_who_have_a_class():
  with pytest.raises(ValueError, match='`masked_loss` must be false .* median'):
    choice.chosen(
        fedavg.FedAvgHyperparameters(masked_loss=True, aggregator='median')
    )


def _averaged(state):
  """Returns the leaves of the weights that a rule combines."""
  weights = state['weights']
  # Adaptors have means of their own.
  if isinstance(weights, collections.abc.Mapping) and 'base' in weights:
    weights = weights['base']
  return [np.asarray(leaf) for leaf in tf.nest.flatten(weights)]
