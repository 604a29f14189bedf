"""What methods cost: sizes, MACs, and the bytes that rounds report."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.analysis import cost
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import interception
from tff_pers.core import random
from tff_pers.models import factorized
from tff_pers.models import macs
from tff_pers.models import zoo
from tff_pers.testing import tiny

VECTOR = tf.TensorSpec([None, 12], tf.float32)


@pytest.fixture(scope='module', name='model')
def _model():
  return zoo.build('mlp_20', VECTOR, 3)


@pytest.fixture(scope='module', name='task')
def _task(model):
  return cost.tiny_task(model, 3)


def _rows(name, task, **values):
  method = methods.get(name)
  chosen = hp.replace(method.hyperparameters(), **values)
  return cost.rows(name, cost.build(method, chosen, task), chosen, task)


def test_columns_are_the_documented_ones():
  assert cost.COLUMNS == (
      'algo', 'model', 'tier', 'parameters', 'macs', 'bytes_down', 'bytes_up'
  )


def test_tiers_of_fedhm(model, task):
  """Check A12 of FedHM: the parameters of the tier, both ways."""
  rows = _rows('fedhm', task)
  assert [row['tier'] for row in rows] == ['1', '0.5', '0.25', '0.125']
  for row in rows:
    hybrid = factorized.Factorization(model, float(row['tier']))
    assert row['parameters'] == hybrid.num_parameters
    assert row['macs'] == macs.total(hybrid.model)
    assert row['bytes_down'] == row['bytes_up'] == 4 * hybrid.num_parameters
    assert row['model'] == 'mlp_20' and set(row) == set(cost.COLUMNS)


def test_tiers_that_were_asked_for(task):
  rows = _rows('fedhm', task, tiers='0.5:0.1:0.1')
  assert [row['tier'] for row in rows] == ['0.5', '0.1']
  assert rows[0]['bytes_up'] > rows[1]['bytes_up']
  six = methods.get('fedhm').hyperparameters(tiers='1:0.9:0.8:0.7:0.6:0.5')
  assert cost.num_clients(six) == 6
  assert cost.num_clients(methods.get('fedavg').hyperparameters()) == 4


@pytest.mark.parametrize('num_models', [2, 5, 7])
def test_as_many_models_as_are_asked_for(model, num_models):
  """FedFomo receives models of others, as many as there are at most."""
  values = methods.get('fedfomo').hyperparameters(num_models=num_models)
  task = cost.tiny_task(model, 3, cost.num_clients(values))
  row, = _rows('fedfomo', task, num_models=num_models)
  assert row['bytes_down'] == num_models * 4 * model.num_parameters


def test_what_a_client_deploys_and_what_it_sends(task):
  """The private output layer is a part of the model that does not travel."""
  row, = _rows('fedper', task)
  assert (row['tier'], row['parameters'], row['macs']) == (
      '1', 12 * 20 + 20 + 20 * 3 + 3, 12 * 20 + 20 * 3
  )
  assert row['bytes_down'] == row['bytes_up'] == 4 * (12 * 20 + 20)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['perm', 'floral', 'fedhm'])
def test_stand_in_sends_what_the_model_sends(name):
  """In a real round of the model itself, whose weights are no zeros."""
  real = tiny.task()
  process = tiny.build(name, real)
  state = process.initialize_seeded(0)
  states = [process.initialize_client(state, i) for i in range(4)]
  metrics = process.next(state, states, real.train)['metrics']
  task = cost.tiny_task(zoo.build('mlp_20', tf.TensorSpec([None, 3]), 2), 2)
  sent = cost.traffic(tiny.build(name, task), task)
  np.testing.assert_allclose(
      np.mean(sent, axis=0), [metrics['bytes_down'], metrics['bytes_up']],
      rtol=1e-6,
  )


def test_stages_are_over(task):
  """FFGG sends private weights in its first stage only."""
  method = methods.get('ffgg')
  process = method.build(task, hp.replace(
      method.hyperparameters(), pretrain_rounds=5
  ))
  first = cost.traffic(process, task, 0)[0]
  late = cost.traffic(process, task, cost.LATE_ROUND)[0]
  assert first.up - late.up == 4 * (20 * 3 + 3)


def test_stand_in_computes_only_if_asked(model):
  other = cost.stand_in(model)
  weights = model.init(random.key(0))
  x, seed = tf.random.stateless_normal([5, 12], [1, 2]), random.key(1)
  total = sum(np.sum(leaf) for leaf in weights)
  np.testing.assert_allclose(
      other.predict(weights, x, True, seed), np.full([5, 3], total), rtol=1e-5
  )
  with interception.computing():
    np.testing.assert_array_equal(
        other.predict(weights, x, True, seed),
        model.predict(weights, x, True, seed),
    )
  assert other.spec == model.spec
  assert all(not np.any(leaf) for leaf in other.init(random.key(0)))


def test_model_that_lacks_what_the_method_needs():
  task = cost.tiny_task(zoo.build('logistic_regression', VECTOR, 3), 3)
  with pytest.raises(ValueError, match=(
      '^fedper needs a model with hidden layers.* found the model logistic'
  )):
    _rows('fedper', task)
