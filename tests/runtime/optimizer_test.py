"""What a user asks of TensorFlow's optimizer is done."""

import pytest
import tensorflow as tf
# Not exported by TensorFlow: settings of calls.
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context

from tff_pers.runtime.fused import optimizer


def _rewriter():
  options = context.context().function_call_options
  config = config_pb2.ConfigProto.FromString(options.config_proto_serialized)
  return config.graph_options.rewrite_options


@pytest.fixture(name='asked')
def fixture_asked():
  tf.config.optimizer.set_experimental_options(
      dict(layout_optimizer=True, constant_folding=False)
  )
  yield
  tf.config.optimizer.set_experimental_options(
      dict(layout_optimizer=None, constant_folding=None)
  )


def test_the_callers_options_stay(asked):
  before = _rewriter()
  with pytest.raises(ValueError), optimizer.brief():
    found = _rewriter()
    raise ValueError
  assert _rewriter() == before
  expected = type(found)()
  expected.CopyFrom(before)
  expected.meta_optimizer_iterations = found.ONE
  expected.memory_optimization = found.NO_MEM_OPT
  expected.disable_tfg_optimizer = True
  assert found == expected and found.layout_optimizer == found.ON
