"""What strategies try, what they fall back to, what is remembered."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedavg
from tests import problems
from tests.baselines import rounds
from tff_pers.algorithms.floral import floral
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.data import client_data
from tff_pers.models import adaptors
from tff_pers.runtime import errors
from tff_pers.runtime import fused
from tff_pers.runtime.fused import choices as choices_lib
from tff_pers.runtime.fused import compiled
from tff_pers.runtime.fused import mapping
from tff_pers.runtime.fused import measuring
from tff_pers.runtime.fused.values import arguments
from tff_pers.runtime.fused.values import packing

_VECTOR = tff.TensorType(np.float32, [1000])


@tff.federated_computation(tff.FederatedType(_VECTOR, tff.CLIENTS))
def total(vectors):
  return tff.federated_sum(vectors)


@tff.tensorflow.computation(_VECTOR)
def squares(x):
  return x * x


@tff.federated_computation(tff.FederatedType(_VECTOR, tff.CLIENTS))
def total_of_squares(vectors):
  return tff.federated_sum(tff.federated_map(squares, vectors))


@tff.tensorflow.computation(np.str_)
def shouted(text):
  return tf.strings.length(tf.strings.upper(text))


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def characters(texts):
  return tff.federated_sum(tff.federated_map(shouted, texts))


def _keep_whatever_is_tried(monkeypatch):
  monkeypatch.setattr(measuring, '_SECONDS_WORTH_A_CHOICE', 0.0)
  monkeypatch.setattr(measuring, '_SECONDS_OF_ARITHMETIC', np.inf)
  monkeypatch.setattr(measuring, '_HOPELESS', np.inf)
  monkeypatch.setattr(measuring, '_CLEARLY_FASTER', np.inf)


_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)
_METHODS = {
    'fedavg': lambda: fedavg.build_fedavg(
        problems.tiny_model(), fedavg.FedAvgHyperparameters(**_LOCAL)
    ),
    'floral': lambda: floral.build_floral(
        adaptors.floral(problems.tiny_model(), 2, rank=1),
        floral_hp.FloralHyperparameters(**_LOCAL), num_clients=5,
    ),
}


@pytest.mark.parametrize('method', ['fedavg', 'floral'])
def test_rounds_of_what_is_measured_are_those_of_a_loop(
    method, monkeypatch, tmp_path
):
  """Stages are vectorized; a second session does the same, bit for bit."""
  process = _METHODS[method]()
  # Only clients of as many examples can run together.
  first = problems.tiny_clients()[0]['examples']
  clients = [
      client_data.dense(i, first['x'] + 0.1 * i, first['y']) for i in range(5)
  ]

  def train():
    return rounds.train(process, rounds.COHORTS[:2], clients)[0][-1]

  with fused.use(strategy='loop'):
    expected = train()
  _keep_whatever_is_tried(monkeypatch)
  path = tmp_path / 'runtime.json'
  with fused.use(strategy='measured', choices=path):
    found = train()
  schedules = choices_lib.Choices(path)._schedules.values()
  assert 'vectorized' in {schedule.strategy for stages in schedules for schedule in stages}
  rounds.assert_close(found, expected)
  with fused.use(strategy='measured', choices=path):
    rounds.assert_identical(train(), found)


def test_a_strategy_that_is_impossible_becomes_a_loop(warnings):
  with fused.use(strategy='xla'):
    assert characters(['ab', 'c']) == 3
    assert characters(['abc', 'c']) == 4
  assert len([w for w in warnings if 'xla is not possible' in w]) == 1


def test_what_is_seen_outside_happens_once(monkeypatch, capfd):
  """`measured` repeats no computation that prints."""
  _keep_whatever_is_tried(monkeypatch)

  @tff.tensorflow.computation(np.int32)
  def shown(x):
    with tf.control_dependencies([tf.print('seen', x)]):
      return tf.identity(x)

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def both(x):
    return tff.federated_sum(tff.federated_map(shown, x))

  calls = []
  choose = measuring._seconds
  monkeypatch.setattr(
      measuring, '_seconds',
      lambda *a, **k: calls.append(1) or choose(*a, **k),
  )
  with fused.use(strategy='measured'):
    assert both([1, 2]) == 3
    assert not _executor()._native
  assert not calls
  assert sorted(capfd.readouterr().err.split('\n')) == ['', 'seen 1', 'seen 2']


def test_a_choice_does_not_overrule_a_strategy(tmp_path):
  path = tmp_path / 'runtime.json'
  vectors = [np.ones([1000], np.float32)] * 2
  with fused.use(strategy='vectorized', choices=path):
    total_of_squares(vectors)
  with fused.use(choices=path):
    total_of_squares(vectors)
  with fused.use(strategy='vectorized', choices=path) as runtime:
    total_of_squares(vectors)
    del runtime
    [schedules] = [
        trace[0]
        for c in _executor()._compiled.values()
        for trace in c._traces.values()
    ]
  assert schedules[0].strategy == 'vectorized'


def _executor():
  return tff.framework.get_context_stack().current.executor


def test_views_of_arrays_that_change_are_read_again():
  base = np.ones([1000], np.float32)
  view = base[:]
  view.flags.writeable = False
  with fused.use(strategy='loop'):
    for value in (1.0, 1.0, 1.0, 5.0):
      base[:] = value
      assert total([view])[0] == value


def test_the_number_of_traces_is_bounded(monkeypatch):
  monkeypatch.setattr(compiled, '_MAX_TRACES', 2)

  @tff.tensorflow.computation(tff.SequenceType(
      tff.TensorType(np.float32, [None])
  ))
  def summed(batches):
    return batches.reduce(0.0, lambda x, batch: x + tf.reduce_sum(batch))

  def ragged(sizes):
    return tf.data.Dataset.from_generator(
        lambda: (np.ones([n], np.float32) for n in sizes),
        output_signature=tf.TensorSpec([None]),
    )

  with fused.use(strategy='loop'):
    for sizes in ([1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2]):
      assert summed(ragged(sizes)) == sum(sizes)
    [found] = _executor()._compiled.values()
    assert len(found._traces) == 2


@pytest.mark.parametrize('sizes', [[1000, 1000], [1000, 900]])
def test_data_that_do_not_fit_on_the_device_stay_on_the_host(
    sizes, monkeypatch, warnings
):
  """A device that takes no cohort: it is said once, rounds go on."""
  tensor = arguments.Converter._tensor

  def small(self, array, on_host=False):
    if array.nbytes > 5000 and not on_host:
      raise tf.errors.InternalError(None, None, 'Dst tensor is not initialized')
    return tensor(self, array, on_host)

  monkeypatch.setattr(arguments.Converter, '_tensor', small)
  member = tff.TensorType(np.float32, [None])
  summed = tff.tensorflow.computation(lambda x: tf.reduce_sum(x), member)

  @tff.federated_computation(tff.FederatedType(member, tff.CLIENTS))
  def sums(vectors):
    return tff.federated_sum(tff.federated_map(summed, vectors))

  with fused.use(strategy='loop'):
    for _ in range(2):
      assert sums([np.ones([n], np.float32) for n in sizes]) == sum(sizes)
  assert len([w for w in warnings if 'in host memory' in w]) == 1


@pytest.mark.parametrize('value', [
    lambda: packing.Rows(tf.zeros([2, 3]), True),
    lambda: packing.Pieces.pack(
        tf.zeros([6]), tf.constant([[3], [3]], tf.int64), [None], True
    ),
])
def test_what_stays_on_the_host_is_cut_there(value):
  with tf.Graph().as_default() as graph:
    with tf.device('/GPU:0'):
      client = value().at(tf.constant(1))
      tf.identity(client, name='used')
  operations = ('GatherV2', 'Slice')
  cuts = [op for op in graph.get_operations() if op.type in operations]
  assert cuts and all('CPU:0' in op.device for op in cuts)
  assert 'GPU:0' in graph.get_operation_by_name('used').device


def test_other_errors_are_no_lack_of_memory(monkeypatch):
  with fused.use(strategy='loop'):
    total([np.ones([1000], np.float32)])
    converter = _executor()._compiler.converter

    def broken(*arguments):
      raise tf.errors.InternalError(None, None, 'something else')

    monkeypatch.setattr(converter, 'ingest', broken)
    with pytest.raises(errors.ComputationError, match='something else'):
      total([np.ones([1000], np.float32)])
  assert converter.hold_on_host()


def test_unknown_ranks_run_natively(warnings):
  @tff.tensorflow.computation(tff.TensorType(np.float32, None))
  def rank(x):
    return tf.rank(x)

  with fused.use():
    assert rank(np.ones([2], np.float32)) == 1
  reasons = collections.Counter(w.split(': ')[-1] for w in warnings)
  assert reasons == {'A tensor of unknown rank is an argument.': 1}


@pytest.mark.parametrize('strategy', ['loop', 'vectorized', 'auto'])
def test_what_cannot_be_traced_runs_natively(monkeypatch, warnings, strategy):
  def broken(*arguments):
    raise ValueError('something is wrong\nand here is why')

  monkeypatch.setattr(mapping, 'run', broken)
  vectors = [np.ones([1000], np.float32)] * 2
  with fused.use(strategy=strategy):
    for _ in range(2):
      assert total_of_squares(vectors).sum() == 2000
  said = [w for w in warnings if 'runs on the native runtime' in w]
  assert len(said) == 1
  assert said[0].endswith('cannot be traced: ValueError: something is wrong')


@pytest.mark.parametrize('error', [
    KeyboardInterrupt, MemoryError,
])
def test_what_is_no_fault_of_the_computation_is_raised(monkeypatch, error):
  def stopped(*arguments):
    raise error()

  monkeypatch.setattr(mapping, 'run', stopped)
  with fused.use(strategy='loop'):
    with pytest.raises(error):
      total_of_squares([np.ones([1000], np.float32)])
    assert not _executor()._native


def test_an_argument_of_another_type_is_the_callers_error(warnings):
  with fused.use(strategy='loop'):
    for argument in (['text'], [np.ones([3], np.float32)], 3):
      with pytest.raises(TypeError):
        total_of_squares(argument)
    assert not _executor()._native
  assert not warnings


def _normalized(x):
  scale = tf.ones([tf.shape(x)[0]])
  return tf.raw_ops.FusedBatchNormV3(
      x=x[None, :, :, None], scale=scale, offset=scale, mean=[], variance=[],
      data_format='NCHW',
  ).y


@pytest.mark.parametrize('function, at_once', [
    (lambda x: x, 4), (_normalized, 1), (tf.function(_normalized), 1),
])
def test_clients_overlap_unless_their_kernels_would_race(
    monkeypatch, function, at_once
):
  """With oneDNN, clients of other sizes even damage each other's memory."""
  monkeypatch.setattr(mapping.os, 'cpu_count', lambda: 4)
  element = tff.TensorType(np.float32, [None, 6])
  local = tff.tensorflow.computation(
      lambda x: tf.reduce_sum(function(x)), element
  )

  @tff.federated_computation(tff.FederatedType(element, tff.CLIENTS))
  def computation(x):
    return tff.federated_map(local, x)

  with fused.use(strategy='loop'):
    computation([np.ones([2, 6], np.float32), np.ones([3, 6], np.float32)])
    [found] = _executor()._compiled.values()
    [(_, traced, _)] = found._traces.values()
  loops = [op for op in traced.graph.get_operations() if 'While' in op.type]
  assert {op.get_attr('parallel_iterations') for op in loops} == {at_once}
