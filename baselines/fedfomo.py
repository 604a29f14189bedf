"""FedFomo: clients weight others' models by their loss on own data.

Personalized Federated Learning with First Order Model Optimization
    Zhang, Sapra, Fidler, Yeung, Alvarez. ICLR 2021.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from baselines import client_models
from tff_pers.client_works import client_work
from tff_pers.client_works import example_losses
from tff_pers.client_works import held_out
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.models import functional
from tff_pers.numerics import distances

_HELD_OUT = 0.2
_SPLIT_USE, _CHOICE_USE = -10, -11  # Separate these draws from others.


@dataclasses.dataclass(frozen=True)
class FedFomoHyperparameters(hp.LocalTraining):
  """Hyperparameters of FedFomo."""

  num_models: int = hp.field(
      5, 'Number M of other models that a client receives; at most N - 1.',
      minimum=1, search=hp.Between(2, 10),
  )


@builders.checked
def build_fedfomo(
    model: functional.FunctionalModel,
    num_clients: int,
    hyperparameters: FedFomoHyperparameters = FedFomoHyperparameters(),
) -> process.PersonalizedProcess:
  """Builds FedFomo.

    server  : sends client i the theta_n of M others: with probability
              max(0, .3 - .05 t) any, else those of the largest P[i, n]
    client i: w_n = (L_i(theta_i) - L_i(theta_n)) / ||theta_n - theta_i||
              v_n = max(w_n, 0) / sum_n max(w_n, 0), or 0 if none is positive
              theta_i <- theta_i + sum_n v_n (theta_n - theta_i)
              K times: theta_i <- theta_i - eta g_i(theta_i; b)
    server  : P[i, n] <- P[i, n] + w_n, t <- t + 1
    deploy  : theta_i

  L_i is the mean loss on a fifth of i's examples, the same in all rounds, on
  which it never trains. w_n = 0 if the models are equal, nothing is held out,
  or a loss is not finite. Ties between equal P[i, n] are broken at random.

  Server state: `models` [N, ...], `preferences` P [N, N], at first 0. Client
  state: theta_i, at first w^0.

  Args:
    model: The model; f_i is its mean loss on what client i does not hold out.
    num_clients: N.
    hyperparameters: See `FedFomoHyperparameters`.
  """
  values = hyperparameters
  # A single client receives its own model, from which nothing is learned.
  num_models = max(1, min(values.num_models, num_clients - 1))

  def prepare(state, cohort):
    chosen = tf.map_fn(lambda i: choose(state, i, num_models), cohort)
    return dict(models=state['models'], chosen=chosen)

  def select(value, place):
    chosen = value['chosen'][place]
    return dict(models=client_models.of(value, chosen), chosen=chosen)

  def train(message, theta, data):
    key = random.key(message['seed'], _SPLIT_USE, data['index'])
    kept, validation = held_out.split(data, _HELD_OUT, key)
    w = preference(model, theta, message['models'], validation)
    positive = tf.maximum(w, 0)
    v = tf.math.divide_no_nan(positive, tf.reduce_sum(positive))
    away = local_sgd.difference(theta, message['models'])
    theta = local_sgd.difference(theta, client_models.combined(v, away))
    rate = local_step.scheduled(values, message, values.learning_rate)
    theta, loss = local_sgd.train(
        model, theta, kept, learning_rate=rate, local=local_step.build(values),
        seed=client_work.key(message, data), **values.budget(),
    )
    return theta, dict(chosen=message['chosen'], preferences=w), loss

  def record(state, keys, sent):
    owners = tf.repeat(keys[:, None], num_models, axis=1)
    return dict(preferences=tf.tensor_scatter_nd_add(
        state['preferences'], tf.stack([owners, sent['chosen']], axis=-1),
        sent['preferences'],
    ))

  return client_models.build_client_models(
      model, num_clients, train, prepare=prepare, select=select, record=record,
      init=lambda w: dict(preferences=tf.zeros([num_clients] * 2, model.dtype)),
  )


def choose(state: Any, i: tf.Tensor, num_models: int) -> tf.Tensor:
  """Returns the clients whose models client i receives, int32[M].

  Args:
    state: Has `preferences`, `round` and `seed`.
    i: int32 scalar.
    num_models: M.
  """
  p, t = state['preferences'][i], state['round']
  key = random.key(state['seed'], _CHOICE_USE, t, i)
  order = tf.argsort(tf.random.stateless_uniform(p.shape, key))
  epsilon = 0.3 - 0.05 * tf.cast(t, tf.float32)
  explores = tf.random.stateless_uniform([], random.fold_in(key, 1)) < epsilon
  worth = tf.where(explores, tf.zeros_like(p), p)
  worth = tf.where(tf.equal(tf.range(p.shape[0]), i), p.dtype.min, worth)
  # In random order, because the first of equal ones is taken.
  return tf.gather(order, tf.math.top_k(tf.gather(worth, order), num_models)[1])


def preference(
    model: functional.FunctionalModel, theta: Any, models: Any, data: Any
) -> tf.Tensor:
  """Returns the w_n of a table of M models on dense data, floats [M]."""
  both = tf.nest.map_structure(
      lambda table, own: tf.concat([table, own[None]], axis=0), models, theta
  )
  steps = distances.flatten_rows(local_sgd.difference(models, theta))
  *others, own = tf.unstack(example_losses.mean_loss(
      model, data,
      example_losses.compute(model, both, steps.shape[0] + 1, data),
  ))
  w = tf.math.divide_no_nan(own - tf.stack(others), tf.norm(steps, axis=1))
  return tf.where(tf.math.is_finite(w), w, tf.zeros_like(w))


@methods.register(
    'fedfomo', FedFomoHyperparameters, needs=('examples',), travels=None,
    weighs_clients=False,
    summary='mixes in the models that do well on own data (Zhang 2021)',
)
def _build(task, hyperparameters):
  return build_fedfomo(task.model, task.num_clients, hyperparameters)
