"""PERM (Algorithms 2 and 3): perm checks 10, 14, and options of the round."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from tests.algorithms.perm import perm_runs
from tests.algorithms.perm import visits
from tests.baselines import rounds
from tff_pers import attacks
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.data import client_data
from tff_pers.numerics import mixing

_N, _DIM = perm_runs.N, perm_runs.DIM
_PROBLEM, _SIZES = perm_runs.PROBLEM, perm_runs.SIZES


def test_single_loop_is_algorithm_2():
  """Lines (a), (b), (c) after warm-up, against NumPy."""
  states, metrics = perm_runs.run(5)
  path = perm_runs.global_path(5)
  models = None
  hosts = visits.hosts_of_epochs(3, _N, 1)
  for t, state in enumerate(states):
    np.testing.assert_allclose(state['weights'][0], path[t + 1], rtol=1e-12)
    if t < 2:  # Warm-up: only w; every model is w.
      models = np.tile(path[t + 1], (_N, 1))
      assert metrics[t]['lambda'] == 0  # Not yet.
    else:
      solution = perm_runs.solution_at(path[t])
      assert np.max(np.abs(solution - solution.T)) > 0.05  # Else A^T passes.
      np.testing.assert_allclose(state['mixing'], solution, atol=1e-6)
      models = visits.last(visits.run(
          _PROBLEM, state['mixing'], hosts[t - 2 : t - 1], learning_rate=0.05,
          local_steps=2, models=models,
      ))
      assert metrics[t]['lambda'] == 40.0
    np.testing.assert_allclose(state['models'][0], models, rtol=1e-10)
    assert state['round'] == t + 1


def test_two_stage_is_algorithm_3_then_1():
  """Stage 1 equals fedavg bit for bit; A is solved once, at w^R; w rests."""
  states, _ = perm_runs.run(5, variant='two_stage')
  reference = fedavg.build_fedavg(
      _PROBLEM.model,
      fedavg.FedAvgHyperparameters(
          local_steps=2, batch_size=4, learning_rate=0.1
      ),
  )
  state = reference.initialize_seeded(3)
  data = _PROBLEM.clients()
  for t in range(2):
    state = reference.next(state, [()] * _N, data)['state']
    np.testing.assert_array_equal(
        states[t]['weights'][0], state['weights'][0]
    )
  w = states[1]['weights'][0]
  solution = perm_runs.solution_at(w)
  hosts = visits.hosts_of_epochs(3, _N, 1)
  path = visits.run(
      _PROBLEM, states[2]['mixing'], hosts[:3], learning_rate=0.05,
      local_steps=2, models=np.tile(w, (_N, 1)),
  )
  for state, models in zip(states[2:], path):
    np.testing.assert_array_equal(state['weights'][0], w)
    np.testing.assert_allclose(state['mixing'], solution, atol=1e-6)
    np.testing.assert_array_equal(state['mixing'], states[2]['mixing'])
    np.testing.assert_allclose(state['models'][0], models, rtol=1e-10)


_STEP = dict(
    weight_decay=0.3, clip_norm=0.6, momentum=0.9, learning_rate_decay=0.25,
    learning_rate_schedule='exponential', learning_rate_rounds='2',
)


def test_local_step_of_the_single_loop():
  """w descends clipped gradients; those that are compared are whole."""
  states, _ = perm_runs.run(4, **_STEP)
  w, p = _PROBLEM.start, _SIZES / _SIZES.sum()
  hosts = visits.hosts_of_epochs(3, _N, 1)
  models = None
  for t, state in enumerate(states):
    g, solution = perm_runs.gradients_at(w), perm_runs.solution_at(w)
    norms = np.linalg.norm(g, axis=1, keepdims=True)
    assert norms.max() > 0.6
    d = p @ (g * np.minimum(1, 0.6 / norms)) + 0.3 * w
    w = w - 0.1 * 0.5**t * d
    np.testing.assert_allclose(state['weights'][0], w, rtol=1e-10)
    if t < 2:
      models = np.tile(w, (_N, 1))
      continue
    np.testing.assert_allclose(state['mixing'], solution, atol=1e-6)
    models = visits.last(visits.run(
        _PROBLEM, state['mixing'], hosts[t - 2 : t - 1],
        learning_rate=0.05 * 0.5**t, local_steps=2, models=models,
        momentum=0.9, weight_decay=0.3, clip_norm=0.6,
    ))
    np.testing.assert_allclose(state['models'][0], models, rtol=1e-10)


def test_local_step_of_stage_1_is_that_of_fedavg():
  states, _ = perm_runs.run(3, variant='two_stage', **_STEP)
  reference = fedavg.build_fedavg(
      _PROBLEM.model,
      fedavg.FedAvgHyperparameters(
          local_steps=2, batch_size=4, learning_rate=0.1, **_STEP
      ),
  )
  state, data = reference.initialize_seeded(3), _PROBLEM.clients()
  for t in range(2):
    state = reference.next(state, [()] * _N, data)['state']
    np.testing.assert_allclose(
        states[t]['weights'][0], state['weights'][0], rtol=1e-12
    )


@pytest.mark.parametrize('values, moves, measures', [
    (dict(warmup_rounds=3), range(12), range(3, 12)),
    (dict(warmup_rounds=3, one_trip=True), range(12), range(2, 12)),
    (
        dict(warmup_rounds=3, alpha_update='epoch'), [0, 1, 2, 3, 7, 11],
        [3, 7, 11],
    ),
    (dict(warmup_rounds=3, freeze_after=5), range(12), [3, 4]),
    (dict(variant='two_stage', stage1_rounds=3), [0, 1, 2], [3]),
])
def test_rounds_in_which_w_and_the_mixing_weights_move(values, moves, measures):
  """Four clients, visits from round 3 on; epochs of visits begin there."""
  setting = setting_lib.PermSetting(
      perm_devices.Devices(_PROBLEM.model),
      perm.PermHyperparameters(**values), _N,
  )
  times = [tf.constant(t) for t in range(12)]
  assert [int(t) for t in times if setting.moves_w(t)] == list(moves)
  assert [int(t) for t in times if setting.updates_mixing(t)] == list(measures)


def test_one_trip_visits_with_the_weights_of_the_round_before():
  states, _ = perm_runs.run(4, one_trip=True)
  path = perm_runs.global_path(4)
  np.testing.assert_allclose(
      states[1]['mixing'], perm_runs.solution_at(path[1]), atol=1e-6
  )
  hosts = visits.hosts_of_epochs(3, _N, 1)
  expected = visits.last(visits.run(
      _PROBLEM, states[1]['mixing'], hosts[:1], learning_rate=0.05,
      local_steps=2, models=states[1]['models'][0],
  ))
  np.testing.assert_allclose(states[2]['models'][0], expected, rtol=1e-10)


def test_projected_gradient_is_warm_started():
  states, _ = perm_runs.run(4, solver='projected_gradient', solver_steps=3)
  w = perm_runs.global_path(4)
  alpha = np.full((_N, _N), 1 / _N)
  for t in (2, 3):
    alpha = mixing.projected_gradient(
        perm_runs.distances_at(w[t]), _SIZES, 40.0, alpha, 3
    ).numpy()
    np.testing.assert_allclose(states[t]['mixing'], alpha, atol=1e-6)


def test_models_start_from_the_initial_weights():
  states, _ = perm_runs.run(3, init='initial')
  np.testing.assert_array_equal(
      states[1]['models'][0], np.tile(_PROBLEM.start, (_N, 1))
  )


def test_matching_visits_the_support():
  """schedule=matching: K steps at the matched hosts, in the owner's weights."""
  states, _ = perm_runs.run(5, schedule='matching', lambda_=8.0)
  for before, after in zip(states[1:], states[2:]):
    weights = after['mixing']
    pending = np.where(weights > 0, before['pending']['left'], 0)
    done = ~pending.any(axis=1)
    pending[done] = weights[done] > 0
    hosts = pending - after['pending']['left']
    assert hosts.sum(axis=0).max() == 1 and hosts.sum(axis=1).max() == 1
    expected = before['models'][0].copy()
    scale = np.sum(weights > 0, axis=1)
    for owner, host in np.argwhere(hosts):
      for _ in range(2):
        gradient = _PROBLEM.curvatures[host] @ (
            expected[owner] - _PROBLEM.centers[host]
        )
        expected[owner] -= 0.05 * scale[owner] * weights[owner, host] * gradient
    np.testing.assert_allclose(after['models'][0], expected, rtol=1e-6)


def test_sketch_replaces_the_gradient():
  """perm section 6: distances from k numbers; the w-line is unchanged."""
  states, metrics = perm_runs.run(4, sketch=256)
  np.testing.assert_allclose(
      states[3]['weights'][0], perm_runs.global_path(4)[4], rtol=1e-12
  )
  # Three coordinates into 256 buckets seldom collide: distances are exact.
  solution = perm_runs.solution_at(perm_runs.global_path(2)[2])
  np.testing.assert_allclose(states[2]['mixing'], solution, atol=1e-5)
  # Gradient for the mean (3), its sketch (256), the model (3), in float64.
  assert metrics[3]['bytes_up'] == 8 * (3 + 256 + 3)


def test_cost_is_that_of_the_sheet():
  """perm check 14: stage 2 = FedAvg + 1 scalar; single loop = 2x FedAvg + 1."""
  d, size = _DIM, 8  # float64
  _, metrics = perm_runs.run(5)
  for t, m in enumerate(metrics):
    visits_now = t >= 2
    assert m['bytes_down'] == size * (d + visits_now * (d + 1))
    assert m['bytes_up'] == size * (d + visits_now * d)
  _, metrics = perm_runs.run(5, variant='two_stage')
  down = [d, d, 2 * d + 1, d + 1, d + 1]  # Round 3 sends w for the gradients.
  up = [d, d, 2 * d, d, d]
  for m, floats_down, floats_up in zip(metrics, down, up):
    assert m['bytes_down'] == size * floats_down
    assert m['bytes_up'] == size * floats_up


def test_a_robust_rule_moves_w():
  """The median of clients' messages, instead of the mean."""
  with attacks.carried_out(attacks.parse('huge'), np.arange(_N) == 1):
    states, _ = perm_runs.run(1, aggregator='median')
  sent = perm_runs.gradients_at(_PROBLEM.start)
  sent[1] = 1e30
  np.testing.assert_allclose(
      states[0]['weights'][0],
      _PROBLEM.start - 0.1 * np.median(sent, axis=0), rtol=1e-10,
  )


def _sent(data, client_weighting='examples', **values):
  """Returns what a client sends in the warm-up."""
  client = perm_client.Client(
      perm_devices.Devices(_PROBLEM.model),
      perm.PermHyperparameters(
          local_steps=1, batch_size=0, warmup_rounds=3, **values
      ), _N, client_weighting=client_weighting,
  )
  weights = tuple(w + 10 for w in _PROBLEM.model.initial_weights(0))
  return client.work_on_w(
      rounds.message(weights), tf.constant(False), rounds.tensors(data)
  )


@pytest.mark.parametrize('values', [
    # The loss of a step is that of the weights before it.
    dict(learning_rate=1e215), dict(weight_decay=1e308, warmup='gradient'),
])
def test_an_update_that_overflows_is_not_sent(values):
  """Though loss and gradient are finite."""
  data = _PROBLEM.clients()[1]
  data['examples']['x'] = data['examples']['x'] * 1e100
  found = _sent(data, **values)
  assert not found['report']['finite'] and found['weight'] == 0
  np.testing.assert_array_equal(found['update'][0], np.zeros(_DIM))


def test_a_client_without_examples_has_no_weight_in_w():
  """If clients have equal weights."""
  data = _PROBLEM.clients()[2]
  empty = client_data.dense(
      2, *(data['examples'][name][:0] for name in ('x', 'y'))
  )
  assert _sent(empty, 'uniform')['weight'] == 0
  assert _sent(data, 'uniform')['weight'] == 1


@pytest.mark.parametrize('values, message', [
    (dict(lambda_=-1.0), '`lambda` must be a number > 0'),
    (dict(lambda_='often'), '`lambda` must be a number > 0'),
    (dict(variant='three_stage'), '`variant` must be one of'),
    (dict(one_trip=True, variant='two_stage'), '`one_trip`'),
    (dict(one_trip=True, warmup_rounds=0), '`one_trip`'),
    (dict(row_nonzeros=3, solver='projected_gradient'), '`row_nonzeros`'),
    (dict(freeze_after=10), '`freeze_after`'),
    (dict(gradient_batch=1), '`gradient_batch`'),
    (dict(lambda_=float('inf')), '`lambda` must be a number > 0'),
    (dict(local_steps=0), 'local_epochs'),
])
def test_raises_on_bad_hyperparameters(values, message):
  with pytest.raises(ValueError, match=message):
    perm.PermHyperparameters(**values)


@pytest.mark.parametrize('full', [True, False])
def test_raises_on_more_weights_than_clients(full):
  with pytest.raises(ValueError, match='row_nonzeros'):
    perm.build_perm(
        _PROBLEM.model, _N, perm.PermHyperparameters(row_nonzeros=_N + 1),
        full_participation=full,
    )


def test_raises_on_epochs_of_matchings():
  with pytest.raises(ValueError, match='alpha_update'):
    perm.build_perm(
        _PROBLEM.model, _N, perm.PermHyperparameters(alpha_update='epoch'),
        full_participation=False,
    )
