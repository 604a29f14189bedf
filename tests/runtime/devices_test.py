"""What is set for a GPU, and where things lie; no GPU is needed."""

import collections
import os
import subprocess
import sys

from absl import logging
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime.fused import devices
from tff_pers.runtime.fused.graphs import graph as graph_lib


@pytest.fixture(name='settings')
def fixture_settings(monkeypatch):
  """Notes what would be set on a machine with one GPU."""
  found = {}
  config = tf.config.experimental
  gpu = tf.config.PhysicalDevice('/physical_device:GPU:0', 'GPU')
  monkeypatch.setattr(tf.config, 'list_physical_devices', lambda _: [gpu])
  for name in (
      'enable_tensor_float_32_execution', 'enable_op_determinism',
      'set_memory_growth',
  ):
    monkeypatch.setattr(
        config, name, lambda *values, name=name: found.update({name: values})
    )
  return found


def test_products_are_exact_unless_asked_for(settings):
  devices.prepare(devices.find('gpu'))
  assert settings['enable_tensor_float_32_execution'] == (False,)
  devices.prepare(devices.find('gpu'), tf32=True)
  assert settings['enable_tensor_float_32_execution'] == (True,)


def test_memory_grows(settings):
  devices.prepare(devices.find(None))
  [gpu] = tf.config.list_physical_devices('GPU')
  assert settings['set_memory_growth'] == (gpu, True)


def test_bits_repeat_where_asked_for(settings):
  devices.prepare(['/GPU:0'])
  assert 'enable_op_determinism' not in settings
  devices.prepare(['/GPU:0'], deterministic=True)
  assert 'enable_op_determinism' in settings


def test_nothing_is_set_on_a_cpu(settings):
  devices.prepare(devices.find('cpu'), tf32=True, deterministic=True)
  assert not settings


def test_a_gpu_in_use_keeps_its_memory(settings, monkeypatch):
  del settings
  said = []
  monkeypatch.setattr(logging, 'warning', lambda *text: said.append(text))

  def refuse(*_):
    raise RuntimeError('cannot be modified')

  monkeypatch.setattr(tf.config.experimental, 'set_memory_growth', refuse)
  devices.prepare(['/GPU:0'])
  assert len(said) == 1


def _imported(local, *types):
  """Returns the operations of a TFF graph, called on a GPU, by name."""
  compiled = tff.tensorflow.computation(local, *types).to_building_block()
  graph = graph_lib.Graph(compiled, lambda: 'call')
  with tf.Graph().as_default() as outer:
    with tf.device('/GPU:0'):
      graph(tuple(
          tf.compat.v1.placeholder(t.dtype, t.shape)
          for t in map(tff.to_type, types)
      ))
  places = collections.defaultdict(set)
  found = [(op.type, op.device) for op in outer.get_operations()]
  for function in outer.as_graph_def().library.function:
    found += [(node.op, node.device) for node in function.node_def]
  for kind, device in found:
    places[kind].add(device[-5:])
  return places


def test_strings_and_tables_are_of_the_host():
  def local(x, word):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(['a', 'b'], [1, 2]), -1
    )
    number = table.lookup(tf.strings.lower(word))
    return tf.cast(number, tf.float32) * tf.reduce_sum(x)

  places = _imported(local, tff.TensorType(np.float32, [3]), np.str_)
  for kind in ('StringLower', 'LookupTableFindV2', 'LookupTableImportV2'):
    assert places[kind] == {'CPU:0'}, kind
  assert places['Mul'] == places['Sum'] == {'GPU:0'}


def test_a_function_with_a_string_stays_on_the_device():
  @tf.function
  def inner(x, word):
    return x * tf.cast(tf.strings.length(word), tf.float32)

  places = _imported(
      lambda x, word: inner(x, word),  # pylint: disable=unnecessary-lambda
      tff.TensorType(np.float32, [3]), np.str_,
  )
  assert places['StringLength'] == {'CPU:0'}
  calls = places['PartitionedCall'] | places['StatefulPartitionedCall']
  assert calls == {'GPU:0'}
  assert 'CPU:0' not in places['Mul']


def test_pipelines_within_clients_are_of_the_host():
  def local(x, n):
    dataset = tf.data.Dataset.range(n).map(lambda i: i + 1).batch(2)
    total = dataset.reduce(np.int64(0), lambda a, b: a + tf.reduce_sum(b))
    return tf.exp(x) + tf.cast(total, tf.float32)

  places = _imported(local, tff.TensorType(np.float32, [3]), np.int64)
  for kind in ('RangeDataset', 'ReduceDataset'):
    assert places[kind] == {'CPU:0'}, kind
  assert places['Exp'] == {'GPU:0'}


_ALONE = '''
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices('CPU')[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import tensorflow_federated as tff
from tff_pers.runtime import fused
from tff_pers.runtime.fused import choices
from tff_pers.runtime.fused.values import arguments

state_type = tff.TensorType(np.float32, [1000])
add = tff.tensorflow.computation(lambda x, y: x + y, state_type, state_type)

@tff.federated_computation(
    tff.FederatedType(state_type, tff.SERVER),
    tff.FederatedType(state_type, tff.CLIENTS))
def step(state, values):
  return tff.federated_map(add, (state, tff.federated_mean(values)))

executor = fused.Executor(['/CPU:1'], 'loop', choices.Choices())
tff.framework.set_default_context(fused.FusedContext(executor))
sent = []
tensor = arguments.Converter._tensor
def noting(self, array, on_host=False):
  sent.append(array.shape)
  return tensor(self, array, on_host)
arguments.Converter._tensor = noting
state = np.zeros([1000], np.float32)
cohort = [np.ones([1000], np.float32)] * 2
for _ in range(3):
  state = step(state, cohort)
  kept = executor._compiler.result_tensors.tensor(state)
  print('lies on', kept.device[-5:])
print('sent', sent, state[0])

clients = [np.full([1000], k, np.float32) for k in range(3)]
for pair in ((0, 1), (1, 2), (2, 0), (1, 0), (0, 2)):
  sent.clear()
  found = step(np.zeros([1000], np.float32), [clients[k] for k in pair])
  print('of', pair, sent[1:], found[0])
clients[2] += 1
sent.clear()
found = step(np.zeros([1000], np.float32), [clients[1], clients[2]])
print('changed', sent[1:], found[0])

@tff.federated_computation(tff.FederatedType(state_type, tff.CLIENTS))
def doubled(values):
  return tff.federated_map(
      tff.tensorflow.computation(lambda x: 2 * x, state_type), values)

sent.clear()
states = doubled([clients[0], clients[1]])
states = doubled([states[1], clients[0]])
print('states', sent, states[0][0], states[0].flags.writeable)
'''


def test_server_state_stays_on_the_device():
  """A second CPU stands for the GPU: after the first round only data go there.

  A client's data go there alone when they come again, and then no more, with
  whomever they come. States of clients were never anywhere else.
  """
  root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
  done = subprocess.run(
      [sys.executable, '-c', _ALONE], cwd=root, text=True,
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
      env={**os.environ, 'PYTHONPATH': root}, check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  assert done.stdout.count('lies on CPU:1') == 3
  row = '(1000,)'
  # Kept when it comes for a second time; the two clients have one array.
  assert f'sent [{row}, (2, 1000), {row}] 3.0' in done.stdout
  for line in (
      'of (0, 1) [(2, 1000)] 0.5', f'of (1, 2) [{row}, {row}] 1.5',
      f'of (2, 0) [{row}, {row}] 1.0', 'of (1, 0) [] 0.5', 'of (0, 2) [] 1.0',
      f'changed [{row}] 2.0', 'states [] 4.0 False',
  ):
    assert line in done.stdout, done.stdout
