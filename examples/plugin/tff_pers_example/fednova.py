"""FedNova: clients that take more steps do not get more weight.

Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization
    Wang, Liu, Liang, Joshi, Poor. NeurIPS 2020.
    https://arxiv.org/abs/2007.07481
"""

import collections
import dataclasses

import tensorflow as tf

from tff_pers import composition
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class FedNovaHyperparameters(hp.LocalBatches):
  """Step size and minibatches; with epochs, numbers of steps differ."""

  server_learning_rate: float = hp.field(
      1.0, 'Server step size eta_g; 1 is plain averaging.', above=0.0
  )


@builders.checked
def build_fednova(
    model: functional.FunctionalModel,
    hyperparameters: FedNovaHyperparameters = FedNovaHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedNova with plain local SGD (Eq. 8 with a_i = (1, ..., 1)).

    client i: u <- w;  tau_i times: u <- u - eta g_i(u; b)
              d_i = (w - u) / tau_i
    server  : tau = sum_i p_i tau_i;  w <- w - eta_g tau sum_i p_i d_i

  with p_i = q_i / sum_j q_j. Server state: `weights` w, and `steps`, the last
  tau. Clients are stateless. If all take the same number of steps it is FedAvg.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedNovaHyperparameters`.
    client_weighting: q_i: `uniform`, `examples` or `batches`.

  Returns:
    A `PersonalizedProcess` that deploys w at every client.
  """

  def update(message, client_state, data):
    received = message['weights']

    def step(line, batch):
      weights, taken = line
      loss, gradient = model.loss_and_gradient(weights, batch)
      weights = tf.nest.map_structure(
          lambda w, g: w - tf.cast(hyperparameters.learning_rate, w.dtype) * g,
          weights, gradient,
      )
      return (weights, taken + 1.0), loss

    (weights, taken), loss = client_data.fold_batches(
        data, step, (received, tf.constant(0.0)), reports=True,
        seed=client_work.key(message, data), **hyperparameters.budget(),
    )
    # Without examples nothing moved, and 0 / 1 gives the direction 0.
    divisor = tf.maximum(taken, 1.0)
    direction = tf.nest.map_structure(
        lambda d: d / tf.cast(divisor, d.dtype),
        local_sgd.difference(received, weights),
    )
    return client_work.ClientOutput(
        client_state,
        collections.OrderedDict(weights=direction, steps=taken),
        client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss,
    )

  def finalize(state, mean):
    rate = hyperparameters.server_learning_rate * mean['steps']
    weights = tf.nest.map_structure(
        lambda w, d: w - tf.cast(rate, w.dtype) * d, state['weights'],
        mean['weights'],
    )
    return dict(weights=weights, steps=mean['steps'])

  return composition.compose(
      model,
      init=lambda seed: collections.OrderedDict(
          weights=model.initial_weights(seed), steps=tf.constant(0.0)
      ),
      send=lambda state: dict(weights=state['weights']),
      work=client_work.ClientWork(update),
      finalize=finalize,
      deploy=lambda message, client_state, data: message['weights'],
      client_model=lambda state, client_state, index: state['weights'],
      measure=lambda state, mean: dict(mean_steps=mean['steps']),
  )


@methods.register(
    'fednova', FedNovaHyperparameters,
    summary='averaging that does not favour clients with more local steps',
    travels=methods.Travels(up=('weights', 'steps')),
)
def _build(task, hyperparameters):
  return build_fednova(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
