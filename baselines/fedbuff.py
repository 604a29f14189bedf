"""FedBuff: the server takes a step when a buffer of updates is full.

Federated Learning with Buffered Asynchronous Aggregation
    Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba. AISTATS 2022.
    https://arxiv.org/abs/2106.06639
"""

import collections
import dataclasses

import numpy as np
import tensorflow as tf

from baselines import stale_messages
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.data import task as task_lib
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class FedBuffHyperparameters(stale_messages.StaleTraining):
  """Hyperparameters of FedBuff."""

  buffer_size: int = hp.field(
      10, 'Messages B per server update, independent of the number in flight.',
      minimum=1,
  )
  server_learning_rate: float = hp.field(
      1.0, 'Server step size eta_g.', above=0.0, search=hp.Around(4)
  )
  normalize: str = hp.field(
      'buffer',
      'Divisor of the sum of the weighted updates: buffer, the number of'
      ' messages, so that stale ones shorten the step; or weights, the sum of'
      ' their weights.',
      choices=('buffer', 'weights'),
  )

  @property
  def messages_per_update(self) -> int:
    return self.buffer_size


@builders.checked
def build_fedbuff(
    model: functional.FunctionalModel,
    hyperparameters: FedBuffHyperparameters = FedBuffHyperparameters(),
    *,
    client_weighting: str = 'uniform',
    mean_weight: float = 1.0,
) -> process.PersonalizedProcess:
  """Builds FedBuff.

    client i: u <- w_v;  K times: u <- u - eta g_i(u; b);  sends d = w_v - u
    server  : buffer += s(tau) q_i d;  count += 1
              if count = B: w <- w - eta_g buffer / B;  version + 1;
                            buffer, count <- 0

  q_i is 1, or with other `client_weighting` the client's weight relative to the
  mean weight. Only a full buffer increases `version`. A buffer that is not full
  at the end of a run is lost. In a round of `next`, the messages of the cohort
  arrive together and make one step if the buffer then holds B or more. With B =
  cohort size it is FedAvg.

  Server state: see `stale_messages.compose`; `buffer`, like the weights;
  `buffer_weight`, the sum of s(tau) q_i; `count` int32.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedBuffHyperparameters`.
    client_weighting: See `client_work.client_weight`.
    mean_weight: The mean of these weights over all clients.
  """
  sgd = local_sgd.build_local_sgd(model, hyperparameters, client_weighting)

  def update(message, data):
    output = sgd.update(message, (), data)
    return output.update, output.loss

  def init(weights):
    return collections.OrderedDict(
        buffer=tf.nest.map_structure(tf.zeros_like, weights),
        buffer_weight=tf.zeros([], tf.nest.flatten(weights)[0].dtype),
        count=tf.constant(0, tf.int32),
    )

  def flush(state, filled):
    number = filled['buffer_weight']
    if hyperparameters.normalize == 'buffer':
      number = tf.cast(filled['count'], number.dtype)
    mean = tf.nest.map_structure(
        lambda b: b / tf.cast(number, b.dtype), filled['buffer']
    )
    return collections.OrderedDict(
        weights=local_sgd.descend(
            state['weights'], mean, hyperparameters.server_learning_rate
        ),
        version=state['version'] + 1, **init(state['weights']),
    )

  def arrive(state, arrived, tau):
    dtype = tf.nest.flatten(state['weights'])[0].dtype
    scale = stale_messages.discount(hyperparameters, tau, dtype)
    scale /= tf.constant(mean_weight, dtype)
    filled = collections.OrderedDict(
        buffer=tf.nest.map_structure(
            lambda b, total: b + scale * total, state['buffer'],
            arrived['sum']['weights'],
        ),
        buffer_weight=(
            state['buffer_weight']
            + scale * tf.cast(arrived['weight'], dtype)
        ),
        count=state['count'] + arrived['count'],
    )
    return tf.cond(
        filled['count'] >= hyperparameters.buffer_size,
        lambda: flush(state, filled),
        lambda: collections.OrderedDict(
            weights=state['weights'], version=state['version'], **filled
        ),
    )

  return stale_messages.compose(
      model, update,
      lambda data: client_work.client_weight(
          client_weighting, data, hyperparameters.batch_size
      ), init=init, arrive=arrive,
  )


def mean_weight(
    task: task_lib.Task, client_weighting: str, batch_size: int
) -> float:
  """Returns the mean over a task's clients of their weights."""
  sizes = task.sizes
  if client_weighting == 'uniform':
    return 1.0
  if client_weighting == 'batches':
    return float(np.mean([
        int(client_data.batches_per_epoch(n, batch_size)) for n in sizes
    ]))
  return float(np.mean(sizes))


@methods.register(
    'fedbuff', FedBuffHyperparameters, driver='events',
    travels=methods.Travels(stale_messages.TRAVELS, stale_messages.TRAVELS),
    summary='a server step for every buffer of updates, as they arrive',
)
def _build(task, hyperparameters):
  return build_fedbuff(
      task.model, hyperparameters, client_weighting=task.client_weighting,
      mean_weight=mean_weight(
          task, task.client_weighting, hyperparameters.batch_size
      ),
  )
