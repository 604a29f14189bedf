"""L2GD: personal models, partially averaged when a coin flip says so.

Federated Learning of a Mixture of Global and Local Models
    Hanzely, Richtarik. 2020. https://arxiv.org/abs/2002.05516
"""

import collections
import dataclasses
from typing import Any, Mapping, NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import functional

_COIN_USE = -6  # Separates the coins from other draws of a run.
_AUTO = 'p=auto and smoothness=0'


class Steps(NamedTuple):
  """The iteration of L2GD from the view of one client.

  Attributes:
    p: Probability that an iteration averages.
    local: s, the size of a local step.
    averaging: th, the share of the way to the mean in an averaging iteration.
  """

  p: float
  local: float
  averaging: float


@dataclasses.dataclass(frozen=True)
class L2gdHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of L2GD."""

  # Smoothness and lambda, if known, bound the step sizes.
  learning_rate: float = hp.inherited(
      hp.LocalTraining, 'learning_rate', when='smoothness=0'
  )
  # The coins decide the number of local steps per round; p aims at K.
  local_steps: int = hp.inherited(hp.LocalTraining, 'local_steps', when=_AUTO)
  local_epochs: int = hp.inherited(hp.LocalTraining, 'local_epochs', when=_AUTO)
  lambda_: float = hp.field(
      0.1, 'Penalty lambda on the distance of models from their mean.',
      minimum=0.0, search=hp.Between(0.01, 1.0, log=True),
  )
  p: Union[float, str] = hp.field(
      'auto',
      'Probability that an iteration averages; auto: lambda / (L + lambda) if'
      ' smoothness is given, else 1 / (number of local steps), at most 1/2.',
      above=0.0, below=1.0, auto=True,
  )
  smoothness: float = hp.field(
      0.0,
      'L, smoothness of the local losses, which determines the step sizes; 0:'
      ' unknown, local steps have size learning_rate.',
      minimum=0.0,
  )

  def __post_init__(self):
    super().__post_init__()
    if self.p == 'auto' and self.smoothness and not self.lambda_:
      raise ValueError(
          '`p` must be a number with lambda=0 and smoothness > 0, because auto'
          ' is 0 then and clients would never communicate, found auto.'
      )

  def longest_line(self) -> int:
    return 0  # The coins decide.

  def steps(self, num_local_steps: Optional[float] = None) -> Steps:
    """Returns the steps of the iteration.

      alpha = N / (2 max(L / (1 - p), lambda / p))
      s = alpha / (N (1 - p)),  th = alpha lambda / (N p)

    Without L, s is the learning rate, which determines alpha and th.

    Args:
      num_local_steps: K; None: `local_steps`.
    """
    smoothness = self.smoothness
    if not isinstance(self.p, str):
      p = self.p
    elif smoothness:
      p = self.lambda_ / (smoothness + self.lambda_)
    else:
      p = 1 / max(num_local_steps or self.local_steps, 2)
    if smoothness:
      share = 0.5 / max(smoothness / (1 - p), self.lambda_ / p)  # alpha / N
      return Steps(p, share / (1 - p), share * self.lambda_ / p)
    share = self.learning_rate * (1 - p)
    # Above 1/2 the bound on alpha is violated for every L.
    return Steps(p, self.learning_rate, min(0.5, share * self.lambda_ / p))


@builders.checked
def build_l2gd(
    model: functional.FunctionalModel,
    hyperparameters: L2gdHyperparameters = L2gdHyperparameters(),
    *,
    num_local_steps: Optional[float] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds L2GD, loopless local gradient descent.

    F(x_1, ..., x_N) = (1/N) sum_i f_i(x_i)
                       + lambda / (2 N) sum_i ||x_i - xbar||^2

    iteration, one coin for all clients:
      with probability 1 - p, all i: x_i <- x_i - s g_i(x_i; b)
      with probability p    , all i: x_i <- x_i + th (xbar - x_i)

  See `L2gdHyperparameters.steps` for s and th. Averaging does not change xbar,
  so J consecutive averagings need one exchange: x_i moves towards xbar by the
  share 1 - (1 - th)^J. A round is H >= 1 local steps, after which its clients
  send x_i, and then J >= 1 averagings. Clients average when they receive xbar,
  that is, when they next take part or deploy: if all clients take part in every
  round, this is the iteration above. The theory does not cover cohorts: xbar is
  then the mean of the cohort, and absent clients move to the newest xbar.

  Server state: `weights` xbar; `pull`, the share of the last round; `iteration`
  and `local_steps`, the first coin of the coming round and its H. Client state:
  x_i, and whether it was ever trained; an untrained client deploys xbar. With
  lambda = 0 it is local training. Weights other than the paper's uniform ones
  weight the clients in both F and xbar.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `L2gdHyperparameters`.
    num_local_steps: See `L2gdHyperparameters.steps`.
    client_weighting: See `fedavg.build_fedavg`.
  """
  steps = hyperparameters.steps(num_local_steps)
  dtype = model.dtype

  def coming_round(seed, start):
    local_steps = count_coins(seed, start, steps.p, averaging=False)
    return collections.OrderedDict(iteration=start, local_steps=local_steps)

  def init(seed):
    # Averaging at the start changes nothing, because all models are equal.
    start = count_coins(seed, tf.constant(0), steps.p, averaging=True)
    return collections.OrderedDict(
        weights=model.initial_weights(seed), pull=tf.zeros([], dtype),
        **coming_round(seed, start),
    )

  def averagings(state):
    first = state['iteration'] + state['local_steps']
    return first, count_coins(state['seed'], first, steps.p, averaging=True)

  def finalize(state, mean_update):
    first, num = averagings(state)
    rate = local_step.scheduled(hyperparameters, state, steps.averaging)
    rate = tf.convert_to_tensor(rate, dtype_hint=dtype)
    return dict(
        weights=local_sgd.descend(state['weights'], mean_update, 1.0),
        # 1 - (1 - th)^J
        pull=1 - (1 - tf.cast(rate, dtype)) ** tf.cast(num, dtype),
        **coming_round(state['seed'], first + num),
    )

  def measure(state, aggregate):
    del aggregate  # Only the coins.
    return collections.OrderedDict(
        local_steps=tf.cast(state['local_steps'], tf.float32),
        averagings=tf.cast(averagings(state)[1], tf.float32),
    )

  return composition.compose(
      model,
      init=init,
      send=lambda state: {
          name: state[name] for name in ('weights', 'pull', 'local_steps')
      },
      work=build_l2gd_work(
          model, hyperparameters, steps.local, client_weighting
      ),
      aggregator=choice.chosen(hyperparameters),
      finalize=finalize,
      measure=measure,
      init_client=lambda seed: collections.OrderedDict(
          weights=model.initial_weights(seed), trained=tf.constant(False)
      ),
      deploy=lambda message, own, data: averaged(message, own),
      client_model=lambda state, own, index: averaged(state, own),
      tiers={'1': composition.Tier(model, lambda state: state['weights'])},
  )


def count_coins(
    seed: tf.Tensor, start: tf.Tensor, p: float, averaging: bool
) -> tf.Tensor:
  """Returns the number of equal coins in a row from `start` on, int32.

  Args:
    seed: The seed of the run.
    start: int32, the first iteration.
    p: Probability of averaging.
    averaging: The result of the counted coins.
  """
  return tf.while_loop(
      lambda count: tf.equal(is_averaging(seed, start + count, p), averaging),
      lambda count: (count + 1,), (tf.constant(0),),
  )[0]


def is_averaging(seed: tf.Tensor, iteration: tf.Tensor, p: float) -> tf.Tensor:
  """Returns whether the coin of an iteration says to average, bool."""
  # The key contains no client, because all share the coin.
  draw = tf.random.stateless_uniform(
      [], random.key(seed, _COIN_USE, iteration), dtype=tf.float64
  )
  return draw < p


def averaged(message: Mapping[str, Any], own: Any) -> Any:
  """Returns x_i after the averagings of the last round, or xbar.

  Args:
    message: Has `weights`, xbar, and `pull`, the share of the way to it.
    own: The client state.
  """
  # Written so that a share of 0 returns x_i bit-identically.
  return tf.nest.map_structure(
      lambda x, mean: tf.where(
          own['trained'], x + message['pull'] * (mean - x), mean
      ),
      own['weights'], message['weights'],
  )


def build_l2gd_work(
    model: functional.FunctionalModel,
    hyperparameters: L2gdHyperparameters,
    learning_rate: float,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: the pending averaging, then H local steps.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_l2gd`.
    learning_rate: eta of the local steps.
    client_weighting: See `build_l2gd`.
  """
  local = local_step.build(hyperparameters)

  def update(message, own, data):
    x, loss = local_sgd.train(
        model, averaged(message, own), data,
        learning_rate=local_step.scheduled(
            hyperparameters, message, learning_rate
        ),
        seed=client_work.key(message, data), local=local,
        num_steps=message['local_steps'],
        batch_size=hyperparameters.batch_size,
    )
    # A client without examples does not train and counts as absent.
    trained = data['num_examples'] > 0
    return client_work.ClientOutput(
        client_state=tf.nest.map_structure(
            lambda new, old: tf.where(trained, new, old),
            collections.OrderedDict(weights=x, trained=trained), own,
        ),
        update=local_sgd.difference(message['weights'], x),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


@methods.register(
    'l2gd', L2gdHyperparameters,
    summary='personal models, partly averaged at random (Hanzely 2020)',
    travels=methods.Travels(down=('weights', 'pull', 'local_steps')),
)
def _build(task, hyperparameters):
  num_steps = hyperparameters.local_steps
  if not num_steps:
    sizes = task.sizes
    per_epoch = client_data.batches_per_epoch(
        sizes, hyperparameters.batch_size
    )
    num_steps = float(np.mean(hyperparameters.local_epochs * per_epoch))
  return build_l2gd(
      task.model, hyperparameters, num_local_steps=num_steps,
      client_weighting=task.client_weighting,
  )
