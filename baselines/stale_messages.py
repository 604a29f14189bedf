"""What asynchronous methods share: messages that were computed at old weights.

A client starts from version v of the weights and says so in its message; the
server is at version V when it applies it. The staleness is tau = V - v, counted
in updates of the server, neither in messages nor in seconds.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping

import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import arrivals
from tff_pers.client_works import client_work
from tff_pers.config import hyperparameters as hp
from tff_pers.core import process
from tff_pers.models import functional

_IS_HINGE = 'staleness=hinge'
# Both what is sent to a client and what it sends back.
TRAVELS = ('weights', 'version')


@dataclasses.dataclass(frozen=True)
class StaleTraining(hp.LocalTraining):
  """Local training, and how much a stale message counts."""

  staleness: str = hp.field(
      'polynomial',
      'Weight s(tau) of a message that is tau server updates old: constant 1;'
      ' polynomial (1 + tau)^-exponent; hinge 1 up to hinge_start, then'
      ' 1 / (hinge_slope (tau - hinge_start) + 1).',
      choices=('constant', 'polynomial', 'hinge'),
  )
  exponent: float = hp.field(
      0.5, 'How fast the weight of a stale message falls.', minimum=0.0,
      when='staleness=polynomial',
  )
  hinge_slope: float = hp.field(
      10.0, 'How fast it falls behind the hinge.', minimum=0.0, when=_IS_HINGE
  )
  hinge_start: int = hp.field(
      4, 'The largest staleness that costs nothing.', minimum=0, when=_IS_HINGE
  )


def discount(
    hyperparameters: StaleTraining, tau: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Returns s(tau) in (0, 1], a scalar of that dtype; s(0) = 1.

  Args:
    hyperparameters: Say which function.
    tau: int32 scalar >= 0, the staleness.
    dtype: That of the weights.
  """
  late = tf.cast(tau, dtype)
  one = tf.constant(1.0, dtype)
  if hyperparameters.staleness == 'constant':
    return one
  if hyperparameters.staleness == 'polynomial':
    return (one + late) ** -tf.constant(hyperparameters.exponent, dtype)
  beyond = tf.maximum(late - hyperparameters.hinge_start, 0)
  return one / (tf.constant(hyperparameters.hinge_slope, dtype) * beyond + one)


def compose(
    model: functional.FunctionalModel,
    update: Callable[[Any, Any], tuple[Any, Any]],
    weight: Callable[[Any], Any],
    *,
    init: Callable[[Any], Mapping[str, Any]] = lambda weights: {},
    arrive: Callable[[Any, Any, Any], Mapping[str, Any]],
) -> process.PersonalizedProcess:
  """Composes a method whose server takes messages as they arrive.

  Server state: `weights`, `version` (int32, its updates so far), and what
  `init` adds. Clients are stateless and deploy the weights.

  Driven by events, each message is handed to `arrive` alone. In a round of
  `next` those of the cohort arrive at once, all of staleness 0: `arrive` is
  called once, with their sum.

  Args:
    model: The model.
    update: `(message, D) -> (update, loss)`, what a client sends.
    weight: `D -> float32`, how much its message counts beside others.
    init: `weights -> fields`, further fields of the server state.
    arrive: `(S, arrived, tau) -> fields`, those fields of S that change; what
      has arrived is `<sum=<weights>, weight, count>`, see
      `aggregators.arrivals`.
  """

  def start(seed):
    weights = model.initial_weights(seed)
    return collections.OrderedDict(
        weights=weights, version=tf.constant(0, tf.int32), **init(weights)
    )

  def work(message, client_state, data):
    sent, loss = update(message, data)
    return client_work.ClientOutput(
        client_state=client_state,
        update=collections.OrderedDict(
            weights=sent, version=message['version']
        ),
        weight=weight(data), loss=loss,
    )

  def finalize(state, arrived):
    return arrive(state, arrived, state['version'] - arrived['version'])

  return composition.compose(
      model,
      init=start,
      send=lambda state: {name: state[name] for name in TRAVELS},
      work=client_work.ClientWork(work),
      aggregator=arrivals.ArrivalsFactory(),
      finalize=finalize,
      deploy=lambda message, own, data: message['weights'],
      client_model=lambda state, own, index: state['weights'],
      tiers={'1': composition.Tier(model, lambda state: state['weights'])},
  )
