"""The training processes of tff.learning, unmodified, round by round.

TFF 0.87 has Mime Lite only, no classic Mime.
"""

import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
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


@pytest.mark.parametrize('name', PROCESSES)
def test_rounds(name):
  metrics = rounds(PROCESSES[name]()).metrics['client_work']
  # Something was learned from: the comparison is not one of zeros.
  assert 'update_non_finite' not in metrics
  assert metrics


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


@pytest.mark.parametrize('name', FUNCTIONAL)
def test_rounds_of_a_functional_model(name):
  process = FUNCTIONAL[name](problems.functional_model())
  rounds(process, clients=problems.functional_clients())


@pytest.mark.parametrize('loop', tff.learning.LoopImplementation)
def test_loops(loop):
  """A `for` loop over the data set, and its reduction."""
  rounds(algorithms.build_weighted_fed_avg(
      problems.model_fn, SGD, loop_implementation=loop
  ), num_rounds=1)


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


@pytest.mark.parametrize('name', OPTIMIZERS)
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


@pytest.mark.parametrize('name', AGGREGATORS)
def test_model_aggregators(name):
  rounds(algorithms.build_weighted_fed_avg(
      problems.functional_model(), SGD, model_aggregator=AGGREGATORS[name](),
      metrics_aggregator=tff.learning.metrics.secure_sum_then_finalize
      if name == 'secure' else None,
  ), clients=problems.functional_clients())


def test_kmeans():
  data = [d.unbatch().map(lambda b: b['x']) for d in problems.clients()]
  rounds(
      algorithms.build_fed_kmeans(2, (problems.NUM_FEATURES,), (1, 2)),
      num_rounds=3, clients=data,
  )


def test_weights_go_in_and_out():
  process = algorithms.build_weighted_fed_avg(problems.model_fn, SGD)
  state = agree_lib.on_native(process.initialize)
  weights = agree_lib.agree(process.get_model_weights, state)
  doubled = tff.learning.models.ModelWeights(
      [2 * w for w in weights.trainable], weights.non_trainable
  )
  agree_lib.agree(
      process.next, process.set_model_weights(state, doubled),
      problems.clients(),
  )


def test_trajectories_agree():
  """Twenty rounds, each runtime from its own state (rtol of STYLE 3.7)."""
  process = algorithms.build_weighted_fed_avg(problems.model_fn, SGD)
  clients = problems.clients()

  def train():
    state = process.initialize()
    for k in range(20):
      # Cohorts of all sizes and compositions.
      state, metrics = process.next(state, clients[k % 4:] or clients)
    return process.get_model_weights(state), metrics

  agree_lib.agree(train, rtol=1e-3)


@pytest.fixture(scope='module', name='fed_avg')
def _fed_avg():
  return PROCESSES['weighted_fed_avg']()


@pytest.mark.parametrize('clients', [
    [], [0], [0, 0], [4], [9, 1],
], ids=str)
def test_cohorts(fed_avg, clients):
  """No clients, clients without examples, one full batch, ragged ones."""
  state = agree_lib.on_native(fed_avg.initialize)
  agree_lib.agree(fed_avg.next, state, problems.clients(clients))
