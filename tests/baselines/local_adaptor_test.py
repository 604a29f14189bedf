"""Local adaptors (papers/baselines.md 4.4)."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from baselines import local_adaptor
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import router_training
from tff_pers.data import client_data
from tff_pers.models import adaptors
from tff_pers.models import zoo

_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)


def _adapted(**options):
  return adaptors.floral(problems.tiny_model(), 1, rank=1, **options)


def _hyperparameters(**options):
  return local_adaptor.LocalAdaptorHyperparameters(**{**_LOCAL, **options})


def test_without_an_adapted_layer_it_is_fedavg_bit_for_bit():
  process = local_adaptor.build_local_adaptor(
      _adapted(predicate=lambda weight: False), _hyperparameters()
  )
  states, _, _ = rounds.train(process)
  _, plain, _, _ = rounds.run('fedavg')
  for state, expected in zip(states, plain):
    rounds.assert_identical(state['weights'], expected['weights'])


def test_with_a_frozen_base_it_is_local_sgd_of_the_adaptors():
  adapted = _adapted()
  base = adapted.base.initial_weights(0)
  own = adapted.initial_adaptors(0)
  data = rounds.tensors(problems.tiny_clients()[4])
  budget = dict(num_steps=4, batch_size=2)
  u, a, _ = local_adaptor.train(
      adapted, rounds.message(base), own, data,
      _hyperparameters(precondition=False, adaptor_learning_rate=0.3),
      router_training.Rates(0.0, 0.3), **budget,
  )
  rounds.assert_identical(u, base)
  only_adaptors = dataclasses.replace(
      adapted.base,
      predict=lambda a, *rest: adapted.base.predict(
          local_adaptor.combine(adapted, base, a), *rest
      ),
  )
  expected, _ = local_sgd.train(
      only_adaptors, own, data, learning_rate=0.3,
      seed=client_work.key(rounds.message(base), data), **budget,
  )
  rounds.assert_close(a, expected)
  assert any(np.any(x != y) for x, y in zip(*map(rounds.leaves, (a, own))))


def test_adaptors_may_have_their_own_rate():
  adapted, hyperparameters = _adapted(), _hyperparameters(
      adaptor_learning_rate=0.3
  )
  process = local_adaptor.build_local_adaptor(adapted, hyperparameters)
  states, own, _ = rounds.train(process, cohorts=((3,),))
  base, learned, _ = local_adaptor.train(
      adapted,
      rounds.message(adapted.base.initial_weights(rounds.SEED), rounds.SEED),
      adapted.initial_adaptors(rounds.SEED),
      rounds.tensors(problems.tiny_clients()[3]), hyperparameters,
      router_training.Rates(hyperparameters.learning_rate, 0.3),
      **hyperparameters.budget(),
  )
  rounds.assert_close(states[0]['weights'], base)
  rounds.assert_close(own[3], learned)


def _adapted_like(process):
  """The adapted model of `rounds.run`: its default budget means rank 1."""
  adapted = local_adaptor.LocalAdaptorHyperparameters().adapt(
      problems.tiny_model(), 1
  )
  weights_type = adapted.mixed([1.0]).weights_type
  assert process.client_state_type == weights_type['adaptors']
  return adapted


def test_a_client_that_never_trains_learns_its_adaptors_alone():
  process, states, _, _ = rounds.run('local_adaptor')
  state, data = states[-1], problems.tiny_clients()[4]
  data = collections.OrderedDict(data, index=np.int32(5))
  own = process.initialize_client(state, 5)
  result = rounds.evaluated(process, state, own, data)
  adapted = _adapted_like(process)
  message = rounds.message(rounds.tensors(state['weights']), rounds.SEED, 3)
  base, learned, _ = local_adaptor.train(
      adapted, message, rounds.tensors(own),
      rounds.tensors(data), _hyperparameters(),
      router_training.Rates(0.0, _hyperparameters().adaptor_rate(adapted)),
      num_epochs=5, batch_size=2,
  )
  def loss(own):
    return rounds.loss(local_adaptor.combine(adapted, base, own), data)
  np.testing.assert_allclose(result['loss'], loss(learned), rtol=1e-9)
  assert result['loss'] < loss(own) - 1e-2


def test_steps_next_to_a_zero_factor_are_bounded():
  """One output, rank 1: u is a number that crosses 0, v moves by g / u.

  FedAvg's step of 0.1 is stable; without the bound the loss is above 1e9.
  """
  rng = np.random.default_rng(0)
  data = client_data.dense(
      0, 0.4 + 0.4 * rng.standard_normal([100, 20]), rng.standard_normal(100)
  )
  model = zoo.build(
      'linear_regression', tf.TensorSpec([None, 20], tf.float64), 0,
      dtype=tf.float64,
  )
  adapted = adaptors.floral(model, 1, rank=1)
  _, _, loss = local_adaptor.train(
      adapted, rounds.message(model.initial_weights(0)),
      adapted.initial_adaptors(0), rounds.tensors(data), _hyperparameters(),
      router_training.Rates(0.1, 0.1), num_steps=100, batch_size=10,
  )
  assert loss < 3


def test_raises_on_several_adaptors():
  several = adaptors.floral(problems.tiny_model(), 2, rank=1)
  with pytest.raises(ValueError, match='must have one adaptor, which every'):
    local_adaptor.build_local_adaptor(several)
