"""The training processes of tff.learning, unmodified, round by round.

TFF 0.87 has Mime Lite only, no classic Mime.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tests.conformance import cases
from tests.conformance import problems

algorithms = tff.learning.algorithms
optimizers = tff.learning.optimizers
SGD = optimizers.build_sgdm(0.1)


def rounds(process, num_rounds=2, clients=None):
  """Both runtimes start every round from the state of the native one."""
  state = agree_lib.agree(process.initialize)
  for _ in range(num_rounds):
    output = agree_lib.agree(process.next, state, clients or problems.clients())
    state = output.state
    problems.assert_margin(output.metrics)
  return output


PROCESSES = {
    'weighted_fed_avg': lambda: algorithms.build_weighted_fed_avg(
        problems.model_fn, SGD
    ),
    'unweighted_fed_avg': lambda: algorithms.build_unweighted_fed_avg(
        problems.model_fn, SGD,
        server_optimizer_fn=optimizers.build_sgdm(1.0, momentum=0.9),
    ),
    'fed_prox': lambda: algorithms.build_weighted_fed_prox(
        problems.model_fn, 0.1, SGD
    ),
    'unweighted_fed_prox': lambda: algorithms.build_unweighted_fed_prox(
        problems.model_fn, 0.1, SGD
    ),
    'fed_sgd': lambda: algorithms.build_fed_sgd(problems.model_fn),
    'mime_lite': lambda: algorithms.build_weighted_mime_lite(
        problems.model_fn, optimizers.build_sgdm(0.1, momentum=0.9)
    ),
    'unweighted_mime_lite': lambda: algorithms.build_unweighted_mime_lite(
        problems.model_fn, optimizers.build_adagrad(0.1)
    ),
    'scheduled_fed_avg': lambda: (
        algorithms.build_weighted_fed_avg_with_optimizer_schedule(
            problems.model_fn, lambda step: 0.1 / (1 + tf.cast(step, tf.float32)),
            optimizers.build_sgdm,
        )
    ),
    'scheduled_mime_lite': lambda: (
        algorithms.build_mime_lite_with_optimizer_schedule(
            problems.model_fn, lambda step: 0.1 / (1 + tf.cast(step, tf.float32)),
            optimizers.build_sgdm(0.1, momentum=0.9),
        )
    ),
}


@pytest.mark.parametrize('name', cases.cases(
    PROCESSES, fast=['unweighted_fed_avg', 'fed_prox', 'fed_sgd', 'mime_lite']
))
def test_rounds(name):
  output = rounds(PROCESSES[name]())
  assert output.metrics['client_work']['train']['num_examples'] == sum(
      problems.SIZES
  )


FUNCTIONAL = {
    'fed_avg': lambda model: algorithms.build_weighted_fed_avg(model, SGD),
    'fed_prox': lambda model: algorithms.build_weighted_fed_prox(
        model, 0.1, SGD
    ),
    'fed_sgd': algorithms.build_fed_sgd,
    'mime_lite': lambda model: algorithms.build_weighted_mime_lite(
        model, optimizers.build_sgdm(0.1, momentum=0.9)
    ),
}


@pytest.mark.parametrize('name', cases.cases(FUNCTIONAL, fast=['fed_avg']))
def test_rounds_of_a_functional_model(name):
  process = FUNCTIONAL[name](problems.functional_model())
  rounds(process, clients=problems.functional_clients())


def test_loop_over_an_iterator():
  """Otherwise TFF reduces the data set."""
  rounds(algorithms.build_weighted_fed_avg(
      problems.functional_model(), SGD,
      loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  ), num_rounds=1, clients=problems.functional_clients())


# All but Adafactor, which TFF cannot trace at clients.
OPTIMIZERS = {
    'sgdm': lambda: optimizers.build_sgdm(0.1, momentum=0.9),
    'adagrad': lambda: optimizers.build_adagrad(0.1),
    'rmsprop': lambda: optimizers.build_rmsprop(0.01),
    'adam': lambda: optimizers.build_adam(0.01),
    'adamw': lambda: optimizers.build_adamw(0.01),
    'yogi': lambda: optimizers.build_yogi(0.01),
    'schedule': lambda: optimizers.schedule_learning_rate(
        optimizers.build_sgdm(), lambda step: 0.1 / tf.cast(step + 1, tf.float32)
    ),
}


@pytest.mark.parametrize('name', cases.cases(
    OPTIMIZERS, fast=['adam', 'schedule']
))
def test_optimizers_at_clients_and_at_the_server(name):
  rounds(algorithms.build_weighted_fed_avg(
      problems.functional_model(), OPTIMIZERS[name](), OPTIMIZERS[name]()
  ), clients=problems.functional_clients())


AGGREGATORS = {
    'robust': lambda: tff.learning.robust_aggregator(
        debug_measurements_fn=tff.learning.add_debug_measurements
    ),
    'secure': tff.learning.secure_aggregator,
}


@pytest.mark.parametrize('name', cases.cases(AGGREGATORS, fast=['robust']))
def test_model_aggregators(name):
  rounds(algorithms.build_weighted_fed_avg(
      problems.functional_model(), SGD, model_aggregator=AGGREGATORS[name](),
      metrics_aggregator=tff.learning.metrics.secure_sum_then_finalize
      if name == 'secure' else None,
  ), clients=problems.functional_clients())


def test_kmeans():
  """No point is half-way between the centroids, where rounding would choose.

  Squared distances of order one have rounding errors of about 1e-7.
  """
  data = [d.unbatch().map(lambda b: b['x']) for d in problems.clients()]
  points = np.concatenate([list(d) for d in data if len(list(d))])
  process = algorithms.build_fed_kmeans(2, (problems.NUM_FEATURES,), (1, 2))
  state = agree_lib.agree(process.initialize)
  for _ in range(3):
    offsets = points[:, None] - state.global_model_weights
    near, far = np.sort(np.sum(offsets**2, -1)).T
    assert np.min(far - near) > 1e-4
    state = agree_lib.agree(process.next, state, data).state


@pytest.fixture(scope='module', name='fed_avg')
def _fed_avg():
  return PROCESSES['weighted_fed_avg']()


def test_weights_go_in_and_out(fed_avg):
  state = agree_lib.on_native(fed_avg.initialize)
  weights = agree_lib.agree(fed_avg.get_model_weights, state)
  doubled = tff.learning.models.ModelWeights(
      [2 * w for w in weights.trainable], weights.non_trainable
  )
  output = agree_lib.agree(
      fed_avg.next, fed_avg.set_model_weights(state, doubled),
      problems.clients(),
  )
  problems.assert_margin(output.metrics)


def test_trajectories_agree(fed_avg):
  """Ten rounds, each runtime from its own state."""
  clients = problems.clients()

  def train():
    state, metrics = fed_avg.initialize(), []
    for k in range(10):
      # Cohorts of all sizes and compositions.
      output = fed_avg.next(state, clients[k % 4:] or clients)
      state = output.state
      metrics.append(output.metrics)
    return fed_avg.get_model_weights(state), metrics

  # Float32, many rounds.
  for metrics in agree_lib.agree(train, rtol=1e-3)[1]:
    problems.assert_margin(metrics)


@pytest.mark.slow
def test_sampled_metrics():
  """The sample is of all clients, in an order of its own."""
  process = algorithms.build_weighted_fed_avg(
      problems.functional_model(), SGD,
      metrics_aggregator=functools.partial(
          tff.learning.metrics.finalize_then_sample, sample_size=10
      ),
  )
  state = agree_lib.on_native(process.initialize)
  native, fused = (
      call(process.next, state, problems.functional_clients())
      for call in (agree_lib.on_native, agree_lib.on_fused)
  )
  sampled = lambda output: {
      name: np.sort(values)
      for name, values in output.metrics['client_work']['train'].items()
  }
  agree_lib.assert_equal(sampled(fused), sampled(native))
  problems.assert_margin(native.metrics)
  assert sampled(native)['accuracy'].shape == (len(problems.SIZES),)


def test_datasets_made_from_names():
  """The clients' arguments are strings; TFF composes the rest."""
  @tff.tensorflow.computation(np.str_)
  def dataset_of(name):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(['a', 'b'], [5, 3]), 0
    )
    size = tf.cast(table.lookup(name), tf.int64)
    data = problems.examples(8, seed=0)
    return tf.data.Dataset.from_tensor_slices(
        (data['x'], data['y'])
    ).take(size).batch(4)

  process = tff.simulation.compose_dataset_computation_with_iterative_process(
      dataset_of,
      algorithms.build_weighted_fed_avg(problems.functional_model(), SGD),
  )
  state = agree_lib.on_native(process.initialize)
  output = agree_lib.agree(process.next, state, ['a', 'b', 'unknown'])
  problems.assert_margin(output.metrics)


@pytest.mark.parametrize('clients', [
    [], [0], [0, 0], [4], [9, 1],
], ids=str)
def test_cohorts(fed_avg, clients):
  """No clients, clients without examples, one full batch, ragged ones."""
  state = agree_lib.on_native(fed_avg.initialize)
  output = agree_lib.agree(fed_avg.next, state, problems.clients(clients))
  problems.assert_margin(output.metrics)
