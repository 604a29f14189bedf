"""A GPU has kernels of the operations of a round, but for a few that are known.

TensorFlow runs others on the host and copies what they take and give. No GPU is
needed, see `memories`; a second logical CPU plays it.
"""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

import baselines  # pylint: disable=unused-import  Registers its methods.
from tff_pers import algorithms  # pylint: disable=unused-import  As above.
from tff_pers.config import methods
from tff_pers.testing import memories

# What runs on the host though nobody placed it there: with the reason why that
# is as good as it gets.
_KNOWN = {
    'DynamicStitch bool': 'a conditional of clients together; a flag of each',
    'TensorScatterUpdate bool int32': 'who has sent; a flag of each client',
}
_CHILD = '''
import dataclasses, json, sys
from binaries.speed import gpu_check_child
from tff_pers.runtime.fused import choices, compiled
from tff_pers.testing import memories, rounds, tiny

gpu_check_child.use('stand_in', choices.Choices())
traces = []
trace = compiled.Compiled._trace
def tracing(owner, layout, has_clients, schedules):
  found = trace(owner, layout, has_clients, schedules)
  if has_clients:
    traces.append(found.function)
  return found
compiled.Compiled._trace = tracing
task = tiny.task()
task = dataclasses.replace(
    task, train=tiny.clients((8,) * 4, 0), test=tiny.clients((8,) * 4, 1))
for name in sys.argv[1:]:
  traces.clear()
  process = tiny.build(name, task)
  before = rounds.Snapshot(process.initialize_seeded(rounds.SEED), {})
  rounds.play(process, before, range(4), task.train)
  found = set()
  for function in traces:
    found |= set(memories.count(function, 'CPU:1').without_kernel)
  print(json.dumps({name: sorted(found)}), flush=True)
'''


@pytest.mark.slow
@pytest.mark.parametrize('name', methods.names())
def test_of_a_method(name):
  done = subprocess.run(
      [sys.executable, '-c', _CHILD, name], capture_output=True, text=True,
      check=True, env=dict(os.environ, CUDA_VISIBLE_DEVICES=''),
  )
  found = json.loads(done.stdout.splitlines()[-1])[name]
  assert set(found) <= set(_KNOWN)


def test_moves_are_seen():
  """A matrix is inverted there, words are counted here."""

  @tf.function(autograph=False)
  def mixed(x, n, flags):
    with tf.device('/GPU:0'):
      found = tf.cast(n, tf.float32) * tf.linalg.inv(x)
      stitched = tf.dynamic_stitch([[0], [1, 2]], [flags[:1], flags[1:]])
      return found, tf.where(stitched, 1.0, 0.0)

  function = mixed.get_concrete_function(
      tf.TensorSpec([2, 2]), tf.TensorSpec([], tf.int32),
      tf.TensorSpec([3], tf.bool),
  )
  moves = memories.count(function, 'GPU:0')
  assert list(moves.without_kernel) == ['DynamicStitch bool']
  assert moves.arguments_up == {1}
  assert (moves.up, moves.down) == (2, 2)
