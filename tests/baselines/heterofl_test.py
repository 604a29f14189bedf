"""HeteroFL: against NumPy, its reductions, and what its clients deploy."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import heterofl
from tests import problems
from tests.baselines import rounds
from tests.baselines import submodel_rounds as sr
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import submodels

UNITS = [range(count) for count in sr.COUNTS]


def _build(parts=None, assign=sr.assign, client_weighting='uniform', **values):
  parts = parts or sr.parts()
  return heterofl.build_heterofl(
      parts, parts.widths, assign,
      heterofl.HeteroFLHyperparameters(**{**sr.STEP, **values}),
      client_weighting=client_weighting,
  )


@pytest.fixture(scope='module', name='plain')
def _plain():
  return _build()


@pytest.mark.parametrize('client_weighting, scaler', [
    ('uniform', 'off'), ('examples', 'on'),
])
def test_rounds_are_those_of_numpy(client_weighting, scaler):
  """Two rounds miss the largest tier, whose units stay (7.2); real batches."""

  def trained(weights, round_num, client):
    tier = sr.tier_of(client['index'])
    own = sr.cut(weights, UNITS[tier])
    rate = sr.WIDTHS[tier] if scaler == 'on' else 1.0
    return UNITS[tier], sr.train(own, sr.batches(client, round_num), rate=rate)

  sr.assert_rounds(
      _build(client_weighting=client_weighting, scaler=scaler), trained,
      client_weighting,
  )


def test_scaler_is_relative_to_the_largest_tier():
  """FedHM 3.2: w_max, the largest width that takes part, need not be 1."""
  parts = sr.parts(widths=(0.5, 1 / 3))
  values = heterofl.HeteroFLHyperparameters(scaler='on')
  widest, narrow = values.trained(parts)
  assert widest is parts.tiers[0]
  weights = narrow.init(tf.constant([1, 2], tf.int64))
  x = tf.ones([2, 3], tf.float64)
  w1, b1, w2, b2 = weights
  np.testing.assert_allclose(
      narrow.predict(weights, x, True, None),
      tf.matmul(tf.tanh((tf.matmul(x, w1) + b1) / (2 / 3)), w2) + b2,
      rtol=1e-10,
  )


def test_scaler_goes_with_a_norm_by_default():
  parts = sr.parts()
  assert heterofl.HeteroFLHyperparameters().trained(parts) == parts.tiers


@pytest.mark.parametrize('client_weighting, first', [
    ('uniform', 7 / 3), ('examples', 11 / 6),
])
def test_example_of_the_sheet(client_weighting, first):
  """Baselines B22, 7.1: values 4, 1, 2 of clients that have 4, 2, 2 entries."""
  process = _build(
      sr.vector_parts(), sr.first_whole_then_halves, client_weighting,
      local_steps=1, batch_size=0, learning_rate=1.0, momentum=0.0,
      weight_decay=0.0,
  )
  state = process.initialize_seeded(0)
  after, _ = sr.play(process, state, (0, 1, 2), sr.vector_clients())
  np.testing.assert_allclose(
      after['weights'][0], (first, first, 4, 4), rtol=1e-10
  )
  after, _ = sr.play(process, state, (1, 2), sr.vector_clients())
  assert after['weights'][0][2:].tolist() == [10, 10]


# --- Classes that a client does not have. ---


def test_masked_loss_and_rows_are_those_of_numpy():
  """FedHM 2.6, A13: decay would move rows of classes that a client lacks."""
  sr.assert_masked_rounds(
      _build(masked_loss=True, client_weighting='examples'), UNITS
  )


# --- What is sent, deployed and evaluated. ---


def test_bytes_are_those_of_the_sub_models(plain):
  state, _ = sr.start(plain)
  sizes = [6 * 6 + 2, 6 * 3 + 2, 6 * 2 + 2]  # Parameters, float64.
  _, metrics = sr.play(plain, state, (0, 1, 2))
  assert metrics['bytes_down'] == metrics['bytes_up']
  np.testing.assert_allclose(metrics['bytes_up'], 8 * sum(sizes) / 3)
  _, metrics = sr.play(plain, state, (2,))
  assert metrics['bytes_up'] == 8 * sizes[2]
  assert plain.tier_parameters == dict(zip(('1', '0.5', '0.333333'), sizes))


def test_clients_deploy_the_first_units_of_their_tiers(plain):
  """Clients 3 and 4 never trained, 7 and 8 are not among the N."""
  state, _ = sr.start(plain)
  state, _ = sr.play(plain, state, (0, 1, 2))
  parts, clients = sr.parts(), problems.tiny_clients()
  data = clients[4]
  found = plain.evaluate_global(state, data)
  for index in (0, 1, 2, 3, 4, 7, 8):
    tier = sr.tier_of(index)
    own = sr.cut(state['weights'], UNITS[tier])
    rounds.assert_identical(
        list(plain.client_model(state, (), index)), own
    )
    both = dict(adapt=dict(data, index=np.int32(index)), test=data)
    metrics, = plain.evaluate(state, [()], [both])
    y, x = data['examples']['y'], data['examples']['x']
    logits = parts.tiers[tier].predict(
        tuple(map(tf.constant, own)), x, False, None
    )
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
    np.testing.assert_allclose(metrics['loss'], np.mean(loss), rtol=1e-10)
    name = list(plain.tier_parameters)[tier]
    np.testing.assert_allclose(found[name]['loss'], np.mean(loss), rtol=1e-10)


def test_dynamic_tiers_are_drawn_for_every_round():
  """Who moves which units, and what is deployed, follows the same draw."""
  assign = tier_assignment.assign(5, 3, assignment='dynamic')
  process = _build(assign=assign)
  state, _ = sr.start(process)
  seen = set()
  for round_num in range(6):
    tier = int(assign(sr.SEED, round_num, 1))
    model = process.client_model(state, (), 1)
    assert model[1].shape == (sr.COUNTS[tier],)
    after, _ = sr.play(process, state, (1,))
    assert sr.moved(state, after) == list(UNITS[tier])
    state = after
    seen.add(tier)
  assert len(seen) > 1


def test_tiers_of_one_width_are_one():
  parts = sr.parts(widths=(0.5, 0.5, 0.5))
  process = _build(parts)
  state, _ = sr.start(process)
  after, _ = sr.play(process, state, (0, 1, 2))
  assert sr.moved(state, after) == [0, 1, 2]
  assert list(process.tier_parameters) == ['0.5']


def test_tasks_say_how_many_tiers_there_are_and_whose():
  task = collections.namedtuple('Task', [
      'model', 'num_clients', 'rank_ratios', 'tier_assignment', 'tiers'
  ])(problems.tiny_model(6), 3, (1.0, 0.5), 'fixed', np.array([1, 0, 1, 0]))
  values = heterofl.HeteroFLHyperparameters(tiers='1:0.5')
  parts, names, assign = heterofl.of_task(task, values)
  assert isinstance(parts, submodels.Submodels)
  assert parts.widths == names == (1.0, 0.5)
  found = [int(assign(0, 0, tf.constant(i))) for i in range(6)]
  assert found == [1, 0, 1, 0, 0, 1]  # Beyond the table: index mod 2.
