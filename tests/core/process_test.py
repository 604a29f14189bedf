"""The one interface: what does not fit together is refused by its type."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_method
from tff_pers import composition
from tff_pers.core import process
from tff_pers.data import client_data

CLIENT, DATA = small_method.CLIENT, small_method.DATA
tensorflow = tff.tensorflow.computation


@pytest.fixture(scope='module', name='composed')
def _composed():
  return composition.compose(**small_method.pieces())


STATE = tff.to_type(collections.OrderedDict(
    seed=np.int64, round=np.int32,
    aggregator=tff.aggregators.MeanFactory().create(
        small_method.WEIGHTS, tff.TensorType(np.float32)
    ).initialize.type_signature.result.member,
    weights=small_method.WEIGHTS,
))


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


@tensorflow(STATE, CLIENT, np.int32)
def _client_model_scalar(state, client_state, index):
  return 1.0


@tensorflow(STATE, np.int32)
def _client_model_without_client(state, index):
  return state['weights']


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


@tff.federated_computation(at_server(STATE), at_clients(DATA))
def _evaluate_global_at_clients(state, data):
  return state


PROCESS_ERRORS = [
    ('initialize_seeded', _initialize_short, 'must start with .*<seed=int64,w'),
    ('initialize_seeded', _initialize_narrow, '`seed`.* int64, found int32'),
    ('initialize_seeded', _initialize_clients, 'the server, found .*CLIENTS'),
    ('initialize_seeded', _initialize_without_seed, 'take 1 .*, found None'),
    ('initialize_client', _client_without_index, 'take 2 .*, found <seed='),
    ('next_fn', _next_without_data, "and the clients' data, found <state="),
    ('next_fn', _next_other_client_state, '1 .*float32.*found {<total='),
    ('next_fn', _next_short_result, 'client_states, metrics>, found <state='),
    ('next_fn', _next_mixed_up, '`client_states` .*, found {<index='),
    ('deploy', _evaluate_without_data, 'take 3 .*found <state='),
    ('evaluate', _evaluate_without_data, 'take 3 .*found <state='),
    (
        'client_model', _client_model_without_client,
        '`client_model` must take 3 .*found <state=',
    ),
    (
        'evaluate_global', _evaluate_global_at_clients,
        '`evaluate_global`: argument 1 .*@CLIENTS.* found .*@SERVER',
    ),
    ('client_model', _client_model_scalar, 'result .*<float32.*found float32'),
]


def test_a_round_has_its_parts_by_key_and_by_attribute(composed):
  data = client_data.dense(0, np.ones([1, 2], 'float32'), np.ones([1], 'float32'))
  output = composed.next(
      composed.initialize_seeded(0), [composed.initialize_client(composed.initialize_seeded(0), 0)], [data]
  )
  assert output.state is output['state'] and output.state['round'] == 1
  assert output.metrics is output['metrics']
  assert output.client_states is output['client_states']


def _build(composed, **replaced):
  arguments = dict(
      initialize_seeded=composed.initialize_seeded,
      initialize_client=composed.initialize_client,
      next_fn=composed.next,
      deploy=composed.deploy, evaluate=composed.evaluate,
      client_model=composed.client_model,
      deployed=composed.deployed,
  )
  return process.PersonalizedProcess(**{**arguments, **replaced})


@pytest.mark.parametrize('name, piece, message', PROCESS_ERRORS)
def test_process_raises_on_type(composed, name, piece, message):
  assert _build(composed).parts is None
  with pytest.raises(TypeError, match=message):
    _build(composed, **{name: piece})


@pytest.mark.parametrize(
    'name, piece, message',
    [row for row in PROCESS_ERRORS if row[0].startswith('evaluate')],
)
def test_what_is_built_later_is_checked_then(composed, name, piece, message):
  built = _build(composed, **{name: lambda: piece})
  with pytest.raises(TypeError, match=message):
    getattr(built, name)
