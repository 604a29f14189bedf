"""What `auto` decides: a rule from shapes and graphs, the same in every run."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import fused
from tff_pers.runtime.fused import measuring

ROWS = tff.TensorType(np.float32, [None, 10])


def _total_of(function, member=ROWS):
  local = tff.tensorflow.computation(lambda x: function(x), member)  # pylint: disable=unnecessary-lambda

  @tff.federated_computation(tff.FederatedType(member, tff.CLIENTS))
  def total(values):
    return tff.federated_sum(tff.federated_map(local, values))

  return total


def _times(factor, x):
  return factor * tf.reduce_sum(x)


def _chosen(path, computation, *arguments, **options):
  """Returns the strategies recorded for a call's stages."""
  with fused.use(choices=path, **options):
    result = computation(*arguments)
  schedules, = json.loads(path.read_text()).values()
  return result, [schedule['strategy'] for schedule in schedules]


def _cohort(num_clients, num_rows):
  return [np.ones([num_rows, 10], np.float32)] * num_clients


@pytest.mark.parametrize('clients, rows, expected', [
    (100, 3, 'vectorized'), (99, 3, 'loop'), (100, 1000, 'loop'),
])
def test_many_small_clients_run_together(clients, rows, expected, tmp_path):
  total = _total_of(tf.reduce_sum)
  result, found = _chosen(
      tmp_path / 'runtime.json', total, _cohort(clients, rows)
  )
  assert found[0] == expected
  assert result == clients * rows * 10


def _total_of_products():
  """Clients send their rows and what they make of them; v^T u is added up."""
  sent_type = tff.StructWithPythonType([ROWS, ROWS], tuple)
  local = tff.tensorflow.computation(lambda x: (x, 2 * x), ROWS)

  @tff.tensorflow.computation(tff.TensorType(np.float32, [10, 10]), sent_type)
  def add(total, pair):
    return total + tf.matmul(*pair, transpose_a=True)

  zero = tff.tensorflow.computation(lambda: tf.zeros([10, 10]))
  matrix = zero.type_signature.result
  merge = tff.tensorflow.computation(lambda a, b: a + b, matrix, matrix)
  report = tff.tensorflow.computation(lambda total: total, matrix)

  @tff.federated_computation(tff.FederatedType(ROWS, tff.CLIENTS))
  def total(values):
    sent = tff.federated_map(local, values)
    return tff.federated_aggregate(sent, zero(), add, merge, report)

  return total


@pytest.mark.parametrize('clients, expected, at_once', [
    (40, 'vectorized', 32), (31, 'loop', 0),
])
def test_clients_that_send_factors_run_together(
    clients, expected, at_once, tmp_path
):
  """Also large ones, some at a time."""
  path = tmp_path / 'runtime.json'
  with fused.use(choices=path):
    found = _total_of_products()(_cohort(clients, 500))
  np.testing.assert_allclose(found, np.full([10, 10], 1000.0 * clients))
  schedules, = json.loads(path.read_text()).values()
  assert schedules[0] == dict(strategy=expected, clients_at_once=at_once)


def test_large_messages_are_large_clients(tmp_path):
  """10,000 numbers are sent that are no data."""
  total = _total_of(lambda x: tf.fill([10000], tf.reduce_sum(x)))
  _, found = _chosen(tmp_path / 'runtime.json', total, _cohort(100, 3))
  assert found[0] == 'loop'


def test_clients_with_variables_run_in_a_loop(tmp_path):
  def local(x):
    variable = tf.Variable(0.0)
    with tf.control_dependencies([variable.assign_add(tf.reduce_sum(x))]):
      return variable.read_value()

  _, found = _chosen(
      tmp_path / 'runtime.json', _total_of(local), _cohort(100, 3)
  )
  assert found[0] == 'loop'


def test_clients_of_different_shapes_run_in_a_loop(tmp_path):
  total = _total_of(tf.reduce_sum)
  cohort = _cohort(99, 3) + _cohort(1, 2)
  _, found = _chosen(tmp_path / 'runtime.json', total, cohort)
  assert found[0] == 'loop'


def test_what_cannot_run_together_runs_in_a_loop(tmp_path):
  """The rule says `vectorized`; TensorFlow cannot."""

  def refused(self, *_):
    raise ValueError('no such conversion')

  total = _total_of(tf.reduce_sum)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(tf, 'vectorized_map', refused)
    result, found = _chosen(
        tmp_path / 'runtime.json', total, _cohort(100, 3)
    )
  assert found[0] == 'loop'
  assert result == 3000


def test_each_stage_decides_for_itself(tmp_path, monkeypatch):
  """The second of three stages is refused, and loops alone."""
  local = tff.tensorflow.computation(lambda x, y: tf.reduce_sum(x) + y, ROWS, np.float32)

  @tff.federated_computation(tff.FederatedType(ROWS, tff.CLIENTS))
  def total(values):
    found = tff.federated_value(0.0, tff.SERVER)
    for _ in range(3):
      everywhere = tff.federated_broadcast(found)
      found = tff.federated_mean(
          tff.federated_map(local, (values, everywhere))
      )
    return found

  together, calls = tf.vectorized_map, []

  def refusing(function, elements, **options):
    calls.append(1)
    # The first of two in a trace of all is right, and so is one alone, but for
    # that of the second stage.
    if len(calls) in (2, 4):
      raise ValueError('no such conversion')
    return together(function, elements, **options)

  monkeypatch.setattr(tf, 'vectorized_map', refusing)
  result, found = _chosen(tmp_path / 'runtime.json', total, _cohort(100, 3))
  assert found[:3] == ['vectorized', 'loop', 'vectorized']
  assert result == 90


def test_only_measured_takes_time(monkeypatch, tmp_path):
  def measured(*_, **__):
    raise AssertionError('measured')

  monkeypatch.setattr(measuring, '_seconds', measured)
  total, cohort = _total_of(tf.reduce_sum), _cohort(100, 3)
  for strategy in ('auto', 'loop', 'vectorized'):
    with fused.use(strategy=strategy):
      assert total(cohort) == 3000
  with fused.use(strategy='measured'):
    with pytest.raises(AssertionError, match='measured'):
      total(cohort)


@pytest.mark.parametrize('seconds, expected', [
    (0.005, 'vectorized'), (0.001, 'loop'),
])
def test_small_rounds_are_measured_too(seconds, expected, tmp_path, monkeypatch):
  """Those of 20 clients whose operations take no time but that to start."""
  # A loop; one client alone, vectorized and in a loop; all, vectorized.
  times = iter([seconds, 0.001, 0.001, seconds / 2])
  monkeypatch.setattr(measuring, '_seconds', lambda *_, **__: next(times))
  result, found = _chosen(
      tmp_path / 'runtime.json', _total_of(tf.reduce_sum), _cohort(20, 3),
      strategy='measured',
  )
  assert found[0] == expected
  assert result == 600


def test_computations_that_differ_in_a_constant_have_choices_of_their_own(
    tmp_path,
):
  path = tmp_path / 'runtime.json'
  for factor in (2.0, 3.0):
    with fused.use(choices=path):
      _total_of(functools.partial(_times, factor))(_cohort(2, 3))
  assert len(json.loads(path.read_text())) == 2


def _collected():
  """Clients send the rows whose first entry is positive; they are collected."""
  local = tff.tensorflow.computation(
      lambda x: x[:tf.cast(x[0, 0] > 0, tf.int32)], ROWS
  )

  @tff.tensorflow.computation
  def none():
    return tf.zeros([0, 10])

  @tff.tensorflow.computation(ROWS, ROWS)
  def join(a, b):
    return tf.concat([a, b], axis=0)

  @tff.tensorflow.computation(ROWS)
  def report(rows):
    return rows

  @tff.federated_computation(tff.FederatedType(ROWS, tff.CLIENTS))
  def collected(values):
    return tff.federated_aggregate(
        tff.federated_map(local, values), none(), join, join, report
    )

  return collected


def test_clients_that_come_to_differ_run_in_a_loop_from_then_on(tmp_path):
  path = tmp_path / 'runtime.json'
  collected, cohort = _collected(), _cohort(100, 3)
  strategies = lambda: [
      schedule['strategy']
      for schedule in next(iter(json.loads(path.read_text()).values()))
  ]
  with fused.use(choices=path):
    assert len(collected(cohort)) == 100
    assert strategies() == ['vectorized']
    differing = [(-1) ** i * data for i, data in enumerate(cohort)]
    for _ in range(2):
      assert len(collected(differing)) == 50
    assert strategies() == ['loop']
    assert len(collected(cohort)) == 100


def test_what_fails_in_a_loop_too_leaves_the_choice(tmp_path):
  path = tmp_path / 'runtime.json'

  def checked(x):
    with tf.control_dependencies([tf.debugging.assert_positive(x)]):
      return tf.reduce_sum(x)

  total = _total_of(checked)
  with fused.use(choices=path):
    assert total(_cohort(100, 3)) == 3000
    before = path.read_text()
    with pytest.raises(RuntimeError, match='x > 0 did not hold'):
      total([-data for data in _cohort(100, 3)])
    assert path.read_text() == before
