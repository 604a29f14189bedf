"""Computations kept on disk: bit-identical results, nothing traced again."""

import collections
import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from tests import problems
from tests.baselines import rounds
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_hyperparameters as perm_hp
from tff_pers import number_inputs
from tff_pers.runtime import errors
from tff_pers.runtime import fused
from tff_pers.runtime.fused import compiled
from tff_pers.runtime.fused import kept
from tff_pers.runtime.fused import stages
from tff_pers import tff

_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)
_AT_CLIENTS = tff.FederatedType(np.float32, tff.CLIENTS)


@pytest.fixture(name='work')
def fixture_work(monkeypatch):
  """Counts programs that are loaded and graphs that are traced."""
  done = collections.Counter()

  def count(owner, name):
    original = getattr(owner, name)

    def counted(*args, **options):
      done[name] += 1
      return original(*args, **options)

    monkeypatch.setattr(owner, name, counted)

  count(stages.Program, '__init__')
  count(stages.Program, 'trace')
  return done


def _doubled(factor=2.0):
  """Returns x -> (the sum of factor x, factor x) of clients with x < 100."""

  @tff.tensorflow.computation(np.float32)
  def local(x):
    with tf.control_dependencies([
        tf.debugging.assert_less(x, 100.0, message='too large')
    ]):
      return factor * x

  @tff.federated_computation(_AT_CLIENTS)
  def compute(x):
    mapped = tff.federated_map(local, x)
    return tff.federated_sum(mapped), mapped

  return compute


def _line(factor, shift):
  return tff.tensorflow.computation(lambda x: factor * x + shift, np.float32)


def _in_a_new_runtime(folder, compute, *arguments, **options):
  with fused.use('cpu', compile_cache=folder, **options):
    return compute(*arguments)


_METHODS = {
    'fedavg': lambda: fedavg.build_fedavg(
        problems.tiny_model(), fedavg.FedAvgHyperparameters(**_LOCAL)
    ),
    'perm': lambda: perm.build_perm(
        problems.tiny_model(), 5, perm_hp.PermHyperparameters(**_LOCAL),
        full_participation=False,
    ),
}


@pytest.mark.parametrize('method', ['fedavg', 'perm'])
def test_rounds_are_the_same_bit_for_bit_without_tracing(
    method, tmp_path, work, warnings
):
  """Each time it is built, as in another process that has built other things."""
  found = []
  for folder in (None, tmp_path / 'kept', tmp_path / 'kept'):
    _doubled(len(found))
    process = _METHODS[method]()
    work.clear()
    found.append(_in_a_new_runtime(folder, lambda: rounds.train(process)))
    assert bool(work) == (len(found) < 3), work
  for other in found[1:]:
    rounds.assert_identical(other, found[0])
  assert not warnings


@pytest.mark.parametrize('strategy', ['auto', 'loop', 'vectorized'])
def test_strategies_keep_their_graphs(strategy, tmp_path, work):
  for value in (1.0, 3.0):
    work.clear()
    total, mapped = _in_a_new_runtime(
        tmp_path / 'kept', _doubled(), [value, 2.0], strategy=strategy
    )
    assert (total, mapped) == (2 * value + 4.0, [2 * value, 4.0])
  assert not work


@pytest.mark.parametrize('strategy', ['measured', 'xla', 'debug'])
def test_other_strategies_keep_nothing(strategy, tmp_path):
  _in_a_new_runtime(tmp_path / 'kept', _doubled(), [1.0], strategy=strategy)
  assert not os.listdir(tmp_path / 'kept')


def test_the_choice_of_a_run_serves_its_resumption(tmp_path, work):
  """A resumed run knows its schedules, a new one does not."""
  options = dict(choices=tmp_path / 'runtime.json')
  for _ in range(2):
    work.clear()
    _in_a_new_runtime(tmp_path / 'kept', _doubled(), [1.0], **options)
  assert not work


def test_an_edited_loss_gives_its_own_numbers(tmp_path):
  """The own loss of a second process differs in a constant alone."""
  def train(scale, folder):
    model = problems.tiny_model()
    process = fedavg.build_fedavg(
        dataclasses.replace(
            model,
            example_loss=lambda y, out: scale * model.example_loss(y, out),
        ),
        fedavg.FedAvgHyperparameters(**_LOCAL),
    )
    return _in_a_new_runtime(
        folder, rounds.train, process, rounds.COHORTS[:1]
    )[0]

  first = train(1.0, tmp_path / 'kept')
  edited = train(3.0, tmp_path / 'kept')
  rounds.assert_identical(edited, train(3.0, None))
  with pytest.raises(AssertionError):
    rounds.assert_identical(edited, first)


def test_an_error_is_told_alike(tmp_path):
  texts = []
  for _ in range(2):
    compute = _doubled()
    assert _in_a_new_runtime(tmp_path / 'kept', compute, [1.0, 2.0])[0] == 6.0
    with pytest.raises(errors.ComputationError) as caught:
      _in_a_new_runtime(tmp_path / 'kept', compute, [1.0, 200.0])
    texts.append(str(caught.value))
  assert texts[0] == texts[1] and 'too large' in texts[0]


def test_effects_happen_though_no_result_needs_them(tmp_path, capfd):

  @tff.tensorflow.computation(np.float32)
  def shown(x):
    with tf.control_dependencies([tf.print('seen', x)]):
      return tf.zeros([])

  for value in (1.5, 2.5):
    _in_a_new_runtime(tmp_path / 'kept', shown, value)
    assert capfd.readouterr().err == f'seen {value}\n'


def test_results_of_several_shapes(tmp_path, work):
  vector = tff.FederatedType(tff.TensorType(np.float32, [None]), tff.CLIENTS)
  local = tff.tensorflow.computation(
      lambda x: (tf.concat([x, x], 0), tf.size(x)), vector.member
  )
  compute = tff.federated_computation(
      lambda x: tff.federated_map(local, x), vector
  )
  for _ in range(2):
    work.clear()
    found = _in_a_new_runtime(
        tmp_path / 'kept', compute, [np.ones(2, 'f'), np.ones(1, 'f')]
    )
    assert [(len(rows), size) for rows, size in found] == [(4, 2), (2, 1)]
  assert not work


def test_a_kept_graph_reads_the_present_number(tmp_path, work):
  rate = number_inputs.NumberInput(0.5)
  compute = _doubled(rate)
  for value in (0.5, 3.0):
    rate.assign(value)
    work.clear()
    assert _in_a_new_runtime(tmp_path / 'kept', compute, [2.0])[0] == 2 * value
  assert not work


def test_inputs_of_another_process_take_their_places(tmp_path, work):
  """Processes number their inputs as they make them; values may differ."""
  for first in (2.0, 4.0):
    factor, shift = (number_inputs.NumberInput(x) for x in (first, 5.0))
    compute = _line(factor, shift)
    work.clear()
    assert _in_a_new_runtime(tmp_path / 'kept', compute, 1.0) == first + 5.0
    factor.assign(3.0)
    assert _in_a_new_runtime(tmp_path / 'kept', compute, 1.0) == 8.0
    shift.assign(1.0)
    assert _in_a_new_runtime(tmp_path / 'kept', compute, 1.0) == 4.0
  assert not work


def test_a_number_that_nobody_knows_stays_a_constant(tmp_path):
  """A graph that reads an input is not one for which it is a constant."""
  rate = number_inputs.NumberInput(0.5)
  compute = _doubled(rate)
  assert _in_a_new_runtime(tmp_path / 'kept', compute, [2.0])[0] == 1.0
  rate.assign(3.0)
  number_inputs.known.pop(rate.key)
  assert _in_a_new_runtime(tmp_path / 'kept', compute, [2.0])[0] == 1.0


def test_nothing_is_kept_of_a_choice_that_data_have_made(tmp_path):
  """Another seed's first cohort could be vectorized, and would be."""
  local = tff.tensorflow.computation(
      lambda x: tf.range(tf.cast(x, tf.int32)), np.float32
  )
  compute = tff.federated_computation(
      lambda x: tff.federated_map(local, x), _AT_CLIENTS
  )
  for cohort in ([1.0, 2.0], [2.0, 2.0]):
    with fused.use(
        'cpu', strategy='vectorized', compile_cache=tmp_path / 'kept'
    ) as installed:
      assert [len(x) for x in compute(cohort)] == cohort
      [found] = installed.context.executor._compiled.values()  # pylint: disable=protected-access
      [trace] = found._traces.values()  # pylint: disable=protected-access
  assert [s.strategy for s in trace.schedules] == ['vectorized']


@pytest.mark.parametrize('change', [
    lambda patch: patch.setenv('TF_ENABLE_ONEDNN_OPTS', '0'),
    lambda patch: patch.setattr(kept, '_installation', lambda: ('other',)),
    lambda patch: patch.setattr(tf, '__version__', '2.99'),
])
def test_another_installation_computes_for_itself(
    change, tmp_path, monkeypatch, work
):
  compute = _doubled()
  kept._installation.cache_clear()  # pylint: disable=protected-access
  _in_a_new_runtime(tmp_path / 'kept', compute, [1.0])
  kept._installation.cache_clear()  # pylint: disable=protected-access
  work.clear()
  change(monkeypatch)
  _in_a_new_runtime(tmp_path / 'kept', compute, [1.0])
  assert work['trace'] == 1
  monkeypatch.undo()
  kept._installation.cache_clear()  # pylint: disable=protected-access


def test_what_captures_tensors_is_not_kept(tmp_path):
  outside = tf.Variable(1.0)
  function = tf.function(lambda: outside + 1.0).get_concrete_function()
  folder = compiled.disk.Folder(str(tmp_path))
  proto = tff.framework.serialize_computation(_doubled())
  assert kept.Kept(folder, proto, ['/CPU:0']).watched(function) is function


def test_a_damaged_entry_costs_a_line_and_a_trace(tmp_path, work, warnings):
  compute = _doubled()
  _in_a_new_runtime(tmp_path / 'kept', compute, [1.0])
  for file in (tmp_path / 'kept').iterdir():
    file.write_bytes(file.read_bytes()[:-1])
  work.clear()
  assert _in_a_new_runtime(tmp_path / 'kept', compute, [1.0])[0] == 2.0
  assert work['trace'] == 1
  assert len(warnings) == 3
