"""PERM with models of clusters: `perm[models=C]`, ours."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import acting
from tests import problems
from tests import slow
from tests.algorithms.perm import visits
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_clusters
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting
from tff_pers.numerics import mixing

_N = 6
_GROUPS = np.array([0, 0, 0, 1, 1, 1])
_SIZES = np.array([2.0, 5.0, 3.0, 4.0, 2.0, 6.0])
_CENTERS = (
    np.array([[3.0, 0.0], [-3.0, 1.0]])[_GROUPS]
    + 0.1 * np.random.default_rng(0).standard_normal([_N, 2])
)


def _problem(centers):
  return problems.Quadratics(
      np.tile(np.eye(2), (_N, 1, 1)), centers, [int(n) for n in _SIZES],
      np.array([0.5, -1.0]),
  )


@functools.lru_cache(maxsize=None)
def _process(full=True, num_new=0, same=False, **values):
  """Returns the process; the clients of a group are the same with `same`."""
  centers = np.round(_CENTERS) if same else _CENTERS
  hyperparameters = acting.hyperparameters(
      perm.PermHyperparameters,
      dict(
          local_steps=2, batch_size=8, learning_rate=0.2, warmup_rounds=1,
          global_learning_rate=0.1, warmup='gradient', lambda_=20.0,
          stage1_rounds=1, own_rounds=0, adapt_epochs=0,
      ),
      **values,
  )
  problem = _problem(centers)
  return problem, perm.build_perm(
      problem.model, _N, hyperparameters, full_participation=full,
      num_new_clients=num_new,
  )


def _run(cohorts, **values):
  """Returns (process, states, metrics), one entry per cohort."""
  problem, process = _process(**values)
  data = problem.clients()
  state, states, metrics = process.initialize_seeded(3), [], []
  for cohort in cohorts:
    output = process.next(state, [()] * len(cohort), [data[i] for i in cohort])
    state = output['state']
    states.append(state)
    metrics.append(output['metrics'])
  return process, states, metrics


def _row(w, members, known=range(_N)):
  """Eq. (2) for the center of `members`, against all that are known."""
  gradients = np.asarray(w) - _CENTERS
  center = np.average(
      gradients[members], axis=0, weights=_SIZES[members]
  )
  c = np.full(_N, np.inf)
  known = list(known)
  c[known] = np.sum((gradients[known] - center) ** 2, axis=1)
  return mixing.water_filling(c, tf.constant(_SIZES), 20.0).numpy()


def _deployed(process, state, client):
  return process.client_model(state, (), client)[0]


@pytest.mark.parametrize('values', slow.beyond(2, [
    dict(), dict(schedule='permutation', step_cap=0.0),
    dict(variant='two_stage'),
    dict(solver='projected_gradient', solver_steps=40),
]))
def test_two_groups_share_two_models(values):
  """Rows are those of the centers at w; models reach the groups' optima."""
  process, states, metrics = _run([range(_N)] * 40, models=2, **values)
  assert np.all(states[0]['assignment'] == -1)
  assignment = states[1]['assignment']
  assert len(set(zip(assignment, _GROUPS))) == len(set(assignment)) == 2
  for before, state in zip(states, states[1:]):
    np.testing.assert_array_equal(state['assignment'], assignment)
    # In two stages w rests: it is that of the one comparison.
    w = before['weights'][0]
    for cluster in (0, 1):
      np.testing.assert_allclose(
          state['mixing'][cluster], _row(w, assignment == cluster), atol=1e-5
      )
  assert states[-1]['models'][0].shape == (2, 2)
  for client in range(_N):
    optimum = _row(w, _GROUPS == _GROUPS[client]) @ _CENTERS
    np.testing.assert_allclose(
        _deployed(process, states[-1], client), optimum, atol=0.1
    )
  assert metrics[-1]['models_used'] == 2
  assert metrics[-1]['weights_nonzeros'] == 3
  # Entropy of three nearly equal weights, over that of six.
  np.testing.assert_allclose(
      metrics[-1]['weights_entropy'], np.log(3) / np.log(6), atol=0.1
  )
  assert not {'weights_self', 'weights_alone'} & set(metrics[-1])


def test_as_many_models_as_clients_have_the_rows_of_clients():
  """Under other names; who hosts whom is another draw, so not the models."""
  _, states, _ = _run([range(_N)] * 4, models=_N)
  _, own, _ = _run([range(_N)] * 4)
  for state, expected in zip(states[1:], own[1:]):
    assert sorted(state['assignment']) == list(range(_N))
    np.testing.assert_allclose(
        state['mixing'][state['assignment']], expected['mixing'], atol=1e-6
    )
    np.testing.assert_array_equal(state['weights'][0], expected['weights'][0])


def test_permuted_models_meet_every_client_once_in_an_epoch():
  """Steps of size eta N alpha_c(host), as of the first two of six models."""
  _, states, _ = _run(
      [range(_N)] * (_N + 1), models=2, schedule='permutation', step_cap=0.0
  )
  hosts = visits.hosts_of_epochs(3, _N, 1)[:, :2]
  for before, state, hosts_now in zip(states, states[1:], hosts):
    expected = before['models'][0].copy()
    for model, host in enumerate(hosts_now):
      rate = 0.2 * _N * state['mixing'][model, host]
      for _ in range(2):
        expected[model] -= rate * (expected[model] - _CENTERS[host])
    np.testing.assert_allclose(state['models'][0], expected, rtol=1e-6)


def test_cohorts_make_clients_known_and_models_of_one_group_part():
  """The first cohort is of one group: both models are for it at first."""
  cohorts = [(0, 1), (0, 1), (0, 1), (2, 4), (3, 5)]
  cohorts += [(0, 1, 2), (3, 4, 5), (1, 3, 5), (0, 2, 4)] * 10
  process, states, metrics = _run(cohorts, full=False, models=2)
  w = states[0]['weights'][0]
  assert sorted(states[2]['assignment'][:2]) == [0, 1]
  assert np.all(states[2]['assignment'][2:] == -1)
  np.testing.assert_array_equal(_deployed(process, states[2], 4), w)
  for model in (0, 1):  # The others are not known yet.
    np.testing.assert_allclose(
        states[2]['mixing'][model],
        _row(w, [list(states[2]['assignment']).index(model)], known=(0, 1)),
        atol=1e-5,
    )
  last = states[-1]['assignment']
  np.testing.assert_array_equal(last, states[4]['assignment'])
  assert len(set(zip(last, _GROUPS))) == len(set(last)) == 2
  for client in range(_N):
    np.testing.assert_allclose(
        _deployed(process, states[-1], client),
        _row(w, _GROUPS == _GROUPS[client]) @ _CENTERS, atol=0.15,
    )
  # (1, 3, 5): two models of two numbers and their factors travel, in float64.
  assert metrics[-2]['bytes_down'] == pytest.approx(2 * 8 * (2 + 1) / 3)
  assert metrics[-2]['bytes_up'] == pytest.approx(2 * 8 * 2 / 3)
  assert metrics[-2]['visits_idle'] == pytest.approx(1 / 3)


@pytest.mark.parametrize('names', [(0, 1), (1, 0)])
def test_models_keep_their_clusters_and_the_unknown_teach_nobody(names):
  """Client 4 has no gradient; with so large a lambda all others teach."""
  table = dict(
      fingerprints=tf.constant(-_CENTERS * (np.arange(_N) != 4)[:, None]),
      sizes=tf.constant(np.where(np.arange(_N) == 4, 0, _SIZES), tf.float32),
  )
  old = dict(
      round=tf.constant(5), seed=tf.constant(3, tf.int64),
      mixing=tf.fill([2, _N], 1 / _N),
      assignment=tf.constant(np.array(names, np.int32)[_GROUPS]),
  )
  problem = perm_mixing.Problem(
      setting.PermSetting(
          perm_devices.Devices(None), perm.PermHyperparameters(models=2), _N
      ), table, tf.constant(1e4, tf.float64),
  )
  rows, assignment = perm_clusters.solve(problem, old)
  np.testing.assert_array_equal(assignment, old['assignment'])
  np.testing.assert_array_equal(rows.numpy() > 0, [np.arange(_N) != 4] * 2)


def test_a_cluster_without_clients_is_visited_by_nobody():
  _, states, metrics = _run([range(_N)] * 6, models=4, same=True)
  state = states[-1]
  empty = sorted(set(range(4)) - set(state['assignment']))
  assert len(empty) == 2
  np.testing.assert_array_equal(state['mixing'][empty], 0)
  np.testing.assert_array_equal(state['pending']['so_far'][empty], 0)
  assert np.all(np.isfinite(state['mixing']))
  for model in empty:
    np.testing.assert_array_equal(
        state['models'][0][model], states[0]['models'][0][model]
    )
  assert metrics[-1]['models_used'] == 2
  assert metrics[-1]['weights_nonzeros'] == 3


def test_a_client_without_examples_deploys_the_shared_model():
  problem, process = _process(models=2)
  data = problem.clients()
  data[4] = collections.OrderedDict(data[4], num_examples=np.int32(0))
  state = process.initialize_seeded(3)
  for _ in range(3):
    state = process.next(state, [()] * _N, data)['state']
  assert state['assignment'][4] == -1
  np.testing.assert_array_equal(state['mixing'][:, 4], 0)
  np.testing.assert_array_equal(
      _deployed(process, state, 4), state['weights'][0]
  )


def test_new_clients_get_the_model_of_the_nearest_cluster():
  process, states, _ = _run([range(_N)] * 8, models=4, num_new=2, same=True)
  state = states[-1]
  data = _problem(np.round(_CENTERS)).clients()
  tried = [
      data[5], collections.OrderedDict(data[1], index=np.int32(7)),
      collections.OrderedDict(data[4], index=np.int32(6)),
  ]
  found = process.evaluate(
      state, [()] * 3,
      [collections.OrderedDict(adapt=one, test=one) for one in tried],
  )
  for metrics, client in zip(found, (5, 1, 4)):
    model = state['models'][0][state['assignment'][client]]
    np.testing.assert_allclose(
        metrics['loss'],
        np.sum((model - np.round(_CENTERS)[client]) ** 2) / 2, rtol=1e-4,
    )
  first = process.initialize_seeded(3)
  loss = process.evaluate(
      first, [()], [collections.OrderedDict(adapt=tried[1], test=tried[1])]
  )[0]['loss']
  np.testing.assert_allclose(
      loss, np.sum((first['weights'][0] - np.round(_CENTERS)[1]) ** 2) / 2,
      rtol=1e-4,
  )


def test_the_state_of_many_clients_has_no_table_of_all_pairs():
  problem = _problem(_CENTERS)
  n = 5000
  process = perm.build_perm(
      problem.model, n, perm.PermHyperparameters(models=20),
      full_participation=False,
  )
  state = process.initialize_seeded(0)
  assert state['mixing'].shape == (20, n)
  assert max(np.size(leaf) for leaf in tf.nest.flatten(state)) == 20 * n


@pytest.mark.parametrize('values, words', [
    (dict(models=7), '`models` must be <= 6, the number of clients, found 7'),
    (dict(models=-1), '`models` must be an integer >= 0, found -1'),
    (dict(models=2, row_nonzeros=3), '`row_nonzeros` must be left at 0 unless'),
    (dict(models=2, debias='variance'), '`debias` must be left at none unless'),
])
def test_raises_on_values_that_do_not_go_with_models(values, words):
  with pytest.raises(ValueError) as error:
    perm.build_perm(
        _problem(_CENTERS).model, _N, perm.PermHyperparameters(**values)
    )
  assert words in str(error.value)
