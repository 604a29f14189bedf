"""Composed methods: types, what is dropped, the steps of a round one by one."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.small_method import CLIENT
from tests.small_method import client
from tests.small_method import COHORT
from tests.small_method import DATA
from tests.small_method import deploy
from tests.small_method import INDICES
from tests.small_method import MODEL
from tests.small_method import pieces
from tests.small_method import start
from tests.small_method import WEIGHTS
from tests.small_method import work
from tff_pers import composition
from tff_pers.client_works import client_work
from tff_pers.composition import deployment
from tff_pers.composition import own_messages
from tff_pers.core import random
from tff_pers.data import client_data


@pytest.fixture(scope='module', name='composed')
def _composed():
  return composition.compose(**pieces())


def by_hand(composed, state, client_states, cohort):
  """Returns what `next` returns, made of the steps of a round."""
  parts = composed.parts
  messages = parts.dispatch(state, [c['index'] for c in cohort])
  outputs = parts.work(messages, client_states, cohort)
  applied = parts.apply(state, parts.aggregate(state, outputs))
  return dict(
      state=applied['state'],
      client_states=[output['client_state'] for output in outputs],
      metrics=applied['metrics'],
  )


def assert_same(actual, expected):
  tf.nest.map_structure(
      np.testing.assert_array_equal, tf.nest.flatten(actual),
      tf.nest.flatten(expected),
  )


def test_is_an_iterative_process(composed):
  assert isinstance(composed, tff.templates.IterativeProcess)
  again = tff.templates.IterativeProcess(
      composed.initialize, composed.next, next_is_multi_arg=True
  )
  at_server = tff.FederatedType(composed.server_state_type, tff.SERVER)
  assert again.state_type == at_server
  assert composed.initialize()['seed'] == 0


def test_type_signatures(composed):
  at_server = tff.FederatedType(composed.server_state_type, tff.SERVER)
  at_clients = tff.FederatedType(CLIENT, tff.CLIENTS)
  assert composed.client_state_type == CLIENT
  assert composed.data_type == DATA
  assert composed.is_stateful
  signature = composed.next.type_signature
  assert list(signature.parameter) == [
      at_server, at_clients, tff.FederatedType(DATA, tff.CLIENTS)
  ]
  assert signature.result['state'] == at_server
  assert signature.result['client_states'] == at_clients
  assert composed.evaluate.type_signature.result.placement is tff.CLIENTS
  assert composed.client_model.type_signature.result == WEIGHTS
  assert composed.evaluate_global is None and not composed.tier_parameters


def test_a_clients_first_state_is_made_of_the_seed(composed):
  state, client_states = start(composed)
  assert (state['seed'], state['round']) == (5, 0)
  assert [c['total'] for c in client_states] == [5, 5, 5]


def test_next_aggregates_and_keeps_cohort_order(composed):
  state, client_states = start(composed)
  output = composed.next(state, client_states, COHORT)
  # Weights 1, 2, 1: bias (10 + 2 (20 + 30) + 40) / 4; kernel likewise.
  kernel, bias = output['state']['weights']
  np.testing.assert_allclose(bias, [150 / 4])
  np.testing.assert_allclose(kernel[:, 0], [(1 + 16 + 7) / 4, 30 / 4])
  assert output['state']['round'] == 1
  assert [c['total'] for c in output['client_states']] == [15, 55, 45]
  assert [c['visits'] for c in output['client_states']] == [1, 1, 1]
  metrics = output['metrics']
  np.testing.assert_allclose(metrics['train_loss'], (3 + 18 + 15) / 3)
  np.testing.assert_allclose(metrics['seen'], (10 + 2 * 30 + 40) / 4)
  assert metrics['num_examples'] == 4
  # Up and down: a kernel of 2 and a bias of 1, float32; no keys, no counts.
  assert (metrics['bytes_down'], metrics['bytes_up']) == (12, 12)
  assert metrics['non_finite'].size == 0
  assert 'aggregator' not in metrics  # TFF's mean measures nothing.


def test_a_metric_that_is_nan_at_a_client_without_examples_is_left_out():

  def no_examples(message, own, data):
    count = tf.cast(data['num_examples'], tf.float32)
    return work(message, own, data)._replace(metrics=dict(share=count / count))

  composed = composition.compose(
      **pieces(work=client_work.ClientWork(no_examples))
  )
  cohort = [COHORT[0], client(1, np.zeros([0, 3]))]
  state, client_states = start(composed, cohort)
  assert composed.next(state, client_states, cohort)['metrics']['share'] == 1


@pytest.mark.parametrize('aggregator', [
    None, tff.aggregators.UnweightedMeanFactory(),
])
def test_a_client_without_examples_is_absent(aggregator):
  """Whatever weight its work gives it; its state stays."""

  def uniform(message, own, data):
    return work(message, own, data)._replace(weight=tf.constant(1.0))

  composed = composition.compose(**pieces(
      work=client_work.ClientWork(uniform), aggregator=aggregator
  ))
  empty = client_data.pad(client(1, np.zeros([0, 3])), 2)
  cohort = [*COHORT[:2], empty]
  state, client_states = start(composed, cohort)
  output = composed.next(state, client_states, cohort)
  # The sums of y are 10 and 50.
  np.testing.assert_allclose(output['state']['weights'][1], [60 / 2])
  assert output['client_states'][2] == client_states[2]
  assert output['metrics']['non_finite'].size == 0
  np.testing.assert_allclose(output['metrics']['train_loss'], (3 + 18) / 2)


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_non_finite_client_is_dropped_and_listed(composed, value):
  bad = [*COHORT[:2], client(1, [[7, 8, value]])]
  state, client_states = start(composed)
  output = composed.next(state, client_states, bad)
  np.testing.assert_allclose(output['state']['weights'][1], [110 / 3])
  assert output['client_states'][2] == client_states[2]
  assert output['client_states'][0]['visits'] == 1
  np.testing.assert_array_equal(output['metrics']['non_finite'], [1])
  np.testing.assert_allclose(output['metrics']['train_loss'], (3 + 18) / 2)


@pytest.mark.parametrize('piece', ['client_state', 'update', 'weight', 'loss'])
def test_each_piece_alone_may_be_what_is_not_finite(piece):
  """A client of y > 30 spoils one piece of what it returns."""

  def spoiled(message, client_state, data):
    output = work(message, client_state, data)
    bad = tf.where(tf.reduce_max(data['examples']['y']) > 30, np.nan, 0.0)
    return output._replace(**{piece: tf.nest.map_structure(
        lambda x: x + bad if x.dtype.is_floating else x,
        getattr(output, piece),
    )})

  composed = composition.compose(
      **pieces(work=client_work.ClientWork(spoiled))
  )
  state, client_states = start(composed)
  output = composed.next(state, client_states, COHORT)
  np.testing.assert_allclose(output['state']['weights'][1], [110 / 3])
  assert output['client_states'][2] == client_states[2]
  np.testing.assert_array_equal(output['metrics']['non_finite'], [1])


def test_cohort_of_dropped_clients_changes_nothing_but_the_round():
  """Baselines 0.2 rule 10; zeros that nobody sent move no server."""
  composed = composition.compose(**pieces(
      finalize=lambda state, mean: dict(
          weights=tf.nest.map_structure(lambda w: w + 1, state['weights'])
      )
  ))
  bad = [client(i, [[np.nan, 8, 1]]) for i in range(2)]
  state, client_states = start(composed, bad)
  output = composed.next(state, client_states, bad)
  assert output['state']['round'] == 1
  assert_same(output['state']['weights'], state['weights'])
  np.testing.assert_array_equal(
      sorted(output['metrics']['non_finite']), [0, 1]
  )


def test_evaluate_deploys_on_adapt_and_measures_on_test(composed):
  state, client_states = start(composed)
  nothing = client(1, np.zeros([0, 3]))
  data = [
      collections.OrderedDict(adapt=c, test=t)
      for c, t in zip(COHORT, [COHORT[1], COHORT[0], nothing])
  ]
  results = composed.evaluate(state, client_states, data)
  # Deployed: zero kernel, bias = total = 5; test y are (20, 30) and 10.
  np.testing.assert_allclose(results[0]['loss'], (15**2 + 25**2) / 2)
  np.testing.assert_allclose(results[1]['loss'], 5**2)
  assert np.isnan(results[2]['loss'])
  assert [r['num_examples'] for r in results] == [2, 1, 0]


def test_evaluate_returns_the_report_beside_the_metrics():

  def reporting(message, own, data):
    return composition.Deployed(
        deploy(message, own, data), dict(router=tf.fill([2], own['total']))
    )

  composed = composition.compose(**pieces(deploy=reporting))
  state, client_states = start(composed)
  client_states[1]['total'] = np.float32(0)
  data = [collections.OrderedDict(adapt=c, test=c) for c in COHORT]
  results = composed.evaluate(state, client_states, data)
  assert list(results[0]) == ['loss', 'num_examples', 'router']
  np.testing.assert_array_equal(
      [r['router'] for r in results], [[5, 5], [0, 0], [5, 5]]
  )
  np.testing.assert_allclose(results[0]['loss'], (10 - 5)**2)
  better = lambda *args: reporting(*args)._replace(report=dict(loss=0.0))
  with pytest.raises(ValueError, match='There is a metric loss already'):
    _ = composition.compose(**pieces(deploy=better)).evaluate


# The steps of a round.


@pytest.mark.parametrize('value', [40, np.nan])
def test_a_round_by_hand_is_next_bit_for_bit(composed, value):
  cohort = [*COHORT[:2], client(1, [[7, 8, value]])]
  state, client_states = start(composed)
  for number in range(2):
    expected = composed.next(state, client_states, cohort)
    output = by_hand(composed, state, client_states, cohort)
    assert_same(output['state'], expected['state'])
    assert_same(output['client_states'], expected['client_states'])
    assert_same(output['metrics'], expected['metrics'])
    state, client_states = output['state'], output['client_states']
    assert state['round'] == number + 1
    assert np.all(np.isfinite(state['weights'][0]))


def test_steps_may_mix_clients_of_different_rounds(composed):
  """As an asynchronous driver does: one works with what it got earlier."""
  state, client_states = start(composed)
  parts = composed.parts
  early = parts.dispatch(state, [2])
  later = composed.next(state, client_states, COHORT)['state']
  messages = [*early, *parts.dispatch(later, [1])]
  assert [m['round'] for m in messages] == [0, 1]
  outputs = parts.work(messages, client_states[:2], [COHORT[0], COHORT[2]])
  applied = parts.apply(later, parts.aggregate(later, outputs))
  assert applied['state']['round'] == 2
  np.testing.assert_allclose(applied['state']['weights'][1], [25])


# What is sent.


def test_each_client_is_sent_its_own_row():

  def row(state, index):
    return dict(
        weights=tf.nest.map_structure(
            lambda w: w + tf.cast(index, w.dtype), state['weights']
        )
    )

  composed = composition.compose(
      **pieces(send=own_messages.Row(row, num_clients=3))
  )
  state, client_states = start(composed)
  messages = composed.parts.dispatch(state, INDICES)
  assert [m['weights'][1][0] for m in messages] == INDICES
  assert [m['seed'] for m in messages] == [5, 5, 5]
  data = [collections.OrderedDict(adapt=c, test=c) for c in COHORT]
  result = composed.evaluate(state, client_states, data)[0]
  # Deployed at client 2: kernel (2, 2), bias 2 + 5; x = (1, 2) and y = 10.
  np.testing.assert_allclose(result['loss'], (2 + 4 + 7 - 10)**2)
  output = composed.next(state, client_states, COHORT)
  np.testing.assert_allclose(output['state']['weights'][1], [150 / 4])


def test_what_is_sent_and_deployed_need_not_be_the_whole_model():
  """Clients keep the bias; the kernel alone travels, as a field of its own."""

  def own_bias(message, bias, data):
    del message
    x, y = data['examples']['x'], data['examples']['y']
    return client_work.ClientOutput(
        client_state=bias + tf.reduce_sum(y)[None],
        update=dict(kernel=tf.reduce_sum(x, axis=0)[:, None]),
        weight=tf.constant(1.0), loss=tf.constant(0.0),
    )

  composed = composition.compose(**pieces(
      init=lambda seed: dict(kernel=tf.zeros([2, 1])),
      send=lambda state: dict(kernel=state['kernel']),
      work=client_work.ClientWork(own_bias),
      finalize=lambda state, mean: mean,
      init_client=lambda seed: tf.zeros([1]),
      deploy=lambda message, bias, data: (message['kernel'], bias),
      client_model=lambda state, bias, index: (state['kernel'], bias),
  ))
  state, client_states = start(composed)
  output = composed.next(state, client_states, COHORT)
  np.testing.assert_allclose(
      output['state']['kernel'][:, 0], [(1 + 8 + 7) / 3, (2 + 10 + 8) / 3]
  )
  assert (output['metrics']['bytes_up'], output['metrics']['bytes_down']) == (
      8, 8
  )
  _, bias = composed.client_model(output['state'], output['client_states'][1], 0)
  np.testing.assert_array_equal(bias, [50])


def test_bytes_that_the_work_knows_better_replace_those_of_the_tensors():
  """Client 0 is a small device: it is sent 4 bytes, and sends 8."""

  def small_device(message, own, data):
    is_small = tf.equal(data['index'], 0)
    return work(message, own, data)._replace(
        bytes_down=tf.where(is_small, 4, 12), bytes_up=tf.where(is_small, 8, 12)
    )

  composed = composition.compose(
      **pieces(work=client_work.ClientWork(small_device))
  )
  state, client_states = start(composed)
  metrics = composed.next(state, client_states, COHORT)['metrics']
  np.testing.assert_allclose(metrics['bytes_down'], (12 + 4 + 12) / 3)
  np.testing.assert_allclose(metrics['bytes_up'], (12 + 8 + 12) / 3)


# Aggregators.


def test_a_dropped_client_is_absent_from_an_unweighted_mean():
  composed = composition.compose(
      **pieces(aggregator=tff.aggregators.UnweightedMeanFactory())
  )
  bad = [*COHORT[:2], client(1, [[7, 8, np.nan]])]
  state, client_states = start(composed)
  output = composed.next(state, client_states, bad)
  np.testing.assert_allclose(output['state']['weights'][1], [(10 + 50) / 2])


def test_fields_of_the_update_have_rules_of_their_own():

  def two_fields(message, own, data):
    output = work(message, own, data)
    return output._replace(update=dict(total=output.update[1], mean=output.update))

  composed = composition.compose(**pieces(
      work=client_work.ClientWork(two_fields),
      aggregator=dict(
          mean=tff.aggregators.MeanFactory(),
          total=tff.aggregators.SumFactory(),
      ),
      init=lambda seed: dict(
          weights=MODEL.initial_weights(seed), total=tf.zeros([1])
      ),
      finalize=lambda state, both: dict(
          weights=both['mean'], total=both['total']
      ),
  ))
  state, client_states = start(composed)
  after = composed.next(state, client_states, COHORT)['state']
  np.testing.assert_allclose(after['total'], [10 + 50 + 40])
  np.testing.assert_allclose(after['weights'][1], [150 / 4])


def test_measurements_of_the_aggregator_reach_the_metrics():
  clipping = tff.aggregators.clipping_factory(
      1.0, tff.aggregators.MeanFactory(), clipped_count_sum_factory=(
          tff.aggregators.SumFactory()
      ),
  )
  composed = composition.compose(**pieces(aggregator=clipping))
  state, client_states = start(composed)
  output = composed.next(state, client_states, COHORT)
  assert output['metrics']['aggregator']['clipped_count'] == 3
  assert_same(
      by_hand(composed, state, client_states, COHORT)['metrics'],
      output['metrics'],
  )


class _Drawing(tff.aggregators.UnweightedAggregationFactory):
  """A sum that keeps a key, as our random aggregators do."""

  def create(self, value_type):
    inner = tff.aggregators.SumFactory().create(value_type)

    @tff.tensorflow.computation
    def key():
      return collections.OrderedDict(seed=tf.zeros([2], tf.int64))

    @tff.federated_computation
    def init_fn():
      return tff.federated_eval(key, tff.SERVER)

    @tff.federated_computation(
        init_fn.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_fn(state, value):
      output = inner.next(inner.initialize(), value)
      return tff.templates.MeasuredProcessOutput(
          state, output.result, output.measurements
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)


def test_the_keys_of_aggregators_come_from_the_runs_seed():
  composed = composition.compose(**pieces(aggregator=_Drawing()))
  first, again, other = (
      composed.initialize_seeded(seed)['aggregator']['seed']
      for seed in (5, 5, 6)
  )
  np.testing.assert_array_equal(first, again)
  assert np.any(first != other) and np.any(first != 0)
  # Not the key of the weights or of the batches of some client.
  assert np.any(first != random.key(5, 0).numpy())


def test_metrics_of_the_server():
  composed = composition.compose(**pieces(
      measure=lambda state, mean: dict(
          moved=tf.reduce_sum(mean[1] - state['weights'][1])
      )
  ))
  state, client_states = start(composed)
  state = composed.next(state, client_states, COHORT)['state']
  bigger = [client(2, [[0, 0, 100]])]
  output = composed.next(state, client_states[:1], bigger)
  np.testing.assert_allclose(output['metrics']['moved'], 100 - 150 / 4)


def test_models_of_the_server_are_evaluated_by_tier():
  composed = composition.compose(**pieces(tiers={
      'whole': composition.Tier(MODEL, lambda state: state['weights']),
      'none': composition.Tier(
          MODEL, lambda state: tf.nest.map_structure(
              tf.zeros_like, state['weights']
          )
      ),
  }))
  assert composed.tier_parameters == {'whole': 3, 'none': 3}
  state, client_states = start(composed)
  state = composed.next(state, client_states, COHORT)['state']
  metrics = composed.evaluate_global(state, client(-1, [[0, 0, 10]]))
  np.testing.assert_allclose(metrics['whole']['loss'], (150 / 4 - 10)**2)
  np.testing.assert_allclose(metrics['none']['loss'], 100)
  assert metrics['none']['num_examples'] == 1


def test_evaluation_is_built_when_asked_for(monkeypatch):
  """Once, and in no run where nobody evaluates."""
  built = []
  for name in ('build_evaluate', 'build_evaluate_global'):
    build = getattr(deployment, name)
    monkeypatch.setattr(
        deployment, name,
        lambda *args, build=build: built.append(build) or build(*args),
    )
  composed = composition.compose(**pieces(tiers={
      'whole': composition.Tier(MODEL, lambda state: state['weights']),
  }))
  assert not built
  for name in ('evaluate', 'evaluate_global'):
    assert getattr(composed, name) is getattr(composed, name)
  assert len(built) == 2


@pytest.mark.parametrize('tier', [
    (lambda state: state['weights'][0],),
    (None, lambda state: [state['weights'], state['weights'][0]]),
])
def test_raises_on_weights_of_a_tier(tier):
  with pytest.raises(TypeError, match="`tiers`: weights of 'a' must be .* found"):
    composition.compose(**pieces(tiers={'a': composition.Tier(MODEL, *tier)}))


def test_metrics_of_a_tier_without_one_model_are_means():
  """Over the server's weights, and over zeros twice."""
  zeros = lambda state: tf.nest.map_structure(tf.zeros_like, state['weights'])
  composed = composition.compose(**pieces(tiers={'any': composition.Tier(
      MODEL, zeros,
      lambda state: [state['weights'], zeros(state), zeros(state)],
  )}))
  state, client_states = start(composed)
  state = composed.next(state, client_states, COHORT)['state']
  metrics = composed.evaluate_global(
      state, client(-1, [[0, 0, 10], [0, 0, 10]])
  )
  np.testing.assert_allclose(
      metrics['any']['loss'], ((150 / 4 - 10)**2 + 2 * 100) / 3
  )
  assert metrics['any']['num_examples'] == 2
  assert composed.tier_parameters == {'any': 3}


# What does not fit is refused.


def _changed_state(message, own, data):
  return work(message, own, data)._replace(client_state=tf.constant(2.0))


ERRORS = [
    (dict(work=client_work.ClientWork(_changed_state)),
     '`work`: `client_state`, .*total=float32.*found float32'),
    (dict(finalize=lambda state, mean: dict(wieghts=mean)),
     '`finalize` must return fields among weights, found wieghts'),
    (dict(finalize=lambda state, mean: dict(weights=mean[0])),
     '`finalize`: field `weights` must be of type <.*found float32.2,1.'),
    (dict(deploy=lambda message, own, data: 1.0), 'deploy.*found float32'),
    (dict(client_model=lambda state, own, index: 1.0),
     '`client_model`: result must be of type <float32.*found float32'),
    (dict(aggregator=dict(bias=tff.aggregators.SumFactory())),
     '`value_type` must have the fields bias, found'),
    (dict(measure=lambda state, mean: dict(train_loss=tf.constant(0.0))),
     'There is a metric train_loss already'),
]


@pytest.mark.parametrize('replaced, message', ERRORS)
def test_raises_on_pieces_that_do_not_fit(replaced, message):
  with pytest.raises((TypeError, ValueError), match=message):
    composition.compose(**pieces(**replaced))
