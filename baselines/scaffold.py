"""Scaffold: local steps corrected by control variates against drift.

SCAFFOLD: Stochastic Controlled Averaging for Federated Learning
    Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. ICML 2020. Algorithm 1.
"""

import collections
import dataclasses

import tensorflow as tf

from baselines import fedavg
from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.aggregators import sum_of_mean
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers import tff


@dataclasses.dataclass(frozen=True)
class ScaffoldHyperparameters(fedavg.AveragingHyperparameters):
  """Hyperparameters of Scaffold."""

  option: str = hp.field(
      '2',
      'How a client updates its control variate: 1: the gradient of all its'
      ' examples at the model received; 2: the mean gradient of its steps.',
      choices=('1', '2'),
  )

  def __post_init__(self):
    super().__post_init__()
    if self.option == '2' and self.momentum:
      raise ValueError(
          '`momentum` must be 0 with option=2, which takes the displacement of'
          ' a client divided by its steps for a gradient, found'
          f' {self.momentum}. Tip: option=1.'
      )


@builders.checked
def build_scaffold(
    model: functional.FunctionalModel,
    hyperparameters: ScaffoldHyperparameters = ScaffoldHyperparameters(),
    *,
    num_clients: int,
) -> process.PersonalizedProcess:
  """Builds Scaffold.

    client i: y <- x;  K times: y <- y - eta (g_i(y; b) - c_i + c)
              option 1: c_i' = grad f_i(x)
              option 2: c_i' = c_i - c + (x - y) / (K eta)
              send y - x and c_i' - c_i;  c_i <- c_i'
    server  : x <- x + eta_g mean_S (y_i - x)
              c <- c + (|S| / N) mean_S (c_i' - c_i)

  Server state: `weights` x and `variate` c. Client state: c_i. Both variates
  are 0 initially, and c remains the mean of the c_i of all clients, in the
  cohort or not. Therefore clients have equal weights, whatever the weighting of
  the task: with others, c would not be the mean of the clients' variates. If
  the variates stay 0, it is FedAvg.

  K is the number of steps that the client has taken, and eta is the rate of the
  round. Clipping and weight decay act on g_i before it is corrected, so that
  the variates are means of the uncorrected steps.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `ScaffoldHyperparameters`.
    num_clients: N, the number of clients that may take part.
  """

  def zeros(seed):
    return tf.nest.map_structure(tf.zeros_like, model.initial_weights(seed))

  def finalize(state, aggregate):
    # The sum over the cohort divided by N is (|S| / N) times its mean.
    return dict(
        weights=local_sgd.descend(
            state['weights'], aggregate['weights'],
            hyperparameters.server_learning_rate,
        ),
        variate=local_sgd.descend(
            state['variate'], aggregate['variate'], 1 / num_clients
        ),
    )

  rule = choice.chosen(hyperparameters)
  return composition.compose(
      model,
      init=lambda seed: collections.OrderedDict(
          weights=model.initial_weights(seed), variate=zeros(seed)
      ),
      send=lambda state: dict(
          weights=state['weights'], variate=state['variate']
      ),
      work=build_scaffold_work(model, hyperparameters),
      aggregator=dict(
          weights=rule or tff.aggregators.MeanFactory(no_nan_division=True),
          variate=(
              sum_of_mean.SumOfMeanFactory(rule) if rule
              else tff.aggregators.SumFactory()
          ),
      ),
      finalize=finalize,
      init_client=zeros,
      deploy=lambda message, own, data: message['weights'],
      client_model=lambda state, own, index: state['weights'],
      tiers={'1': composition.Tier(model, lambda state: state['weights'])},
  )


def build_scaffold_work(
    model: functional.FunctionalModel,
    hyperparameters: ScaffoldHyperparameters,
) -> client_work.ClientWork:
  """Returns the client work; the client state is c_i.

  The update is <weights=x - y, variate=c_i - c_i'>.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_scaffold`.
  """
  local = local_step.build(hyperparameters)
  # The correction is added between the two halves of a step: after clipping and
  # weight decay, before momentum.
  corrected = local_step.LocalStep(momentum=hyperparameters.momentum)

  def update(message, c_i, data):
    x, c = message['weights'], message['variate']
    seed = client_work.key(message, data)
    eta = local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )
    correction = local_sgd.difference(c, c_i)

    def step(carry, batch):
      sgd, num_steps = carry
      loss, gradient = model.loss_and_gradient(sgd.weights, batch)
      direction = tf.nest.map_structure(
          tf.add, local.direction(sgd.weights, gradient), correction
      )
      return (corrected.apply(sgd, direction, eta), num_steps + 1), loss

    (sgd, num_steps), loss = client_data.fold_batches(
        data, step, (corrected.start(x), tf.constant(0)), seed=seed,
        reports=True, **hyperparameters.budget(),
    )
    y = sgd.weights
    if hyperparameters.option == '1':
      at_x = local_gradient.compute(model, x, data, seed=seed).gradient
      renewed = local.direction(x, at_x)
    else:
      renewed = _mean_gradient(x, y, c, c_i, eta, num_steps)
    # A client without examples has taken no step and has no gradient.
    renewed = tf.nest.map_structure(
        lambda new, old: tf.where(num_steps > 0, new, old), renewed, c_i
    )
    return client_work.ClientOutput(
        client_state=renewed,
        update=collections.OrderedDict(
            weights=local_sgd.difference(x, y),
            variate=local_sgd.difference(c_i, renewed),
        ),
        weight=client_work.client_weight(
            'uniform', data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def _mean_gradient(x, y, c, c_i, eta, num_steps):
  """Returns c_i - c + (x - y) / (K eta)."""
  def leaf(x, y, c, c_i):
    rate = tf.convert_to_tensor(eta, dtype_hint=x.dtype)
    way = tf.cast(rate, x.dtype) * tf.cast(num_steps, x.dtype)
    return c_i - c + (x - y) / way
  return tf.nest.map_structure(leaf, x, y, c, c_i)


@methods.register(
    'scaffold', ScaffoldHyperparameters, weighs_clients=False,
    summary='FedAvg with control variates (Karimireddy 2020)',
    travels=methods.Travels(
        down=('weights', 'variate'), up=('weights', 'variate')
    ),
)
def _build(task, hyperparameters):
  return build_scaffold(
      task.model, hyperparameters, num_clients=task.num_clients
  )
