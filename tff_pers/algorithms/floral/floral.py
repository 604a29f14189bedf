"""FLoRAL: a shared model, C low-rank adaptors, and a router per client.

Clients belong to a few unknown clusters. Client k uses the model base +
sum_c pi_c adaptor_c with pi = softmax(theta_k); base, adaptors and router are
trained jointly by local SGD. The base is averaged as in FedAvg, each adaptor
weighted by how much clients use it, and routers never leave their clients.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    Almansoori, Horvath, Takac. CPAL 2025. https://arxiv.org/abs/2410.03497
    Algorithm 1.
"""

import collections
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.aggregators import router as router_aggregation
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.algorithms.floral import floral_private
from tff_pers.algorithms.floral import floral_routers
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import mfl
from tff_pers.client_works import router_training
from tff_pers.client_works import tff_client_work
from tff_pers.composition import builders
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import task as task_lib
from tff_pers.models import adaptors
from tff_pers import tff


@builders.checked
def build_floral(
    adapted: adaptors.AdaptedModel,
    hyperparameters: floral_hp.FloralHyperparameters = (
        floral_hp.FloralHyperparameters()
    ),
    *,
    groups: Optional[np.ndarray] = None,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
    model_aggregator: Optional[
        tff.aggregators.WeightedAggregationFactory
    ] = None,
) -> process.PersonalizedProcess:
  """Builds FLoRAL (Algorithm 1).

    client k: u_k, a_kc <- u, a_c;  K times, with a minibatch b:
                pi = softmax(theta_k)
                loss = f_k(u_k + sum_c pi_c a_kc; b)
                [precondition the gradients of low-rank factors]
                theta_k <- theta_k - eta_router grad_theta loss
                u_k     <- u_k     - eta        grad_u     loss
                a_kc    <- a_kc    - eta_lora   grad_a_c   loss   for every c
              pi_k = softmax(theta_k) after the last step
    server  : u   <- sum_k n_k u_k / sum_k n_k
              a_c <- sum_k pi_kc n_k a_kc / sum_k pi_kc n_k       for every c

  All gradients of a step are taken at the same point, and all parts move in one
  step, clipped by their joint norm after preconditioning (see `local_step`).
  All three rates follow the schedule; routers do not decay. With
  `router_step=scale_free`, the default and our own, theta_k instead moves by an
  unclipped multiple of its gradient, or of that at the received adaptors where
  their mixture hurts (see `client_works.router_training`).

  Server state: `weights` <adaptors, base>, and `optimizer`, the states of their
  server optimizers under the same names. Client state: `router` theta_k,
  float[C], initially zero (uniform); empty for stateless clients, with
  router=oracle and with objective=mfl. Deploys the base's weights with the
  mixture folded in. `evaluate` returns `router` pi_k, float[C], beside the
  metrics.

  With `private_rank` > 0 (our own) clients keep one more adaptor, see
  `floral_private`.

  Limit cases: C = 0 is FedAvg; C = 1 is FedAvg with one shared adaptor.

  Args:
    adapted: The model with its adaptors, see `models.adaptors.floral`.
    hyperparameters: See `floral_hyperparameters`; those that describe the
      adaptors have no effect here.
    groups: int32[N], true clusters; needed with router=oracle.
    num_clients: N; a client of a larger index never trains, and learns its
      router when it is evaluated. None: every client may train.
    client_weighting: n_k, see `client_work.client_weight`.
    model_aggregator: Replaces `aggregators.RouterWeightedFactory`, e.g. with
      other inner sums; with `center` it must be built `with_shares`.

  Returns:
    A `PersonalizedProcess` with `parts`, for these N clients if `num_clients`
    or `groups` is given. The metrics of a round include `router_entropy`, the
    mean entropy of pi_k in nats.

  Raises:
    TypeError: If `adapted`, `hyperparameters` or `num_clients` has the wrong
      type.
    ValueError: If `num_clients` is below 1, or router=oracle has no groups, or
      more groups than adaptors, or objective=mfl no adaptors, or a frozen base
      an aggregator.
  """
  hyperparameters.check_aggregator(adapted)
  routers = floral_routers.chosen(
      adapted, hyperparameters, groups, num_clients
  )
  optimizers = hyperparameters.server_optimizers()

  def init(seed):
    weights = collections.OrderedDict(
        adaptors=adapted.initial_adaptors(seed),
        base=adapted.base.initial_weights(seed),
    )
    return collections.OrderedDict(
        weights=weights,
        optimizer=collections.OrderedDict(
            (part, optimizers[part].initialize(weights[part]))
            for part in weights
        ),
    )

  def finalize(state, mean):
    # `mean` is w minus the averages of the cohort, which TFF's optimizers use
    # as a gradient: with sgd and step 1, w becomes these averages.
    if hyperparameters.center and 'shares' not in mean:
      raise ValueError(
          '`model_aggregator` must be built with_shares with center=true, found'
          ' one without.'
      )
    new = {
        part: optimizers[part].next(
            state['optimizer'][part], state['weights'][part], mean[part]
        )
        for part in ('adaptors', 'base')
    }
    optimizer, weights = (
        collections.OrderedDict((part, new[part][i]) for part in new)
        for i in range(2)
    )
    # Last, at the synchronized weights; the shares are p(c) (Appendix E).
    if hyperparameters.center:
      weights = adapted.center(weights, mean['shares'])
    return dict(optimizer=optimizer, weights=weights)

  def merge(weights, mix):
    return adapted.effective(weights['base'], weights['adaptors'], mix)

  def deploy(message, client_state, data):
    pi, mix = routers.at_evaluation(message, client_state, data)
    return composition.Deployed(
        merge(message['weights'], mix), dict(router=pi)
    )

  def client_model(state, client_state, index):
    return merge(state['weights'], routers.without_data(client_state, index))

  pieces: dict[str, Any] = dict(
      init=init,
      send=lambda state: dict(weights=state['weights']),
      work=_build_work(adapted, routers, hyperparameters, client_weighting),
      finalize=finalize,
      init_client=lambda seed: routers.initial_state(),
      deploy=deploy,
      client_model=client_model,
  )
  if hyperparameters.private_rank:
    joint = floral_private.JointModel.of(adapted, hyperparameters.private_rank)
    pieces = floral_private.with_private(
        pieces, joint,
        _build_work(joint, routers, hyperparameters, client_weighting),
        hyperparameters, num_clients,
    )
  return composition.compose(
      adapted.base,
      aggregator=model_aggregator or router_aggregation.RouterWeightedFactory(
          base_factory=choice.chosen(hyperparameters),
          with_shares=hyperparameters.center,
      ),
      deployed=adapted.merged,
      **pieces,
  )


def build_floral_client_work(
    adapted: adaptors.AdaptedModel,
    hyperparameters: floral_hp.FloralHyperparameters = (
        floral_hp.FloralHyperparameters(router_state='stateless')
    ),
    *,
    client_weighting: str = 'examples',
    seed: int = 0,
) -> tff.learning.templates.ClientWorkProcess:
  """Returns stateless client work for `tff.learning.templates`.

  Its model weights are <adaptors, base>, its data sequences of batches; compose
  it with `aggregators.RouterWeightedFactory`.

  Args:
    adapted: See `build_floral`.
    hyperparameters: See `build_floral`; clients must be stateless.
    client_weighting: See `build_floral`.
    seed: See `tff_client_work.as_client_work_process`.

  Raises:
    ValueError: If routers are not learned, or clients are stateful.
  """
  router, objective = hyperparameters.router, hyperparameters.objective
  if (router, objective) != ('learned', 'fml'):
    # The oracle needs the client's index, which a sequence does not have; the
    # exponential router needs the data as a whole.
    raise ValueError(
        '`router` must be learned and `objective` fml in a client work of TFF,'
        f' found {router} and {objective}.'
    )
  if hyperparameters.router_state != 'stateless':
    raise ValueError(
        "`router_state` must be stateless, as TFF's client works are, found"
        f' {hyperparameters.router_state}.'
    )
  routers = floral_routers.chosen(adapted, hyperparameters)
  return tff_client_work.as_client_work_process(
      _build_work(adapted, routers, hyperparameters, client_weighting),
      adapted.mixed(np.zeros([adapted.num_adaptors])), seed,
  )


def _build_work(
    adapted, routers, hyperparameters, client_weighting
) -> client_work.ClientWork:
  """Returns the client work of Algorithm 1."""
  rates = router_training.Rates(
      base=hyperparameters.learning_rate,
      adaptors=hyperparameters.adaptor_rate(adapted),
      router=routers.learning_rate,
  )

  def local_steps(router, message, data):
    options = dict(
        rates=rates.scheduled(hyperparameters, message),
        seed=client_work.key(message, data),
        precondition=hyperparameters.precondition,
        local=local_step.build(hyperparameters), **hyperparameters.budget(),
    )
    if hyperparameters.objective == 'mfl':
      weights, loss = mfl.train(
          adapted, routers.probabilities(router), message['weights'], data,
          **options,
      )
      # Steps do not move the router of MFL: it is known, or computed from the
      # received weights.
      return router, weights, loss
    return router_training.train(
        adapted, router, message['weights'], data, mix=routers.mix,
        router_step=hyperparameters.router_step, **options,
    )

  def update(message, client_state, data):
    router = routers.at_start(message, client_state, data)
    router, weights, loss = local_steps(router, message, data)
    pi = routers.probabilities(router)  # After the last local step, no noise.
    n = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return client_work.ClientOutput(
        client_state=routers.keep(router),
        update=local_sgd.difference(message['weights'], weights),
        # n_k for the base, pi_kc n_k for adaptor c: the last two lines of
        # Algorithm 1.
        weight=router_aggregation.router_weight(n, pi),
        loss=loss,
        metrics=collections.OrderedDict(
            # xlogy, because 0 log 0 is 0 and the oracle's pi has zeros.
            router_entropy=-tf.reduce_sum(tf.math.xlogy(pi, pi))
        ),
    )

  return client_work.ClientWork(update)


@methods.register(
    'floral', floral_hp.FloralHyperparameters, revision=4,
    summary='a shared model and low-rank adaptors, mixed by learned routers',
)
def _build(task, hyperparameters):
  # Fewer adaptors than clusters cost accuracy, more of them bytes. One that
  # serves fewer than three clients learns little more than they would alone.
  if_unknown = min(8, max(2, task.num_clients // 3))
  adapted = hyperparameters.adapt(
      task.model, hyperparameters.num_adaptors
      or task_lib.num_clusters(task, if_unknown)
  )
  return build_floral(
      adapted, hyperparameters, groups=task.groups,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
