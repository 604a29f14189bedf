"""The fused runtime itself; that it agrees with others is in conformance/."""

import asyncio
import collections
import json
import os
import subprocess
import sys
import textwrap

from absl import logging
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import runtime
from tff_pers.runtime import errors
from tff_pers.runtime.fused import choices as choices_lib
from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused.values import contents
from tff_pers.runtime import fused
from tff_pers.runtime import native

ROWS = tff.TensorType(np.float32, [None, 2])


@tff.tensorflow.computation(ROWS, np.float32)
def scaled(rows, factor):
  return collections.OrderedDict(
      total=tf.reduce_sum(rows, axis=0) * factor, rows=rows * factor
  )


@tff.tensorflow.computation(tff.TensorType(np.float32, [2]))
def length(x):
  return tf.norm(x)


@tff.tensorflow.computation(tff.TensorType(np.float32, [1000]))
def plus_one(x):
  return x + 1


@tff.tensorflow.computation(ROWS, ROWS)
def joined(a, b):
  return tf.concat([a, b], axis=0)


@tff.tensorflow.computation
def nothing():
  return tf.zeros([0, 2])


@tff.tensorflow.computation(ROWS)
def same(rows):
  return rows


@tff.tensorflow.computation(np.int32)
def numbers(n):
  return tf.data.Dataset.range(tf.cast(n, tf.int64)).map(
      lambda i: tf.cast(i, tf.int32)
  )


@tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
def numbers_at_clients(n):
  return tff.federated_map(numbers, n)


@tff.federated_computation(
    tff.FederatedType(ROWS, tff.CLIENTS),
    tff.FederatedType(np.float32, tff.SERVER),
)
def twice(rows, factor):
  """Two stages: what clients do next depends on an aggregate."""
  first = tff.federated_map(
      scaled, (rows, tff.federated_broadcast(factor))
  )
  mean = tff.federated_mean(first['total'])
  norm = tff.federated_map(length, mean)
  second = tff.federated_map(
      scaled, (first['rows'], tff.federated_broadcast(norm))
  )
  collected = tff.federated_aggregate(
      second['rows'], nothing(), joined, joined, same
  )
  return collected, second['total'], tff.federated_sum(second['total'])


def _cohort(sizes):
  rng = np.random.default_rng(0)
  return [rng.normal(size=[size, 2]).astype(np.float32) for size in sizes]


def _expected(cohort, factor):
  first = [factor * rows for rows in cohort]
  norm = np.linalg.norm(np.mean([rows.sum(0) for rows in first], axis=0))
  second = [norm * rows for rows in first]
  totals = [rows.sum(0) for rows in second]
  return np.concatenate(second), totals, np.sum(totals, axis=0)


def _assert_right(result, cohort, factor):
  for found, expected in zip(result, _expected(cohort, factor)):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize('strategy', ['loop', 'vectorized', 'xla'])
def test_strategies_agree(strategy):
  cohort = _cohort([3, 3, 3, 3, 3])
  with fused.use(strategy=strategy):
    _assert_right(twice(cohort, np.float32(0.5)), cohort, 0.5)


@pytest.mark.parametrize('sizes', [[1], [2, 5], [0, 4, 1], [3] * 9])
def test_clients_of_different_shapes(sizes):
  cohort = _cohort(sizes)
  _assert_right(twice(cohort, np.float32(2.0)), cohort, 2.0)


def _traces(executor):
  return {
      key: trace
      for compiled in executor._compiled.values()
      for key, trace in compiled._traces.items()
  }


def _executor():
  return tff.framework.get_context_stack().current.executor


def test_cohorts_of_all_sizes_share_a_trace():
  with fused.use(strategy='loop'):
    for size in (2, 5, 3):
      twice(_cohort([3] * size), np.float32(1.0))
    assert len(_traces(_executor())) == 1
    twice(_cohort([1, 2]), np.float32(1.0))  # Shapes differ: packed.
    assert len(_traces(_executor())) == 2


def test_choices_are_recorded_and_not_made_again(tmp_path):
  path = tmp_path / 'runtime.json'
  cohort = _cohort([3, 3])
  with fused.use(strategy='auto', choices=path):
    twice(cohort, np.float32(1.0))
  recorded = json.loads(path.read_text())
  (key, schedules), = recorded.items()
  assert [schedule['strategy'] for schedule in schedules] == ['loop'] * len(schedules)
  schedules[0]['strategy'] = 'vectorized'
  path.write_text(json.dumps({key: schedules}))
  with fused.use(strategy='auto', choices=path):
    _assert_right(twice(cohort, np.float32(1.0)), cohort, 1.0)
    (used, _, _), = _traces(_executor()).values()
  assert [schedule.strategy for schedule in used] == [p['strategy'] for p in schedules]


def test_a_damaged_file_of_choices_is_refused(tmp_path):
  path = tmp_path / 'runtime.json'
  path.write_text('{"a": 3}')
  with pytest.raises(ValueError, match='must hold the choices'):
    choices_lib.Choices(path)


def test_less_memory_means_fewer_clients_at_once(tmp_path, monkeypatch):
  """A function that runs out of memory until two clients are in work."""
  path = tmp_path / 'runtime.json'
  cohort = _cohort([3] * 8)
  with fused.use(strategy='vectorized', choices=path):
    compiled = _executor()._find(twice)
    real = type(compiled)._trace

    def trace(self, argument_layout, has_clients, schedules):
      schedules, function, result = real(self, argument_layout, has_clients, schedules)
      def limited(*tensors):
        if max((p.clients_at_once or 8) for p in schedules) > 2:
          raise tf.errors.ResourceExhaustedError(None, None, 'no memory')
        return function(*tensors)
      return schedule_lib.Trace(schedules, limited, result)

    monkeypatch.setattr(type(compiled), '_trace', trace)
    _assert_right(twice(cohort, np.float32(1.0)), cohort, 1.0)
  schedules, = json.loads(path.read_text()).values()
  assert {schedule['clients_at_once'] for schedule in schedules} == {2}


def test_memory_that_is_never_enough_is_said(monkeypatch):
  with fused.use(strategy='loop'):
    compiled = _executor()._find(twice)
    def exhausted(*_):
      raise tf.errors.ResourceExhaustedError(None, None, 'no memory')
    monkeypatch.setattr(
        type(compiled), '_trace',
        lambda self, argument_layout, has_clients, schedules: (
            schedule_lib.Trace(schedules, exhausted, None)
        ),
    )
    with pytest.raises(errors.ComputationError, match='no memory') as raised:
      twice(_cohort([1]), np.float32(1.0))
  assert isinstance(raised.value.__cause__, tf.errors.ResourceExhaustedError)


def test_what_cannot_be_fused_runs_natively_and_is_said(monkeypatch):
  messages = []
  monkeypatch.setattr(
      logging, 'warning', lambda text, *args: messages.append(text % args)
  )
  numbers_type = tff.SequenceType(np.int32)
  assert numbers_at_clients.type_signature.result.member == numbers_type
  for _ in range(2):
    _assert_numbers(numbers_at_clients([2, 3]), [2, 3])
  assert len([m for m in messages if 'native runtime' in m]) == 1


def test_coroutines_that_cannot_be_fused_run_natively():
  """The worker is started in a thread of a pool, and outlives it."""
  native.stop()
  stack = tff.framework.get_context_stack()
  workers = []
  with fused.use(strategy='loop', asynchronous=True):
    installed = stack.current
    for _ in range(2):
      _assert_numbers(asyncio.run(_awaited(numbers_at_clients([2, 3]))), [2, 3])
      workers.append(native.worker_pid())
    assert stack.current is installed
  with native.use():
    assert stack.current is native.get_context()
    _assert_numbers(numbers_at_clients([1]), [1])
    workers.append(native.worker_pid())
  assert None not in workers and len(set(workers)) == 1


def _assert_numbers(found, lengths):
  assert [list(map(int, part)) for part in found] == [
      list(range(n)) for n in lengths
  ]


def test_what_all_clients_share_is_known_without_a_cohort():
  """As TFF's contexts return it that assume one client where none is given."""
  at_server = tff.FederatedType(np.float32, tff.SERVER)

  @tff.federated_computation(at_server)
  def broadcast(x):
    return collections.OrderedDict(
        sent=tff.federated_broadcast(x), kept=x,
        constant=tff.federated_value(3, tff.CLIENTS),
    )

  assert broadcast(2.5) == dict(sent=2.5, kept=2.5, constant=3)


def test_results_that_come_back_are_not_copied():
  with fused.use(strategy='loop'):
    @tff.federated_computation(
        tff.FederatedType(tff.TensorType(np.float32, [1000]), tff.SERVER)
    )
    def plus(x):
      return tff.federated_map(plus_one, x)

    first = plus(np.zeros([1000], np.float32))
    tensors = _executor()._compiler.result_tensors
    assert tensors.tensor(first) is not None
    np.testing.assert_array_equal(plus(first), np.full([1000], 2.0))
    assert tensors.tensor(np.array(first)) is None


def test_arrays_that_change_are_read_again():
  cohort = _cohort([400, 400])
  with fused.use(strategy='loop'):
    _assert_right(twice(cohort, np.float32(1.0)), cohort, 1.0)
    cohort[0][:] = 3.0
    _assert_right(twice(cohort, np.float32(1.0)), cohort, 1.0)


def test_arrays_that_cannot_change_are_not_compared(monkeypatch):
  cohort = [
      np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
      for array in _cohort([400, 400])
  ]
  compared = []
  equal = contents.equal
  monkeypatch.setattr(
      contents, 'equal', lambda *pair: compared.append(pair) or equal(*pair)
  )
  with fused.use(strategy='loop'):
    for _ in range(4):
      _assert_right(twice(cohort, np.float32(1.0)), cohort, 1.0)
    assert not compared
    other = [cohort[1], cohort[0] + 1]
    for _ in range(4):  # The third call is the first that finds it kept.
      _assert_right(twice(other, np.float32(1.0)), other, 1.0)
    assert len(compared) == 2


def test_what_shows_bytes_cannot_change():
  array = np.frombuffer(b'12345678', np.float32)
  assert contents.is_constant(array) and contents.is_constant(array[:1])
  with pytest.raises(ValueError):
    array.flags.writeable = True
  changeable = np.frombuffer(memoryview(bytearray(8)).toreadonly(), np.float32)
  read_only = np.zeros([2])
  read_only.flags.writeable = False
  for array in (changeable, read_only, read_only[:1], array.copy(), None):
    assert not contents.is_constant(array)


@tff.tensorflow.computation(tff.SequenceType(np.int64))
def first_element(dataset):
  return dataset.reduce(
      np.int64(-1), lambda state, x: tf.where(state < 0, x, state)
  )


def test_a_data_set_that_varies_is_read_in_every_call():
  """A shuffled data set of 1000: two equal first elements twice, 1e-6."""
  dataset = tf.data.Dataset.range(1000).shuffle(1000)
  assert len({int(first_element(dataset)) for _ in range(4)}) > 1
  fixed = tf.data.Dataset.range(5, 1000)
  assert {int(first_element(fixed)) for _ in range(2)} == {5}


def test_calls_as_coroutines():
  cohort = _cohort([2, 2])
  with fused.use(strategy='loop', asynchronous=True):
    result = asyncio.run(_awaited(twice(cohort, np.float32(1.0))))
  _assert_right(result, cohort, 1.0)


async def _awaited(coroutine):
  return await coroutine


@pytest.mark.parametrize('device', ['tpu', 'gpu:x', 'gpu:63', 'cpu:1'])
def test_bad_device(device):
  with pytest.raises(ValueError, match='`device` must be'):
    fused.find_devices(device)


def test_bad_strategy_and_runtime():
  with pytest.raises(ValueError, match='`strategy` must be one of auto, measured'):
    fused.use(strategy='fast')
  with pytest.raises(ValueError, match='`name` must be one of fused, native'):
    runtime.use('fast')


_ALONE = '''
import collections, os, sys
import numpy as np, psutil, tensorflow as tf
cpu = tf.config.list_physical_devices('CPU')[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import tensorflow_federated as tff
from tests.runtime import fused_test
from tff_pers.runtime import fused
from tff_pers.runtime.fused import choices
executor = fused.Executor(
    ['/CPU:0', '/CPU:1'], 'loop', choices.Choices())
tff.framework.set_default_context(fused.FusedContext(executor))
for sizes in ([3] * 5, [1, 4, 2], [2]):
  cohort = fused_test._cohort(sizes)
  fused_test._assert_right(
      fused_test.twice(cohort, np.float32(0.5)), cohort, 0.5)
(_, function, _), *_ = fused_test._traces(executor).values()
places = collections.Counter(
    op.device[-5:] for op in function.graph.get_operations()
    if op.type in ('While', 'StatelessWhile'))
print('places', sorted(places))
print('children', len(psutil.Process().children(recursive=True)))
'''


def test_devices_share_the_clients_and_no_process_is_started():
  """Two logical CPUs stand for two GPUs: the same code places both."""
  root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
  done = subprocess.run(
      [sys.executable, '-c', textwrap.dedent(_ALONE)], cwd=root, text=True,
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
      env={**os.environ, 'PYTHONPATH': root}, check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  assert "places ['CPU:0', 'CPU:1']" in done.stdout
  assert 'children 0' in done.stdout
