"""Messages that do not fit, for those who drive a round step by step."""

import collections
import copy

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.testing import tiny
from tff_pers import attacks
from tff_pers.client_works import factored_sgd
from tff_pers.runtime import native


@pytest.fixture(scope='module', name='round_')
def _round():
  """Returns (process, state, outputs of the work of one round)."""
  task = tiny.task()
  with native.use():
    process = tiny.build('fedavg', task)
    state = process.initialize_seeded(3)
    clients = [process.initialize_client(state, i) for i in range(4)]
    messages = process.parts.dispatch(state, list(range(4)))
    outputs = process.parts.work(messages, clients, task.train)
  return process, state, outputs


def _with_update(output, change):
  update = tf.nest.map_structure(np.copy, output['update'])
  return collections.OrderedDict(output, update=change(update))


def _nan(update):
  tf.nest.flatten(update)[-1][0] = np.nan
  return update


BAD = dict(
    nothing=lambda output: None,
    shorter=lambda output: _with_update(
        output, lambda u: tf.nest.map_structure(lambda x: x[:1], u)
    ),
    rank=lambda output: _with_update(
        output, lambda u: tf.nest.map_structure(lambda x: x[None], u)
    ),
    dtype=lambda output: _with_update(
        output, lambda u: tf.nest.map_structure(np.float64, u)
    ),
    integers=lambda output: _with_update(
        output, lambda u: tf.nest.map_structure(lambda x: x.astype(int), u)
    ),
    scalars=lambda output: _with_update(
        output, lambda u: tf.nest.map_structure(lambda x: np.float32(0), u)
    ),
    flat=lambda output: _with_update(output, lambda u: np.float32(0)),
    text=lambda output: _with_update(output, lambda u: 'model'),
    names=lambda output: _with_update(output, lambda u: dict(w=u)),
    missing=lambda output: collections.OrderedDict(
        list(output.items())[:2]
    ),
    nan=lambda output: _with_update(output, _nan),
    weight=lambda output: collections.OrderedDict(
        output, weight=np.float32(np.inf)
    ),
)


@pytest.mark.parametrize('name', sorted(BAD))
def test_a_bad_message_is_refused_and_its_client_absent(name, round_):
  process, state, outputs = round_
  output_type = process.parts.work.type_signature.result.member
  received = [outputs[0], BAD[name](outputs[1]), *outputs[2:]]
  kept, refused = attacks.screen(received, output_type)
  assert refused == [1]
  assert kept[1]['weight'] == 0
  with native.use():
    found = process.parts.aggregate(state, kept)
    without = process.parts.aggregate(
        state, [outputs[0], *outputs[2:]]
    )
  assert found['num_present'] == 3
  for a, b in zip(*(
      tf.nest.flatten(aggregated['result']) for aggregated in (found, without)
  )):
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_factors_without_a_product_are_refused():
  """Their types leave open how many rows they have."""
  task = tiny.wide_task()
  with factored_sgd.building(12):
    process = tiny.build('fedavg', task)
  state = process.initialize()
  with native.use():
    messages = process.parts.dispatch(state, list(range(4)))
    outputs = process.parts.work(messages, [()] * 4, task.train)
  spoiled = copy.deepcopy(outputs)
  spoiled[1]['update']['factors'][0]['u'] = np.zeros([5, 3], np.float32)
  for pair in spoiled[2]['update']['factors']:
    pair['u'], pair['v'] = (np.full_like(a, 1e30) for a in (pair['u'], pair['v']))
  output_type = process.parts.work.type_signature.result.member
  _, refused = attacks.screen(spoiled, output_type)
  assert refused == [1, 2]
  assert not attacks.screen(outputs, output_type)[1]


def test_good_messages_pass(round_):
  process, _, outputs = round_
  output_type = process.parts.work.type_signature.result.member
  kept, refused = attacks.screen(outputs, output_type)
  assert not refused
  assert all(a is b for a, b in zip(kept, outputs))
