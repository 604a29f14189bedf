"""Canonical names: what tells computations apart is what they compute."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime.fused.graphs import libraries

VECTOR = tff.TensorType(np.float32, [2])


def _mapped(function):
  local = tff.tensorflow.computation(function, VECTOR)

  @tff.federated_computation(tff.FederatedType(VECTOR, tff.CLIENTS))
  def computation(values):
    return tff.federated_sum(tff.federated_map(local, values))

  return computation


def _trained(constant=2.0, steps=3, variable=False):
  """A computation with functions, a loop, a variable and a data set."""

  @tf.function
  def step(x):
    return x * constant

  def local(x):
    if variable:
      x += tf.Variable(tf.zeros([2]), name='state')
    x = tf.nn.silu(x)  # Its gradient is numbered.
    x = tf.while_loop(lambda i, _: i < steps, lambda i, x: (i + 1, step(x)), (0, x))[1]
    return tf.data.Dataset.range(3).reduce(x, lambda total, i: total + step(x))

  return _mapped(local)


def _of(computation) -> str:
  proto = tff.framework.serialize_computation(computation)
  return hashlib.sha256(libraries.canonical(proto)).hexdigest()


def test_the_same_function_twice():
  assert _of(_trained()) == _of(_trained())


@pytest.mark.parametrize('change', [
    dict(constant=2.1), dict(steps=4), dict(variable=True),
])
def test_another_function(change):
  assert _of(_trained(**change)) != _of(_trained())


def test_tables_have_no_names_of_their_own():
  def looked_up():
    def local(x):
      keys = tf.lookup.KeyValueTensorInitializer([1.0, 2.0], [3.0, 4.0])
      return tf.lookup.StaticHashTable(keys, 0.0).lookup(x)
    return _mapped(local)

  assert _of(looked_up()) == _of(looked_up())


def _recurrent():
  """Keras' layers have numbers, and their functions random names."""
  layers, ones = tf.keras.layers, dict(kernel_initializer='ones')
  return _mapped(lambda x: tf.keras.Sequential([
      layers.Masking(), layers.GRU(2, recurrent_initializer='ones', **ones),
      layers.Dense(1, **ones),
  ])(x[None, :, None]))


def test_layers_have_no_names_of_their_own():
  assert _of(_recurrent()) == _of(_recurrent())


_ALONE = '''
import tensorflow as tf
from tests.runtime import libraries_test as test
for k in range(3):
  tf.function(lambda x: x + 1)(tf.constant(k))
  tf.data.Dataset.range(k)
print(test._of(test._trained(variable=True)))
'''


def test_other_processes_find_the_same():
  root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
  done = subprocess.run(
      [sys.executable, '-c', _ALONE], cwd=root, text=True,
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
      env={**os.environ, 'PYTHONPATH': root, 'PYTHONHASHSEED': '7'},
      check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  assert done.stdout.strip() == _of(_trained(variable=True))
