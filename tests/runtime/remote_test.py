"""The remote runtime gives the numbers of the native one."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedavg
from tests import problems
from tests.runtime import workers
from tff_pers.algorithms.perm import perm
from tff_pers.runtime import native
from tff_pers.runtime import remote

pytestmark = pytest.mark.usefixtures('native_runtime')


@pytest.fixture(scope='module')
def started():
  with workers.running(2) as processes:
    yield processes


def _assert_same(actual, expected):
  tf.nest.assert_same_structure(actual, expected)
  for x, y in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
    np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7)


def _check(computation, *arguments, started):
  """Asserts that remote and native agree; returns what they say."""
  expected = computation(*arguments)
  before = tff.framework.get_context_stack().current
  with remote.use(workers.addresses(started)):
    assert tff.framework.get_context_stack().current is not before
    actual = computation(*arguments)
  assert tff.framework.get_context_stack().current is before
  assert native.worker_pid() is not None
  _assert_same(actual, expected)
  return actual


def _train(process, num_rounds):
  """Returns the outputs of some rounds, then per-client metrics."""
  clients = problems.tiny_clients()
  states = [()] * len(clients)
  state, outputs = process.initialize(), []
  for _ in range(num_rounds):
    outputs.append(process.next(state, states, clients))
    state = outputs[-1]['state']
  return outputs, process.evaluate(
      state, states,
      [collections.OrderedDict(adapt=data, test=data) for data in clients],
  )


def test_weighted_fedavg_is_the_same(started):
  """Clients have 3 to 7 examples."""
  process = fedavg.build_fedavg(
      problems.tiny_model(), client_weighting='examples'
  )
  outputs, evaluated = _check(lambda: _train(process, 2), started=started)
  weights = [output['state']['weights'] for output in outputs]
  assert not np.allclose(weights[0][0], weights[1][0])
  assert len(evaluated) == 5


@pytest.mark.slow
def test_perm_single_loop_is_the_same(started):
  """A select, a keyed collection, two exchanges."""
  process = perm.build_perm(
      problems.tiny_model(), 5, perm.PermHyperparameters(warmup_rounds=1)
  )
  outputs, _ = _check(lambda: _train(process, 3), started=started)
  mixing = outputs[-1]['state']['mixing']
  np.testing.assert_allclose(mixing.sum(axis=1), 1.0, rtol=1e-5)
  assert not np.allclose(mixing, outputs[0]['state']['mixing'])


@tff.tensorflow.computation(np.float32, np.float32)
def _weight(value, center):
  return 1.0 / tf.maximum(0.01, tf.abs(value - center))


@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def _reweighted_mean(values):
  """The mean, then two means with weights by distance from the one before."""
  mean = tff.federated_mean(values)
  for _ in range(2):
    center = tff.federated_broadcast(mean)
    weights = tff.federated_map(_weight, (values, center))
    mean = tff.federated_mean(values, weights)
  return mean, weights


def test_iteratively_reweighted_mean_is_the_same(started):
  """Three aggregations, each after the one before."""
  values = np.array([1, 2, 4, 8, 100], np.float32)
  found, weights = _check(_reweighted_mean, list(values), started=started)
  mean = values.mean()
  for _ in range(2):
    expected = 1 / np.maximum(0.01, np.abs(values - mean))
    mean = np.average(values, weights=expected)
  np.testing.assert_allclose(found, mean, rtol=1e-5)
  np.testing.assert_allclose(weights, expected, rtol=1e-4)


def test_tff_splits_no_aggregation_that_depends_on_another():
  """Why the driver runs the line itself."""
  with pytest.raises(ValueError, match='aggregat'):
    tff.backends.native.compile_to_mergeable_comp_form(_reweighted_mean)


@tff.tensorflow.computation(tff.SequenceType(np.int32))
def _sum_of_sequence(values):
  return values.reduce(np.int32(0), lambda total, value: total + value)


@tff.tensorflow.computation(np.int32, np.int32)
def _multiply(x, y):
  return x * y


@tff.tensorflow.computation
def _seven():
  return tf.constant(7)


@tff.federated_computation(
    tff.FederatedType(tff.SequenceType(np.int32), tff.CLIENTS),
    tff.StructType([
        ('factor', tff.FederatedType(np.int32, tff.SERVER)),
        ('shared', tff.FederatedType(np.int32, tff.CLIENTS, all_equal=True)),
        ('plain', np.int32),
    ]),
)
def _mixture(sequences, rest):
  """All placements in and out, constants, parts that pass through."""
  sums = tff.federated_map(_sum_of_sequence, sequences)
  square = tff.federated_map(_multiply, (rest.factor, rest.factor))
  factor = tff.federated_broadcast(square)  # Sent, and returned.
  scaled = tff.federated_map(_multiply, (sums, factor))
  seven = tff.federated_value(_seven(), tff.CLIENTS)
  return collections.OrderedDict(
      scaled=scaled,
      times=tff.federated_map(_multiply, (scaled, seven)),
      sum=tff.federated_secure_sum_bitwidth(scaled, bitwidth=20),
      largest=tff.federated_max(scaled),
      factor=rest.factor,
      square=square,
      shared=rest.shared,
      seven=seven,
      placed=(tff.federated_value(_multiply(rest.plain, 2), tff.SERVER),),
  )


@pytest.mark.parametrize('num_clients', [5, 1])
def test_all_placements_are_the_same(num_clients, started):
  """Five clients on two workers, and fewer clients than workers."""
  sequences = [
      tf.data.Dataset.range(i + 2).map(lambda x: tf.cast(x, tf.int32))
      for i in range(num_clients)
  ]
  found = _check(
      _mixture, sequences,
      collections.OrderedDict(factor=10, shared=3, plain=21), started=started,
  )
  sums = [(i + 1) * (i + 2) // 2 * 100 for i in range(num_clients)]
  assert found['scaled'] == sums  # In the order of the cohort.
  assert found['times'] == [7 * value for value in sums]
  assert found['sum'] == sum(sums) and found['largest'] == max(sums)
  assert (found['factor'], found['shared'], found['seven']) == (10, 3, 7)
  assert found['placed'] == (42,) and found['square'] == 100


@tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
def _sum_and_values(values):
  return tff.federated_sum(values), tff.federated_map(
      tff.tensorflow.computation(lambda x: x + 1, np.int32), values
  )


def test_an_empty_cohort_and_no_placement_at_all(started):
  with remote.use(workers.addresses(started)):
    assert _sum_and_values([]) == (0, [])
    assert _multiply(6, 7) == 42
    assert _seven() == 7


def test_an_error_of_the_computation_is_not_repeated(started, caplog):
  """Same class of error as natively; the workers stay."""

  @tff.tensorflow.computation(np.int32)
  def refuse(x):
    with tf.control_dependencies([tf.debugging.assert_less(x, 3)]):
      return tf.identity(x)

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def total(values):
    return tff.federated_sum(tff.federated_map(refuse, values))

  def error():
    with pytest.raises(Exception) as info:
      total([1, 2, 3])
    return info.value

  native_error = error()
  with remote.use(workers.addresses(started)):
    remote_error = error()
    assert total([1, 2]) == 3
    with pytest.raises(TypeError):
      total(['a'])
  assert type(remote_error) is type(native_error)
  assert remote_error.__cause__.code() == native_error.__cause__.code()
  assert 'lost' not in caplog.text


@pytest.mark.parametrize(
    'addresses, options, message',
    [
        ([], {}, '`workers` must name each worker once, at least one'),
        (['a:1', 'a:1'], {}, '`workers` must name each worker once'),
        *(
            (given, {}, '`workers` must be a list of addresses host:port, found'
             f' {found!r}.')
            for given, found in [
                (['a:1', 'a'], 'a'), (['a:0'], 'a:0'), ('a:1', 'a:1'),
                ([8000], 8000), (None, None),
            ]
        ),
        (['a:1'], dict(round_seconds=0), '`round_seconds` must be > 0'),
        (['a:1'], dict(max_retries=-1), '`max_retries` must be >= 0'),
    ],
)
def test_raises_on_bad_arguments(addresses, options, message):
  with pytest.raises(ValueError, match=message):
    remote.use(addresses, **options)
