"""`number_variables`: graphs that were traced once serve every number."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers import number_inputs
from tff_pers.runtime import fused
from tff_pers.runtime import native
from tff_pers import tff


def _polynomial(rate):
  """Returns x -> rate^3 x + 2 rate: in a function, in a loop, in Python."""
  scaled = tf.function(lambda x: rate * x)

  @tff.tensorflow.computation(np.float64)
  def compute(x):
    power = tf.while_loop(
        lambda i, _: i < 3, lambda i, y: (i + 1, scaled(y)), (0, x)
    )[1]
    return power + tf.convert_to_tensor(rate * 2, power.dtype)

  return compute


def _sums(rate):
  """Returns the clients' sums of rate times their numbers."""

  @tff.tensorflow.computation(tff.SequenceType(np.float32))
  def summed(data):
    return data.reduce(0.0, lambda total, x: total + x * rate)

  @tff.federated_computation(
      tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS)
  )
  def compute(data):
    return tff.federated_sum(tff.federated_map(summed, data))

  return compute


def test_a_traced_graph_computes_with_the_present_number():
  rate = number_inputs.NumberInput(0.5)
  compute = _polynomial(rate)
  for value in (0.5, 3.0, 0.1, 0.5):
    rate.assign(value)
    assert compute(8.0) == value**3 * 8.0 + 2 * value
  assert not rate.fixed


@pytest.mark.parametrize('strategy', ['loop', 'vectorized', 'xla'])
def test_clients_compute_with_the_present_number(strategy):
  rate = number_inputs.NumberInput(0.5)
  compute = _sums(rate)
  data = [[1.0, 2.0], [4.0]]
  with fused.use('cpu', strategy=strategy):
    for value in (0.5, 2.0):
      rate.assign(value)
      assert compute(data) == 7.0 * value


def test_two_inputs_do_not_mix():
  one, other = (number_inputs.NumberInput(x) for x in (0.5, 3.0))
  first, second = _polynomial(one), _polynomial(other)
  assert (first(8.0), second(1.0)) == (2.0, 33.0)


def test_outside_of_a_graph_only_the_number_itself_can_be_used():
  rate = number_inputs.NumberInput(0.5)
  assert tf.constant(4.0) * rate == 2.0
  assert rate.fixed


def test_other_runtimes_take_the_number_that_was_traced():
  rate = number_inputs.NumberInput(0.5)
  with native.use():
    assert _polynomial(rate)(8.0) == 2.0


def _reads_a_file(rate):
  """Returns x -> rate x, which the fused runtime does not run."""

  @tff.tensorflow.computation(np.float32)
  def compute(x):
    with tf.control_dependencies([tf.io.matching_files('/dev/null')]):
      return x * rate

  return compute


def test_what_runs_natively_fixes_the_numbers():
  rate = number_inputs.NumberInput(0.5)
  assert _reads_a_file(rate)(8.0) == 4.0
  assert rate.fixed


def test_what_runs_natively_is_not_run_with_an_earlier_number():
  rate = number_inputs.NumberInput(0.5)
  compute = _reads_a_file(rate)
  rate.assign(0.25)
  with pytest.raises(RuntimeError, match='Run the program again; it resumes'):
    compute(8.0)
