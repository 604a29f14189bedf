"""FedRolex: against NumPy, its windows, and how its tiers are evaluated."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedrolex
from tests import problems
from tests.baselines import rounds
from tests.baselines import submodel_rounds as sr


def _build(parts=None, client_weighting='uniform', **values):
  parts = parts or sr.parts()
  return fedrolex.build_fedrolex(
      parts, parts.widths, sr.assign,
      fedrolex.FedRolexHyperparameters(**{**sr.STEP, **values}),
      client_weighting=client_weighting,
  )


@pytest.fixture(scope='module', name='rolling')
def _rolling():
  return _build()


def _window(round_num, count):
  return sorted((round_num + k) % sr.HIDDEN for k in range(count))


def test_rounds_are_those_of_numpy():
  """With the scaler; in round 4 and 5 windows of three units wrap."""

  def trained(weights, round_num, client):
    tier = sr.tier_of(client['index'])
    units = _window(round_num, sr.COUNTS[tier])
    return units, sr.train(
        sr.cut(weights, units), sr.batches(client, round_num),
        rate=sr.WIDTHS[tier],
    )

  sr.assert_rounds(
      _build(scaler='on', client_weighting='examples'), trained, 'examples',
      cohorts=((0, 1, 2), (4, 2), (1,), (2, 1), (4, 2, 0), (1, 2)),
  )


def test_window_rolls_one_unit_per_round(rolling):
  """Baselines 7.3: from unit t on in round t, so each unit in q of C rounds."""
  state, _ = sr.start(rolling)
  times = np.zeros(sr.HIDDEN, int)
  for round_num in range(2 * sr.HIDDEN):
    client = (1, 2, 4)[round_num % 3]
    count = sr.COUNTS[sr.tier_of(client)]
    after, _ = sr.play(rolling, state, (client,))
    found = sr.moved(state, after)
    assert found == _window(round_num, count)
    state = after
    times[found] += 1
  assert times.min() > 0


def test_random_windows_differ_by_client_and_round():
  """Federated dropout: each client alone, so that its units can be seen."""
  process = _build(window='random')
  state, _ = sr.start(process)
  found = []
  for _ in range(4):
    for client in (1, 4):
      after, _ = sr.play(process, state, (client,))
      found.append(tuple(sr.moved(state, after)))
    state = after
  assert all(len(units) == 3 for units in found)
  assert len(set(found[0::2])) > 1 and len(set(found[1::2])) > 1
  assert any(a != b for a, b in zip(found[0::2], found[1::2]))


def test_static_windows_are_the_first_units():
  process = _build(window='static')
  state, _ = sr.start(process)
  for _ in range(2):
    after, _ = sr.play(process, state, (2,))
    assert sr.moved(state, after) == [0, 1]
    state = after
  _, without, _, _ = rounds.run('fedrolex', window='static')
  _, expected, _, _ = rounds.run('heterofl')
  rounds.assert_identical(without[-1]['weights'], expected[-1]['weights'])


def test_tiers_are_means_over_five_windows(rolling):
  """Baselines 7.3; of 6 units from 0, 1, 2, 3 and 4 on."""
  parts = sr.parts()
  assert fedrolex.evaluated_offsets(parts) == [0, 1, 2, 3, 4]
  assert fedrolex.evaluated_offsets(
      sr.parts(hidden=10)
  ) == [0, 2, 4, 6, 8]
  state, weights = sr.start(rolling)
  data = problems.tiny_clients()[4]
  x, y = data['examples']['x'], data['examples']['y']
  found = rolling.evaluate_global(state, data)

  def loss(tier, units):
    own = tuple(map(tf.constant, sr.cut(weights, units)))
    logits = parts.tiers[tier].predict(own, x, False, None)
    return np.mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))

  for tier, name in enumerate(['1', '0.5', '0.333333']):
    losses = [loss(tier, _window(t, sr.COUNTS[tier])) for t in range(5)]
    assert tier == 0 or np.std(losses) > 1e-3
    np.testing.assert_allclose(
        found[name]['loss'], np.mean(losses), rtol=1e-10
    )
    assert found[name]['num_examples'] == 7


def test_clients_deploy_the_whole_model(rolling):
  state, weights = sr.start(rolling)
  rounds.assert_identical(list(rolling.client_model(state, (), 2)), weights)
