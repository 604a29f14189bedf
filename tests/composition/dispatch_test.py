"""What the server sends: a number of each client's own."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.composition import dispatch
from tff_pers.composition import own_messages
from tff_pers.runtime import fused
from tff_pers.runtime import native

STATE = tff.to_type(dict(
    position=np.int32, round=np.int32, seed=np.int64,
    weights=tff.TensorType(np.float32, [2]),
))
VALUE = dict(
    position=np.int32(10), round=np.int32(3), seed=np.int64(7),
    weights=np.float32([1, 2]),
)
SEND = own_messages.Numbered(
    lambda state: dict(weights=state['weights'], position=state['position']),
    'position', num_clients=8,
)


@pytest.mark.parametrize('runtime', [native, fused])
@pytest.mark.parametrize('cohort, numbers', [
    ([5, 0, 3], [12, 10, 11]),
    ([3, 5, 0], [11, 12, 10]),
    ([6], [10]),
    ([11, 2], [11, 10]),  # Also one that was held out.
])
def test_numbers_are_places_in_the_order_of_the_indices(
    cohort, numbers, runtime
):
  computation = dispatch.build_dispatch(SEND, STATE)
  with runtime.use():
    messages = computation(VALUE, [np.int32(i) for i in cohort])
  assert [message['position'] for message in messages] == numbers
  for message in messages:
    assert message['round'] == 3 and message['seed'] == 7
    np.testing.assert_array_equal(message['weights'], [1, 2])


def test_type_of_a_numbered_message_is_that_of_its_fields():
  computation = dispatch.build_dispatch(SEND, STATE)
  sent = computation.type_signature.result.member
  assert sent == dispatch.message_type(SEND, STATE)
  assert sent == dispatch.message_type(SEND.fields, STATE)
  alone = dispatch.one_by_one(computation)
  assert alone.type_signature.result.member == sent


def test_numbers_are_the_same_one_by_one():
  computation = dispatch.one_by_one(dispatch.build_dispatch(SEND, STATE))
  messages = computation(VALUE, [np.int32(4), np.int32(1)])
  found = tf.nest.map_structure(int, [m['position'] for m in messages])
  assert found == [11, 10]
