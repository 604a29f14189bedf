"""Local update methods: one family from mini-batch SGD to FOMAML.

    client i: x_1 = x;  k = 1, ..., K(Theta):
                g_k     = grad f_i(x_k; b_k) + alpha (x_k - x)
                x_{k+1} = x_k - gamma g_k
              q_i = sum_k theta_k g_k
    server  : q = mean of the q_i;  x <- ServerOpt(x, q), which uses q as a
              gradient, e.g. x <- x - eta q

Theta_1:K is (1, ..., 1), Theta_K is (0, ..., 0, 1):

    FedSGD         Theta_1:K  gamma = 0
    FedAvg         Theta_1:K  gamma > 0, eta = gamma
    FedProx        Theta_1:K  gamma > 0, alpha > 0
    FOMAML         Theta_K    gamma > 0, K - 1 steps of adaptation

On quadratics each is gradient descent on a surrogate of the loss: gamma, alpha
and Theta decide where it converges, the server optimizer only how fast.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Charles, Konecny. AISTATS 2021. https://arxiv.org/abs/2103.05032
"""

import collections
from typing import Any, Callable, Optional, Sequence, Union

import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.aggregators import dispersion
from tff_pers.algorithms.local_update import (
    local_update_hyperparameters as lu_hp,
)
from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.client_works import local_update
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers import number_inputs
from tff_pers import tff

# eta, or `S -> eta`, e.g. of a schedule.
Rate = Union[float, Callable[[Any], Any]]


@builders.checked
def build_local_update(
    model: functional.FunctionalModel,
    *,
    theta: Sequence[float],
    gamma: float,
    alpha: float = 0.0,
    eta: Optional[float] = None,
    server_optimizer: Optional[tff.learning.optimizers.Optimizer] = None,
    batch_size: int = 20,
    independent: bool = False,
    client_weighting: str = 'examples',
    model_aggregator: Optional[composition.Aggregator] = None,
) -> process.PersonalizedProcess:
  """Builds the method of the family with these parameters.

    client i: x_1 = x;  k = 1, ..., K(Theta):
                g_k     = grad f_i(x_k; b_k) + alpha (x_k - x)
                x_{k+1} = x_k - gamma g_k
              q_i = sum_k theta_k g_k
    server  : q = mean of the q_i;  x <- x - eta q, or a server optimizer's step

  Server state: `weights` x, and `optimizer` if there is one. Clients are
  stateless. For the parameters of FedSGD, FedAvg, FedProx and FOMAML see the
  module.

  Every client takes exactly K(Theta) gradients, however many examples it has.
  It sends their sum, not the mean: the more gradients, the smaller eta must be.
  With Theta_1:K, eta = gamma is FedAvg.

  Args:
    model: The model; f_i is its mean loss on client i.
    theta: Weights of the gradients, >= 0, one of them > 0.
    gamma: Step size of the clients, >= 0; 0 takes all gradients at x.
    alpha: Strength of the proximal term alpha / 2 ||x_k - x||^2, >= 0.
    eta: Step size of the server in x <- x - eta q; None: gamma.
    server_optimizer: Replaces this step; it has its own step size.
    batch_size: Examples per minibatch.
    independent: Whether minibatches are drawn independently, as in the theory,
      see `fold_batches`.
    client_weighting: Weights p_i of the mean, see `client_work.client_weight`:
      `examples` as in FedAvg; Algorithm 1 has `uniform`.
    model_aggregator: See `compose`.

  Returns:
    A `PersonalizedProcess` with `parts` and the metrics of `compose`. A client
    deploys x, weights of `model`, without adaptation.

  Raises:
    TypeError: If `model` is not a functional model of this library.
    ValueError: If `theta`, `gamma` or `alpha` is out of range, if both `eta`
      and an optimizer are given, or if eta would be 0.
  """
  if server_optimizer is None:
    eta = gamma if eta is None else eta
    if not number_inputs.plain(eta) > 0:
      raise ValueError(
          f'`eta` must be > 0, found {eta}. Tip: with gamma=0 it must be given,'
          ' because it cannot be gamma.'
      )
  work = local_update.build_local_update(
      model, gamma=gamma, theta=theta, alpha=alpha, batch_size=batch_size,
      independent=independent, client_weighting=client_weighting,
  )
  return compose(
      model, work, eta=eta, server_optimizer=server_optimizer,
      model_aggregator=model_aggregator,
  )


def compose(
    model: functional.FunctionalModel,
    work: client_work.ClientWork,
    *,
    eta: Optional[Rate] = None,
    server_optimizer: Optional[tff.learning.optimizers.Optimizer] = None,
    deploy: Optional[Callable[..., Any]] = None,
    model_aggregator: Optional[composition.Aggregator] = None,
) -> process.PersonalizedProcess:
  """Composes clients that send gradients with the server of the family.

  Server state: `weights` x, and `optimizer` if there is one. Clients are
  stateless. Metrics of a round: `drift`, the mean distance that clients moved,
  ||x_{K+1} - x||; `pseudo_gradient_norm`, ||q||; and `aggregator/dispersion`,
  the mean of ||q_i - q||^2, unless `model_aggregator` measures other things.

  Args:
    model: The model that is trained and deployed.
    work: The client work; its update is q_i.
    eta: Step size of the server's plain step.
    server_optimizer: Replaces the plain step; exactly one of them is given.
    deploy: `(message, C, D) -> weights`, what a client deploys after adapting
      to its training data. None: x.
    model_aggregator: Replaces the weighted mean, e.g. by a robust rule.

  Raises:
    ValueError: If not exactly one of `eta` and an optimizer is given.
  """
  if (eta is None) == (server_optimizer is None):
    raise ValueError(
        'Exactly one of `eta` and `server_optimizer` must be given, because the'
        f' optimizer has its own rate, found eta={eta} and'
        f' server_optimizer={server_optimizer}.'
    )

  def init(seed):
    x = model.initial_weights(seed)
    fields = collections.OrderedDict(weights=x)
    if server_optimizer is not None:
      fields['optimizer'] = server_optimizer.initialize(
          tf.nest.map_structure(lambda w: tf.TensorSpec(w.shape, w.dtype), x)
      )
    return fields

  def finalize(state, q):
    x = state['weights']
    if server_optimizer is None:
      rate = eta(state) if callable(eta) else eta
      return dict(weights=local_step.descend(x, q, rate, model.statistics))
    optimizer, moved = server_optimizer.next(state['optimizer'], x, q)
    return dict(
        optimizer=optimizer,
        weights=local_step.averaged_statistics(moved, x, q, model.statistics),
    )

  return composition.compose(
      model,
      init=init,
      send=lambda state: dict(weights=state['weights']),
      work=work,
      aggregator=model_aggregator or dispersion.DispersionFactory(),
      finalize=finalize,
      deploy=deploy or (lambda message, own, data: message['weights']),
      client_model=lambda state, own, index: state['weights'],
      measure=lambda state, q: dict(
          pseudo_gradient_norm=tf.linalg.global_norm(tf.nest.flatten(q))
      ),
      tiers={'1': composition.Tier(model, lambda state: state['weights'])},
  )


def compose_averaging(
    model: functional.FunctionalModel,
    hyperparameters: hp.AveragedTraining,
    *,
    outer: Rate,
    client_weighting: str,
    deploy: Optional[Callable[..., Any]] = None,
) -> process.PersonalizedProcess:
  """Composes methods that move towards the mean of the clients' models.

    server  : x <- x - outer * mean_i (x - x_{i,K+1})

  That is Theta_1:K, alpha = 0 and eta = outer * gamma, with local steps as in
  `hyperparameters`: the step size gamma and its schedule, number of steps,
  momentum, weight decay and clipping.

  Args:
    model: The model.
    hyperparameters: Of the local steps; they also name the aggregator.
    outer: The outer step; 1 is FedAvg.
    client_weighting: Weights of the mean, see `client_work.client_weight`.
    deploy: See `compose`.
  """

  def gamma(message):
    return local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )

  def eta(state):
    return (outer(state) if callable(outer) else outer) * gamma(state)

  work = local_update.build_local_update(
      model, gamma=gamma, local=local_step.build(hyperparameters),
      client_weighting=client_weighting, **hyperparameters.budget(),
  )
  return compose(
      model, work, eta=eta, deploy=deploy,
      model_aggregator=choice.chosen(hyperparameters),
  )


@methods.register(
    'local_update', lu_hp.LocalUpdateHyperparameters, revision=2,
    summary='any member of the family of local update methods (Charles 2021)',
)
def _build(task, hyperparameters):
  optimizer = hyperparameters.build_server_optimizer(task.model.dtype)
  return build_local_update(
      task.model, theta=hyperparameters.weights(),
      gamma=hyperparameters.gamma, alpha=hyperparameters.alpha,
      eta=None if optimizer else hyperparameters.eta,
      server_optimizer=optimizer, batch_size=hyperparameters.batch_size,
      independent=hyperparameters.batches == 'independent',
      client_weighting=task.client_weighting,
      model_aggregator=choice.chosen(hyperparameters),
  )
