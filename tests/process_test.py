"""The one interface: types, composition, what is dropped, what is counted."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import process
from tff_pers.data import client_data
from tff_pers.models import zoo

MODEL = zoo.build('linear_regression', tf.TensorSpec([None, 2]), 0)
DATA = client_data.client_data_type(MODEL.x_spec, MODEL.y_spec)
CLIENT = tff.to_type(collections.OrderedDict(total=np.float32, visits=np.int32))
WEIGHTS = MODEL.weights_type
AGGREGATOR = tff.aggregators.MeanFactory(no_nan_division=True).create(
    WEIGHTS, tff.TensorType(np.float32)
)


tensorflow = tff.tensorflow.computation


def pieces(aggregator=AGGREGATOR):
  """The parts of a method: clients send the sums of their x and of their y.

  A client's state counts its visits and adds up its y. Server: w <- mean.
  """
  initialize_seeded = process.build_initialize(
      lambda seed: dict(weights=MODEL.initial_weights(seed)), aggregator
  )
  state_type = initialize_seeded.type_signature.result.member
  distribute = process.broadcast_fields(state_type, 'weights')
  message_type = distribute.type_signature.result.member

  @tensorflow(state_type, np.int32)
  def initialize_client(state, index):
    return collections.OrderedDict(
        total=tf.cast(index, tf.float32), visits=state['round']
    )

  @tensorflow(message_type, CLIENT, DATA)
  def client_update(message, client_state, data):
    x, y = data['examples']['x'], data['examples']['y']
    return collections.OrderedDict(
        client_state=collections.OrderedDict(
            total=client_state['total'] + tf.reduce_sum(y),
            visits=client_state['visits'] + 1,
        ),
        update=(tf.reduce_sum(x, axis=0)[:, None], tf.reduce_sum(y)[None]),
        weight=tf.cast(data['num_examples'], tf.float32),
        loss=tf.reduce_sum(x),
    )

  @tensorflow(state_type, WEIGHTS)
  def finalize(state, mean):
    return collections.OrderedDict(state, weights=mean)

  @tensorflow(message_type, CLIENT, DATA)
  def deploy(message, client_state, data):
    kernel, bias = message['weights']
    return kernel, bias + client_state['total']

  @tensorflow(state_type, CLIENT, np.int32)
  def client_model(state, client_state, index):
    return state['weights']

  return dict(
      initialize_seeded=initialize_seeded,
      initialize_client=initialize_client,
      distribute=distribute,
      client_update=client_update,
      aggregator=aggregator,
      finalize=finalize,
      evaluation=process.Evaluation(deploy, MODEL, client_model),
  )


@pytest.fixture(scope='module', name='composed')
def _composed():
  return process.compose_personalized_process(**pieces())


def client(index, rows):
  rows = np.float32(rows)
  return client_data.dense(index, rows[:, :2], rows[:, 2])


# Rows are (x_0, x_1, y); one, two and one examples.
COHORT = [
    client(2, [[1, 2, 10]]),
    client(0, [[3, 4, 20], [5, 6, 30]]),
    client(1, [[7, 8, 40]]),
]


def start(composed, cohort=None):
  state = composed.initialize_seeded(5)
  indices = [c['index'] for c in (cohort or COHORT)]
  return state, [composed.initialize_client(state, i) for i in indices]


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


def test_initialize_keeps_the_seed_and_the_client_its_index(composed):
  state, client_states = start(composed)
  assert (state['seed'], state['round']) == (5, 0)
  assert [c['total'] for c in client_states] == [2, 0, 1]


def test_next_aggregates_and_keeps_cohort_order(composed):
  state, client_states = start(composed)
  output = composed.next(state, client_states, COHORT)
  # Weights 1, 2, 1: bias (10 + 2 (20 + 30) + 40) / 4; kernel likewise.
  kernel, bias = output['state']['weights']
  np.testing.assert_allclose(bias, [150 / 4])
  np.testing.assert_allclose(kernel[:, 0], [(1 + 16 + 7) / 4, 30 / 4])
  assert output['state']['round'] == 1
  assert [c['total'] for c in output['client_states']] == [12, 50, 41]
  assert [c['visits'] for c in output['client_states']] == [1, 1, 1]
  metrics = output['metrics']
  np.testing.assert_allclose(metrics['train_loss'], (3 + 18 + 15) / 3)
  assert metrics['num_examples'] == 4
  # Up and down: a kernel of 2 and a bias of 1, float32; no keys, no counts.
  assert (metrics['bytes_down'], metrics['bytes_up']) == (12, 12)
  assert metrics['non_finite'].size == 0


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


def test_cohort_of_dropped_clients_gives_zeros(composed):
  bad = [client(i, [[np.nan, 8, 1]]) for i in range(2)]
  state, client_states = start(composed, bad)
  output = composed.next(state, client_states, bad)
  np.testing.assert_array_equal(output['state']['weights'][0], [[0], [0]])
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
  # Deployed: zero kernel, bias = total = index; test y are (20, 30) and 10.
  np.testing.assert_allclose(results[0]['loss'], (18**2 + 28**2) / 2)
  np.testing.assert_allclose(results[1]['loss'], 10**2)
  assert np.isnan(results[2]['loss'])
  assert [r['num_examples'] for r in results] == [2, 1, 0]


def test_evaluate_returns_the_report_beside_the_metrics():
  own = pieces()
  plain = own['evaluation']

  @tensorflow(*plain.deploy.type_signature.parameter)
  def deploy(message, client_state, data):
    return collections.OrderedDict(
        report=collections.OrderedDict(
            router=tf.fill([2], client_state['total'])
        ),
        weights=plain.deploy(message, client_state, data),
    )

  own['evaluation'] = plain._replace(deploy=deploy, reports=True)
  reporting = process.compose_personalized_process(**own)
  state, client_states = start(reporting)
  data = [collections.OrderedDict(adapt=c, test=c) for c in COHORT]
  results = reporting.evaluate(state, client_states, data)
  assert list(results[0]) == ['loss', 'num_examples', 'router']
  np.testing.assert_array_equal(
      [r['router'] for r in results], [[2, 2], [0, 0], [1, 1]]
  )
  np.testing.assert_allclose(results[0]['loss'], (10 - 2)**2)


def test_parts_are_reachable_and_run_alone(composed):
  state, client_states = start(composed)
  message = composed.parts.distribute(state, [c['index'] for c in COHORT])
  outputs = [
      composed.parts.client_update(message, client_state, data)
      for client_state, data in zip(client_states, COHORT)
  ]
  aggregated = composed.parts.aggregator.next(
      state['aggregator'], [o['update'] for o in outputs],
      [o['weight'] for o in outputs],
  )
  new_state = composed.parts.finalize(state, aggregated.result)
  whole = composed.next(state, client_states, COHORT)['state']
  np.testing.assert_array_equal(
      new_state['weights'][0], whole['weights'][0]
  )


def test_unweighted_aggregator_sums():
  total = tff.aggregators.SumFactory().create(WEIGHTS)
  composed = process.compose_personalized_process(**pieces(total))
  state, client_states = start(composed)
  output = composed.next(state, client_states, COHORT)
  np.testing.assert_allclose(output['state']['weights'][1], [100])


def test_payload_bytes_counts_floats_in_their_width():
  structure = dict(
      a=tf.zeros([2, 3]), b=tf.zeros([5], tf.float64), c=tf.zeros([7], tf.int32)
  )
  assert process.payload_bytes(structure) == 2 * 3 * 4 + 5 * 8
  assert process.payload_bytes(()) == 0


def test_all_finite_ignores_integers_and_sees_every_leaf():
  good = (tf.ones([2]), tf.constant(3), tf.zeros([], tf.float64))
  assert process.all_finite(good)
  assert process.all_finite(())
  assert not process.all_finite((*good, tf.constant([1.0, np.nan])))
  assert not process.all_finite((tf.constant(-np.inf), *good))


# What goes wrong in `compose_personalized_process`: name, replacement, message.
STATE = pieces()['initialize_seeded'].type_signature.result.member
MESSAGE = pieces()['distribute'].type_signature.result.member


def at_server(member):
  return tff.FederatedType(member, tff.SERVER)


def at_clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


@tff.tensorflow.computation
def _short_state():
  return collections.OrderedDict(seed=tf.constant(0, tf.int64), weights=1.0)


@tff.tensorflow.computation
def _narrow_seed():
  return collections.OrderedDict(seed=0, round=0, aggregator=())


@tff.federated_computation(at_server(np.int64))
def _initialize_short(seed):
  return tff.federated_eval(_short_state, tff.SERVER)


@tff.federated_computation(at_server(np.int64))
def _initialize_narrow(seed):
  return tff.federated_eval(_narrow_seed, tff.SERVER)


@tff.federated_computation(at_server(np.int64))
def _initialize_clients(seed):
  return tff.federated_broadcast(seed)


@tff.tensorflow.computation
def _state():
  return collections.OrderedDict(
      seed=tf.constant(0, tf.int64), round=0, aggregator=()
  )


@tff.federated_computation
def _initialize_without_seed():
  return tff.federated_eval(_state, tff.SERVER)


@tff.federated_computation(at_server(np.float32), at_clients(np.int32))
def _distribute_other_state(state, index):
  return tff.federated_broadcast(state)


@tff.federated_computation(at_server(STATE), at_clients(np.int32))
def _distribute_to_server(state, index):
  return state


@tensorflow(MESSAGE, CLIENT)
def _update_without_data(message, client_state):
  return ()


@tensorflow(MESSAGE, np.float32, DATA)
def _update_other_client_state(message, client_state, data):
  return ()


@tensorflow(MESSAGE, CLIENT, DATA)
def _update_short_result(message, client_state, data):
  return collections.OrderedDict(update=1.0, weight=1.0)


@tensorflow(MESSAGE, CLIENT, DATA)
def _update_new_client_state(message, client_state, data):
  return collections.OrderedDict(
      client_state=2.0, update=message['weights'], weight=1.0, loss=0.0
  )


@tensorflow(MESSAGE, CLIENT, DATA)
def _update_scalar(message, client_state, data):
  return collections.OrderedDict(
      client_state=client_state, update=1.0, weight=1.0, loss=0.0
  )


@tensorflow(STATE, np.float64)
def _finalize_other_aggregate(state, aggregate):
  return state


@tensorflow(STATE, WEIGHTS)
def _finalize_other_state(state, aggregate):
  return aggregate


@tensorflow(MESSAGE, CLIENT, DATA)
def _deploy_scalar(message, client_state, data):
  return 1.0


@tensorflow(MESSAGE, np.int32, DATA)
def _deploy_other_client_state(message, client_state, data):
  return message['weights']


@tensorflow(STATE, CLIENT, np.int32)
def _client_model_scalar(state, client_state, index):
  return 1.0


@tensorflow(STATE, np.int32)
def _client_model_without_client(state, index):
  return state['weights']


def _evaluation(**replaced):
  return pieces()['evaluation']._replace(**replaced)


COMPOSE_ERRORS = [
    ('initialize_seeded', _initialize_short, 'must start with .*<seed=int64,w'),
    ('initialize_seeded', _initialize_narrow, '`seed`.* int64, found int32'),
    ('initialize_seeded', _initialize_clients, 'the server, found .*CLIENTS'),
    ('distribute', _distribute_other_state, 'type float32@SERVER, found <seed'),
    ('distribute', _distribute_to_server, 'at the clients, found .*@SERVER'),
    ('client_update', _update_without_data, 'message, the client .*<message='),
    ('client_update', _update_other_client_state, '1 .* float32, found <total'),
    ('client_update', _update_short_result, 'found <update=float32,weight'),
    ('client_update', _update_new_client_state, 'client_state`.*found float32'),
    ('client_update', _update_scalar, '`aggregator`: value.* found float32'),
    ('finalize', _finalize_other_aggregate, '1 .*float64, found <float32'),
    ('finalize', _finalize_other_state, 'result .*, found <float32.2,1.'),
    ('evaluation', _evaluation(deploy=_deploy_scalar), 'deploy.*found float32'),
    (
        'evaluation', _evaluation(deploy=_deploy_other_client_state),
        'deploy.*argument 1 .* int32, found <total',
    ),
    (
        'evaluation', _evaluation(client_model=_client_model_scalar),
        '`client_model`: result must be of type <float32.*found float32',
    ),
    (
        'evaluation', _evaluation(client_model=_client_model_without_client),
        '`client_model` must take 3 .*found <state=',
    ),
]


@pytest.mark.parametrize('name, piece, message', COMPOSE_ERRORS)
def test_compose_raises_on_type(name, piece, message):
  with pytest.raises(TypeError, match=message):
    process.compose_personalized_process(**{**pieces(), name: piece})


@tff.federated_computation(at_server(STATE), at_clients(CLIENT))
def _next_without_data(state, client_states):
  return collections.OrderedDict(
      state=state, client_states=client_states, metrics=state
  )


@tff.federated_computation(
    at_server(STATE), at_clients(np.float32), at_clients(DATA)
)
def _next_other_client_state(state, client_states, data):
  return collections.OrderedDict(
      state=state, client_states=client_states, metrics=state
  )


@tff.federated_computation(
    at_server(STATE), at_clients(CLIENT), at_clients(DATA)
)
def _next_short_result(state, client_states, data):
  return collections.OrderedDict(state=state, metrics=state)


@tff.federated_computation(
    at_server(STATE), at_clients(CLIENT), at_clients(DATA)
)
def _next_mixed_up(state, client_states, data):
  return collections.OrderedDict(
      state=state, client_states=data, metrics=state
  )


@tensorflow(STATE)
def _client_without_index(state):
  return ()


@tff.federated_computation(at_server(STATE), at_clients(CLIENT))
def _evaluate_without_data(state, client_states):
  return client_states


PROCESS_ERRORS = [
    ('initialize_seeded', _initialize_without_seed, 'take 1 .*, found None'),
    ('initialize_client', _client_without_index, 'take 2 .*, found <seed='),
    ('next_fn', _next_without_data, "and the clients' data, found <state="),
    ('next_fn', _next_other_client_state, '1 .*float32.*found {<total='),
    ('next_fn', _next_short_result, 'client_states, metrics>, found <state='),
    ('next_fn', _next_mixed_up, '`client_states` .*, found {<index='),
    ('evaluate', _evaluate_without_data, 'take 3 .*found <state='),
    ('client_model', _client_model_scalar, 'result .*<float32.*found float32'),
]


@pytest.mark.parametrize('name, piece, message', PROCESS_ERRORS)
def test_process_raises_on_type(composed, name, piece, message):
  arguments = dict(
      initialize_seeded=composed.initialize_seeded,
      initialize_client=composed.initialize_client,
      next_fn=composed.next,
      evaluate=composed.evaluate,
      client_model=composed.client_model,
      deployed=composed.deployed,
  )
  assert process.PersonalizedProcess(**arguments).parts is None
  with pytest.raises(TypeError, match=message):
    process.PersonalizedProcess(**{**arguments, name: piece})
