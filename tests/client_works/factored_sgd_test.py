"""Local SGD with kernels as factors, against the same with dense kernels."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.client_works import factored_sgd
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.config import hyperparameters as hp
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import zoo
from tff_pers.runtime import fused
from tff_pers.testing import tiny

# The first kernel is [16, 20].
MODEL = zoo.build(
    'mlp_20', tf.TensorSpec([None, 4, 4], tf.float64), 3, dtype=tf.float64
)


def _client(num_examples, num_rows):
  """Padding rows hold numbers, too: nothing may depend on them."""
  rng = np.random.default_rng(num_examples)
  data = client_data.dense(
      0, rng.normal(size=[num_rows, 4, 4]),
      rng.integers(0, 3, num_rows).astype(np.int32),
  )
  return dict(data, num_examples=np.int32(num_examples))


def _trained(data, allowed, max_examples, local=None, **budget):
  options = {} if local is None else dict(local=local)
  with factored_sgd.building(max_examples, allowed) as scope:
    final, loss = local_sgd.train(
        MODEL, MODEL.initial_weights(1), data, learning_rate=0.3,
        seed=random.key(2), **options, **budget,
    )
  return [*final, loss], scope.names


@pytest.mark.parametrize('num_examples', [0, 1, 7, 10, 'no row'])
@pytest.mark.parametrize('max_examples, budget', [
    (None, dict(num_steps=3, batch_size=4)),
    (10, dict(num_steps=9, batch_size=4)),
    (10, dict(num_epochs=1, batch_size=3)),
    (10, dict(num_epochs=3, batch_size=4)),
    # A single step needs no products of rows with each other; two do.
    (10, dict(num_epochs=1, batch_size=12)),
    (None, dict(num_steps=2, batch_size=4)),
], ids=['visited', 'steps', 'pass', 'passes', 'one step', 'two steps'])
def test_weights_and_loss_are_those_of_dense_kernels(
    max_examples, budget, num_examples
):
  num_rows = 12
  if num_examples == 'no row':
    num_examples = num_rows = 0
  data = _client(num_examples, num_rows)
  found, names = _trained(data, True, max_examples, **budget)
  expected, none = _trained(data, False, max_examples, **budget)
  assert names and not none
  for actual, wanted in zip(found, expected):
    np.testing.assert_allclose(actual, wanted, rtol=1e-10, atol=1e-13)
  moved = np.abs(expected[0] - MODEL.initial_weights(1)[0]).max()
  assert (moved > 1e-3) == (num_examples > 0)


@pytest.mark.parametrize('field', ['momentum', 'weight_decay', 'clip_norm'])
def test_steps_that_are_not_plain_keep_kernels_dense(field):
  local = local_step.LocalStep(**{field: 0.5})
  _, names = _trained(
      _client(10, 10), True, None, local, num_steps=3, batch_size=4
  )
  assert not names


def test_batches_of_a_data_set_are_trained_on_densely():
  data = _client(8, 8)['examples']
  batches = tf.data.Dataset.from_tensor_slices((data['x'], data['y'])).batch(4)
  budget = dict(num_steps=3, batch_size=4)
  found, _ = _trained(batches, True, None, **budget)
  expected, _ = _trained(batches, False, None, **budget)
  np.testing.assert_array_equal(found[0], expected[0])


def _work(allowed=True, **fields):
  own = hp.replace(
      hp.LocalTraining(), local_epochs=0, local_steps=3, batch_size=4,
      learning_rate=0.3, **fields,
  )
  with factored_sgd.building(allowed=allowed):
    return local_sgd.build_local_sgd(MODEL, own, 'examples')


def test_an_update_by_factors_is_that_of_the_work():
  data = _client(10, 12)
  message = dict(
      seed=np.int64(0), round=np.int32(0), weights=MODEL.initial_weights(1)
  )
  summed = _work().summed.update(message, (), data)
  plain = _work(allowed=False).update(message, (), data)
  factors, = summed.update['factors']
  product = tf.matmul(factors['v'], factors['u'], transpose_a=True)
  for actual, wanted in zip([product, *summed.update['dense']], plain.update):
    np.testing.assert_allclose(actual, wanted, rtol=1e-10, atol=1e-13)
  assert summed.weight == plain.weight
  np.testing.assert_allclose(summed.loss, plain.loss, rtol=1e-12)
  # A deployment sends the kernel, or as little: no other bytes are reported.
  assert summed.bytes_up == 8 * MODEL.num_parameters


def test_a_work_of_other_steps_offers_no_factors():
  assert _work().summed is not None
  assert _work(momentum=0.5).summed is None
  assert _work(allowed=False).summed is None


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_a_client_of_bad_data_is_dropped(bad):
  task = tiny.wide_task()
  task.train[1]['examples']['x'][0, 2] = bad
  results = {}
  for allowed in (True, False):
    with factored_sgd.building(12, allowed):
      process = tiny.build('fedavg', task)
    output = process.next(process.initialize(), [()] * 4, task.train)
    results[allowed] = output
    assert list(output['metrics']['non_finite']) == [1]
  for found, wanted in zip(*(r['state']['weights'] for r in results.values())):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def _check_all_are_dropped(task, learning_rate):
  """After one step of this rate, which leaves the model as it was."""
  with factored_sgd.building(12):
    process = tiny.build(
        'fedavg', task, learning_rate=learning_rate, local_steps=1
    )
  start = process.initialize()
  output = process.next(start, [()] * 4, task.train)
  assert list(output['metrics']['non_finite']) == [0, 1, 2, 3]
  for found, wanted in zip(output['state']['weights'], start['weights']):
    np.testing.assert_array_equal(found, wanted)


def test_clients_whose_factors_are_finite_but_no_product_are_dropped():
  """As dense kernels are, of which this is the move."""
  task = tiny.wide_task()
  for data in task.train:
    data['examples']['x'] *= np.float32(1e3)
  _check_all_are_dropped(task, learning_rate=1e35)


def test_clients_side_by_side_are_those_of_a_loop(tmp_path):
  """40 of one shape, with 0 to 12 examples, one of them not finite."""
  task = tiny.wide_task()
  rng = np.random.default_rng(0)
  width = task.train[0]['examples']['x'].shape[1]
  data = []
  for client in range(40):
    one = client_data.dense(
        client, rng.normal(size=[12, width]).astype(np.float32),
        rng.integers(0, 2, 12).astype(np.int32),
    )
    data.append(dict(one, num_examples=np.int32(client % 13)))
  data[5]['examples']['x'][0, 0] = np.nan
  with factored_sgd.building(12) as scope:
    process = tiny.build('fedavg', task)
  assert scope.names
  found = []
  for strategy in ('loop', 'auto'):
    path = tmp_path / f'{strategy}.json'
    with fused.use(strategy=strategy, choices=path):
      output = process.next(process.initialize(), [()] * 40, data)
    found.append(output)
    assert list(output['metrics']['non_finite']) == [5]
  assert 'vectorized' in path.read_text()
  for a, b in zip(*(tf.nest.flatten(one['state']['weights']) for one in found)):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_clients_whose_only_step_overflows_are_dropped():
  """Their losses are finite, and were taken before it."""
  _check_all_are_dropped(tiny.wide_task(), learning_rate=1e39)
