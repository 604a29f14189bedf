"""Splits of overloaded adaptors: who is copied, what clients learn of it."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tests.baselines import rounds
from tff_pers.aggregators import router as router_aggregation
from tff_pers.algorithms.floral import floral
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.algorithms.floral import floral_splits
from tff_pers.config import methods
from tff_pers.core import random
from tff_pers.data import tasks
from tff_pers.evaluation import clusters
from tff_pers.models import adaptors

_LOCAL = dict(local_steps=2, batch_size=2, learning_rate=0.1)
# Routers that nothing but a split moves.
_STILL = dict(router_learning_rate=0.0, split_every=1)
# Loads of four adaptors: the first is copied onto the last, bounds 0.35, 0.175.
_SPLIT = (0.36, 0.30, 0.18, 0.16)
_COPY, _SAME = [0, 1, 2, 0], [0, 1, 2, 3]
_EVERYBODY = range(5)


def _adapted(num_adaptors=4):
  return adaptors.floral(problems.tiny_model(), num_adaptors, rank=1)


def _build(num_adaptors=4, **options):
  hyperparameters = floral_hp.FloralHyperparameters(**{**_LOCAL, **options})
  return floral.build_floral(_adapted(num_adaptors), hyperparameters)


@pytest.fixture(scope='module', name='still')
def _still():
  return _build(splits=2, **_STILL)


def _own(router, looks=0):
  """Returns the state of a client whose weights are `router`."""
  return collections.OrderedDict(
      router=np.log(np.float64(router)), looks=np.int32(looks)
  )


def _start(process):
  """Returns S before the first round, with adaptors that have an effect."""
  state = process.initialize_seeded(rounds.SEED)
  rng = np.random.default_rng(1)
  state['weights']['adaptors'] = tf.nest.map_structure(
      lambda leaf: rng.standard_normal(leaf.shape),
      state['weights']['adaptors'],
  )
  return state


def _next(process, state, own, cohort=_EVERYBODY):
  clients = problems.tiny_clients()
  output = process.next(state, list(own), [clients[k] for k in cohort])
  return output['state'], output['client_states'], output['metrics']


def _weights(theta):
  return tf.nn.softmax(theta).numpy()


def _noisy_copy(leaf, position, source):
  """Returns rows `source` of a leaf, those that move with their noise."""
  key = random.key(rounds.SEED, 0, -8, position)
  noise = tf.random.stateless_normal(leaf.shape, key, dtype=tf.float64).numpy()
  rows = [
      leaf[a] + (a != c) * 0.1 * leaf[a].std() * noise[c]
      for c, a in enumerate(source)
  ]
  return np.stack(rows)


def test_most_loaded_adaptor_is_copied_onto_the_least_used(still):
  """A round with a look is the same round without, then the copy."""
  plain = _build(router_learning_rate=0.0)
  own = [_own(_SPLIT)] * 5
  state, _, _ = _next(still, _start(still), own)
  expected, _, _ = _next(
      plain, _start(plain),
      [collections.OrderedDict(router=own[0]['router'])] * 5,
  )
  rounds.assert_identical(state['weights']['base'], expected['weights']['base'])
  leaves = rounds.leaves(expected['weights']['adaptors'])
  rounds.assert_close(
      rounds.leaves(state['weights']['adaptors']),
      [_noisy_copy(leaf, i, _COPY) for i, leaf in enumerate(leaves)],
  )
  for old, new in zip(leaves, rounds.leaves(state['weights']['adaptors'])):
    np.testing.assert_array_equal(old[:3], new[:3])  # No bit of the others.
    assert np.abs(new[3] - new[0]).max() > 1e-3  # The copy is no twin.
  np.testing.assert_array_equal(state['splits']['sources'], [_COPY, _SAME])


@pytest.mark.parametrize('loads, source', [
    (_SPLIT, _COPY),
    ((0.16, 0.18, 0.36, 0.30), [2, 1, 2, 3]),
    ((0.34, 0.33, 0.17, 0.16), _SAME),  # None is overloaded.
    ((0.40, 0.22, 0.20, 0.18), _SAME),  # None is left over.
])
def test_a_split_needs_an_overloaded_and_a_left_over_adaptor(
    still, loads, source
):
  state, _, metrics = _next(still, _start(still), [_own(loads)] * 5)
  np.testing.assert_array_equal(state['splits']['sources'][0], source)
  assert state['splits']['looks'] == 1
  assert metrics['router_splits'] == 0  # That it had before this round.
  metrics = _next(still, state, [_own(loads)] * 5)[2]
  assert metrics['router_splits'] == (source != _SAME)
  # All clients are alike: p is their router, and s its squares.
  np.testing.assert_allclose(metrics['router_focus'], max(loads), rtol=1e-5)


@pytest.mark.parametrize('weight, splits', [(0.97, 0), (0.7, 1)])
def test_adaptor_of_a_large_cluster_is_not_shared(still, weight, splits):
  """Loads of about 0.52, 0.2, 0.16, 0.12, if routers are decided or not."""
  routers = (1 - weight) / 3 + (4 * weight - 1) / 3 * np.eye(4)
  state, _, _ = _next(
      still, _start(still), [_own(routers[c]) for c in (3, 2, 1, 0, 0)]
  )
  load = state['splits']['load']
  assert load[0] > 0.35 and load[3] < 0.175
  assert np.any(state['splits']['sources'][0] != _SAME) == splits


@pytest.mark.parametrize('weight, splits', [(0.97, 0), (0.4, 1)])
def test_adaptor_of_a_small_cluster_is_not_overwritten(still, weight, splits):
  """Of one client of 25 examples' 3, which has found it or not."""
  alone = ((1 - weight) / 3,) * 3 + (weight,)
  others = [_own((0.6, 0.2, 0.199, 0.001))] * 4
  state, _, _ = _next(still, _start(still), [_own(alone), *others])
  log = state['splits']
  assert log['load'][0] > 0.35 and log['load'][3] < 0.175
  assert log['squares'][0] < 0.7 * log['load'][0]
  assert np.any(log['sources'][0] != _SAME) == splits


def test_load_is_a_running_mean_over_cohorts_weighted_by_examples():
  """split_every = 8 counts a cohort for 4/8; its clients for n_k."""
  process = _build(splits=1, router_learning_rate=0.0, split_every=8)
  routers = np.random.default_rng(0).dirichlet(np.ones(4), 5)
  state, expected = _start(process), dict(load=1 / 4, squares=1 / 16)
  for cohort in ((0, 2), (1, 3), (4,)):
    own = [_own(routers[k]) for k in cohort]
    state, _, _ = _next(process, state, own, cohort)
    n = [3 + k for k in cohort]  # See `problems.tiny_clients`.
    pi = routers[list(cohort)]
    for name, new in dict(load=pi, squares=pi**2).items():
      expected[name] = (expected[name] + np.average(new, 0, n)) / 2
  for name, value in expected.items():  # Weights are float32.
    np.testing.assert_allclose(state['splits'][name], value, rtol=1e-5)
  assert (state['splits']['rounds'], state['splits']['looks']) == (3, 0)


def test_looks_come_every_so_many_rounds_and_then_no_more():
  """Rounds 2 and 4 of six; an empty client makes no round of its own."""
  process = _build(splits=2, router_learning_rate=0.0, split_every=2)
  state, looks = _start(process), []
  nobody = problems.tiny_clients()[0]
  nobody['num_examples'] = np.int32(0)
  state = process.next(state, [_own(_SPLIT)], [nobody])['state']
  for _ in range(6):
    state, own, _ = _next(process, state, [_own(_SPLIT)] * 5)
    looks.append(int(state['splits']['looks']))
  assert looks == [0, 1, 1, 2, 2, 2]
  np.testing.assert_array_equal(state['splits']['sources'], [_COPY, _SAME])
  assert [int(client['looks']) for client in own] == [2] * 5


def test_absent_client_applies_a_split_when_it_comes_back(still):
  """Once: it knows then of how many it has heard."""
  own = _own(np.roll(_SPLIT, 1))
  state, told, _ = _next(still, _start(still), [_own(_SPLIT)] * 4, range(4))
  assert [int(client['looks']) for client in told] == [0] * 4
  state, [late], _ = _next(still, state, [own], [4])
  np.testing.assert_array_equal(late['router'], own['router'][_COPY])
  assert late['looks'] == 1
  # That it moves away from the copy afterwards is not undone.
  moved = _own((0.3, 0.3, 0.2, 0.2), looks=1)
  state, [after], _ = _next(still, state, [moved], [4])
  np.testing.assert_array_equal(after['router'], moved['router'])
  assert after['looks'] == 2


def test_present_client_applies_the_split_of_its_round_in_its_next(still):
  state, own, _ = _next(still, _start(still), [_own(_SPLIT)] * 5)
  for client in own:
    np.testing.assert_array_equal(client['router'], np.log(_SPLIT))
  state, own, _ = _next(still, state, own)
  for client in own:
    np.testing.assert_array_equal(client['router'], np.log(_SPLIT)[_COPY])
  # p_a is halved: 0.36 / (1 + 0.36 - 0.16) = 0.3 < 0.35, no second split.
  np.testing.assert_allclose(
      state['splits']['load'], _weights(own[0]['router']), rtol=1e-5
  )
  assert state['splits']['load'].max() < 0.35
  np.testing.assert_array_equal(state['splits']['sources'], [_COPY, _SAME])


@pytest.mark.parametrize('looks, router', [
    (0, [2.0, 1.0, 2.0, 2.0]),  # Both, in order: first 3 <- 2, then 0 <- 3.
    (1, [3.0, 1.0, 2.0, 3.0]),  # The second alone.
    (2, [0.0, 1.0, 2.0, 3.0]),
])
def test_splits_are_applied_in_order_from_the_first_unknown(looks, router):
  log = dict(looks=2, sources=tf.constant([[0, 1, 2, 2], [3, 1, 2, 3], _SAME]))
  found = floral_splits.follow(
      dict(router=tf.range(4.0), looks=tf.constant(looks)), log
  )
  np.testing.assert_array_equal(found['router'], router)
  assert found['looks'] == 2


def test_evaluation_of_a_client_that_was_absent_knows_of_the_split(still):
  state, _, _ = _next(still, _start(still), [_own(_SPLIT)] * 4, range(4))
  absent, data = _own(np.roll(_SPLIT, 1)), problems.tiny_clients()[4]
  pi = _weights(absent['router'][_COPY])
  [result] = still.evaluate(state, [absent], [dict(adapt=data, test=data)])
  np.testing.assert_allclose(result['router'], pi, rtol=1e-12)
  weights = tf.nest.map_structure(tf.constant, state['weights'])
  rounds.assert_close(
      still.client_model(state, absent, 4),
      _adapted().effective(
          weights['base'], weights['adaptors'], tf.constant(pi)
      ),
  )


def test_without_an_overload_and_without_the_option_bits_are_the_same():
  plain, watched = _build(), _build(splits=3, split_every=1)
  plain, watched = rounds.train(plain), rounds.train(watched)
  for a, b in zip(plain[0], watched[0]):
    for part in ('weights', 'optimizer'):
      rounds.assert_identical(a[part], b[part])
    assert 'splits' not in a
    np.testing.assert_array_equal(b['splits']['sources'], [_SAME] * 3)
  for k, client in plain[1].items():
    assert list(client) == ['router']
    rounds.assert_identical(client['router'], watched[1][k]['router'])
  for a, b in zip(plain[2], watched[2]):
    assert b.pop('router_splits') == 0 and 0 < b.pop('router_focus') <= 1
    assert list(a) == list(b)


def test_stateless_clients_keep_and_hear_nothing_of_splits():
  """They learn which of the copies is theirs, as they learn all routers."""
  process = _build(splits=1, router_state='stateless', **_STILL)
  state = _start(process)
  assert not process.is_stateful
  assert list(process.parts.dispatch(state, [0])[0]) == [
      'seed', 'round', 'weights'
  ]
  state, own, _ = _next(process, state, [()] * 5)
  assert own == [()] * 5 and state['splits']['looks'] == 1


def test_server_optimizer_of_a_copy_goes_on_as_that_of_its_source():
  process = _build(splits=1, server_optimizer='adam', **_STILL)
  state, _, _ = _next(process, _start(process), [_own(_SPLIT)] * 5)
  optimizer = state['optimizer']['adaptors']
  for name in ('accumulator', 'preconditioner'):
    for leaf in rounds.leaves(optimizer[name]):
      np.testing.assert_array_equal(leaf[3], leaf[0])
      assert np.any(leaf[0] != leaf[1])
  assert optimizer['step'] == 1


def test_works_with_centering_and_a_rule_for_the_base():
  """The same center and median as without; who is copied is as ever."""
  options = dict(center=True, aggregator='median', router_learning_rate=0.0)
  process = _build(splits=1, split_every=1, **options)
  state, _, _ = _next(process, _start(process), [_own(_SPLIT)] * 5)
  np.testing.assert_array_equal(state['splits']['sources'], [_COPY])
  plain = _build(**options)
  expected, _, _ = _next(
      plain, _start(plain),
      [collections.OrderedDict(router=_own(_SPLIT)['router'])] * 5,
  )
  rounds.assert_identical(state['weights']['base'], expected['weights']['base'])
  for old, new in zip(
      rounds.leaves(expected['weights']['adaptors']),
      rounds.leaves(state['weights']['adaptors']),
  ):
    np.testing.assert_array_equal(old[:3], new[:3])


def test_raises_on_what_a_split_cannot_do():
  for num_adaptors in (0, 1):
    with pytest.raises(ValueError, match=f'found 3 with {num_adaptors}'):
      _build(num_adaptors, splits=3)
  hyperparameters = floral_hp.FloralHyperparameters(splits=1)
  with pytest.raises(ValueError, match='`model_aggregator` must be None with'):
    floral.build_floral(
        _adapted(), hyperparameters,
        model_aggregator=router_aggregation.RouterWeightedFactory(
            with_shares=True
        ),
    )
  for other in (dict(router='oracle'), dict(objective='mfl')):
    with pytest.raises(ValueError, match='`splits` must be left at 0 unless'):
      floral_hp.FloralHyperparameters(splits=1, **other)
  with pytest.raises(ValueError, match='`split_every` must be left at 40'):
    floral_hp.FloralHyperparameters(split_every=20)
  with pytest.raises(ValueError, match='`splits` must be 0 in a client work'):
    floral.build_floral_client_work(
        _adapted(),
        floral_hp.FloralHyperparameters(splits=1, router_state='stateless'),
    )


def _label_shift(seed, num_clients, **options):
  family = tasks.get('floral_label_shift')
  request = tasks.TaskRequest(seed=seed, num_clients=num_clients)
  return family.build(request, family.options(**options))


def _found(task, clients, seed, splits):
  """Returns (accuracy of the clusters, number of splits) after 200 rounds."""
  process = methods.get('floral').build(
      task, floral_hp.FloralHyperparameters(
          local_steps=0, local_epochs=1, batch_size=8, rank=1, splits=splits
      ),
  )
  train, test = (
      [dict(data[k], index=np.int32(i)) for i, k in enumerate(clients)]
      for data in (task.train, task.test)
  )
  state = process.initialize_seeded(seed)
  own = [process.initialize_client(state, k) for k in range(len(clients))]
  for _ in range(200):
    state, own, metrics = process.next(state, own, train).values()
  results = process.evaluate(
      state, own, [dict(adapt=a, test=b) for a, b in zip(train, test)]
  )
  found = np.array([r['router'].argmax() for r in results])
  accuracy = clusters.recovery(found, task.groups[list(clients)]).accuracy
  return accuracy, metrics.get('router_splits')


@pytest.mark.slow
@pytest.mark.parametrize('splits, expected', [(0, (0.8, None)), (3, (1.0, 1))])
def test_finds_a_cluster_that_was_missed(splits, expected):
  """With 15 examples a client, where four of five are found without."""
  task = _label_shift(22, 20, train=15)
  assert _found(task, range(20), 22, splits) == expected


@pytest.mark.slow
def test_clusters_of_unequal_sizes_are_left_alone():
  """Loads are far from equal, and routers decided."""
  task = _label_shift(10, 40)
  chosen = [
      k for c, number in enumerate((10, 5, 3, 2))
      for k in np.flatnonzero(task.groups == c)[:number]
  ]
  assert _found(task, chosen, 10, splits=3) == (1.0, 0)
