"""Base of asynchronous methods: messages computed from old weights.

A client starts from version v of the weights and reports v in its message; the
server is at version V when it applies the message. The staleness tau = V - v is
counted in server updates, not in messages or seconds.
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
# Sent both to clients and back.
TRAVELS = ('weights', 'version')


@dataclasses.dataclass(frozen=True)
class StaleTraining(hp.LocalTraining):
  """Local training, and the weight of stale messages."""

  staleness: str = hp.field(
      'polynomial',
      'Weight s(tau) of a message that is tau server updates old: constant 1;'
      ' polynomial (1 + tau)^-exponent; hinge 1 up to hinge_start, then'
      ' 1 / (hinge_slope (tau - hinge_start) + 1).',
      choices=('constant', 'polynomial', 'hinge'),
  )
  exponent: float = hp.field(
      0.5, 'How fast the weight decays with staleness.', minimum=0.0,
      when='staleness=polynomial',
  )
  hinge_slope: float = hp.field(
      10.0, 'How fast it decays after the hinge.', minimum=0.0, when=_IS_HINGE
  )
  hinge_start: int = hp.field(
      4, 'The largest staleness without discount.', minimum=0, when=_IS_HINGE
  )


def discount(
    hyperparameters: StaleTraining, tau: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Returns s(tau) in (0, 1], a scalar of dtype `dtype`; s(0) = 1.

  Args:
    hyperparameters: Determine the function s.
    tau: int32 scalar >= 0, the staleness.
    dtype: Dtype of the weights.
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
  """Composes a method whose server applies messages as they arrive.

  Server state: `weights`, `version` (int32, number of updates so far), and the
  fields of `init`. Clients are stateless and deploy the weights.

  Driven by events, `arrive` gets each message separately. In a round of `next`
  the messages of the cohort arrive together, all with staleness 0: `arrive` is
  called once, with their sum.

  Args:
    model: The model.
    update: `(message, D) -> (update, loss)`, what a client sends.
    weight: `D -> float32`, the weight of a client's message.
    init: `weights -> fields`, further fields of the server state.
    arrive: `(S, arrived, tau) -> fields`, updated fields of S; `arrived` is
      `<sum=<weights>, weight, count>`, see `aggregators.arrivals`.
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
