"""FedHM: devices of different capacity train low-rank forms of one model.

The server has one full-rank model. In each round it factorizes the kernels of
the later layers once, and every client gets the model of its tier: these
kernels truncated to the tier's rank, as two thin layers. The server averages
the products of the factors that clients return.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021.
    https://arxiv.org/abs/2111.14655
    Algorithm 1.
"""

import collections
import math
from typing import Any, Callable, Sequence

import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.aggregators import low_rank
from tff_pers.algorithms.fedhm import fedhm_hyperparameters as fedhm_hp
from tff_pers.client_works import client_work
from tff_pers.client_works import frobenius_decay
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import masked
from tff_pers.models import tiered_model

# Takes the place of a client in the key: separates this draw from theirs.
_DIRECTIONS_USE = -9


@builders.checked
def build_fedhm(
    tiered: tiered_model.TieredModel,
    assign: tier_assignment.Assign,
    hyperparameters: fedhm_hp.FedHMHyperparameters = (
        fedhm_hp.FedHMHyperparameters()
    ),
    *,
    tau: float = math.inf,
    client_weighting: str = 'uniform',
) -> process.PersonalizedProcess:
  """Builds FedHM (Algorithm 1).

    server  : U, S, V^T = svd(unroll(W_l)) for every factorised layer l
    client p: w_p = the first layers of W, and for the others
                A_l, B_l = U_r sqrt(S_r), sqrt(S_r) V_r^T, r = round(gamma_p n)
                           (gamma_p = 1: W_l itself; where S is 0, a random
                           unit vector in A_l and 0 in B_l, ours)
              K times, with a minibatch b:
                g_p   = grad f_p(w_p; b) + grad (lambda/2) sum_l ||A_l B_l||_F^2
                        + weight_decay * (unfactorized weights)
                w_p   = w_p - eta g_p, with momentum from 0 in every round
    server  : alpha_p = exp(gamma_p/tau) / sum_q exp(gamma_q/tau), q in cohort
              W_l = sum_p alpha_p A_lp B_lp,  other layers: sum_p alpha_p W_lp

  Server state: `weights` W and `factors`, see `TieredModel`; the factors are
  computed once per round and stored, so that all computations can use them.
  Clients are stateless. A client deploys, and `evaluate` evaluates, the model
  of its tier, padded to one type for all tiers; `evaluate_global` evaluates the
  truncations of W by tier, named by their ratios.

  Limit case: with all ratios 1 and equal weights it is FedAvg of unweighted
  clients. Without local training it is not the identity: a singular direction
  is scaled by the share of the clients whose rank includes it.
  `energy_top_rmin`, a metric of the round, is the share of the energy of the
  initial weights in the directions that all tiers include.

  Args:
    tiered: The models of the tiers.
    assign: The tier of a client, see `data.tiers.assign`.
    hyperparameters: See `FedHMHyperparameters`; `tiers`, `full_rank` and
      `rank_base` are in `tiered`, `tau` is an argument.
    tau: > 0; infinity: equal weights.
    client_weighting: A factor on the weights, see `client_work.client_weight`;
      the paper has none.

  Returns:
    A `PersonalizedProcess` with `parts`, `tiers` and `evaluate_global`. Its
    `bytes_down` and `bytes_up` count the model of the client's tier.

  Raises:
    TypeError: If `hyperparameters` have the wrong type.
    ValueError: If the loss is masked and the model has no logit per class.
  """
  head: tuple[int, ...] = ()
  if hyperparameters.masked_loss:
    head = masked.head(tiered.base)

  def whole(weights, seed, round_num):
    key = random.key(seed, round_num, _DIRECTIONS_USE)
    return collections.OrderedDict(
        factors=tiered.decompose(weights, key), weights=weights
    )

  def finalize(state, mean):
    weights = mean['weights']
    if head:
      weights = masked.keep_unowned(
          head, mean['owned'], weights, state['weights']
      )
    return whole(weights, state['seed'], state['round'] + 1)

  def of_client(fields, index):
    tier = assign(fields['seed'], fields['round'], index)
    return tiered.switch(tier, lambda k: tiered.pack(tiered.cut(fields, k), k))

  def of_tier(k: int) -> Callable[[Any], Any]:
    return lambda state: tiered.cut(state, k)

  return composition.compose(
      tiered.base,
      init=lambda seed: whole(tiered.base.initial_weights(seed), seed, 0),
      send=lambda state: dict(
          factors=state['factors'], weights=state['weights']
      ),
      work=_build_work(
          tiered, assign, hyperparameters, tau, client_weighting, head
      ),
      aggregator=low_rank.LowRankMeanFactory(
          choice.chosen(hyperparameters), head=head
      ),
      finalize=finalize,
      deploy=lambda message, own, data: of_client(message, data['index']),
      client_model=lambda state, own, index: of_client(state, index),
      deployed=tiered.deployed,
      measure=_measure(tiered),
      tiers={
          f'{ratio:g}': composition.Tier(
              tiered.tiers[k].model, of_tier(k)
          )
          for k, ratio in enumerate(tiered.ratios)
      },
  )


def tier_weights(ratios: Sequence[float], tau: float) -> list[float]:
  """Returns exp(gamma / tau) for every tier, up to a common factor.

  A weighted mean normalizes them over the cohort, which gives a softmax over
  the participating clients.

  Args:
    ratios: gamma, the rank ratios.
    tau: Temperature > 0; infinity: all weights are 1.
  """
  # Subtract the largest ratio, because exp(1 / tau) may overflow float32.
  return [math.exp((ratio - max(ratios)) / tau) for ratio in ratios]


def _build_work(
    tiered, assign, hyperparameters, tau, client_weighting, head
) -> client_work.ClientWork:
  """Returns the client work of Algorithm 1."""
  weights = tier_weights(tiered.ratios, tau)
  # A real deployment would send only the tier's model, both ways.
  size = tiered.base.dtype.size
  sizes = [float(size * tier.num_parameters) for tier in tiered.tiers]

  def update(message, client_state, data):
    tier = assign(message['seed'], message['round'], data['index'])
    owned = masked.owned(tiered.base, head, data) if head else None

    def train(k):
      model = tiered.tiers[k].model
      final, loss = local_sgd.train(
          model if owned is None else masked.masked(model, owned),
          tiered.cut(message, k), data,
          learning_rate=local_step.scheduled(
              hyperparameters, message, hyperparameters.learning_rate
          ),
          seed=client_work.key(message, data),
          local=frobenius_decay.build(hyperparameters),
          **hyperparameters.budget(),
      )
      return tiered.pack(final, k), loss

    sent, loss = tiered.switch(tier, train)
    if head:
      sent = collections.OrderedDict(sent, owned=owned)
    num_bytes = tf.gather(tf.constant(sizes), tier)
    return client_work.ClientOutput(
        client_state=client_state,
        update=sent,
        weight=tf.gather(tf.constant(weights), tier)
        * client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
        bytes_down=num_bytes,
        bytes_up=num_bytes,
    )

  return client_work.ClientWork(update)


def _measure(tiered):
  """Returns the measurements of a round; empty without factors."""
  if not tiered.least_ranks:
    return None
  return lambda state, mean: collections.OrderedDict(
      energy_top_rmin=tiered.energy(state)
  )


@methods.register(
    'fedhm', fedhm_hp.FedHMHyperparameters, needs=('kernel',),
    summary='low-rank models for devices of different capacity (Yao 2021)',
    travels=methods.Travels(
        down=('factors', 'weights'), up=('factors', 'weights')
    ),
)
def _build(task, hyperparameters):
  tiered = hyperparameters.tiered(task.model, task.rank_ratios)
  assign = tier_assignment.assign(
      task.num_clients, len(tiered.ratios), assignment=task.tier_assignment,
      given=task.tiers,
  )
  return build_fedhm(
      tiered, assign, hyperparameters,
      tau=hyperparameters.temperature(task.tier_assignment),
      client_weighting=task.client_weighting,
  )
