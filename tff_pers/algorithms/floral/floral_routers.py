"""Routers of FLoRAL's clients: three kinds with one interface.

Learned: logits trained by SGD, kept by the client or relearned in every round.
Exponential: a function of the models' losses (MFL). Oracle: the true cluster.
Within a round a router is float[C], either logits or (oracle) the weights pi;
`probabilities` converts it to pi.
"""

import collections
from typing import Any, Mapping, Optional

import numpy as np
import tensorflow as tf

from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.client_works import client_work
from tff_pers.client_works import mfl
from tff_pers.client_works import router_alone
from tff_pers.client_works import router_training
from tff_pers.models import adaptors


def chosen(
    adapted: adaptors.AdaptedModel,
    hyperparameters: floral_hp.FloralHyperparameters,
    groups: Any = None, num_clients: Optional[int] = None,
) -> Any:
  """Returns a `Learned`, an `Exponential` or an `Oracle`.

  Args:
    adapted: The model with its adaptors.
    hyperparameters: Determine the kind.
    groups: int32[N], see `Oracle`; None: unknown.
    num_clients: See `Learned`.

  Raises:
    ValueError: If objective=mfl has no adaptors, or an `Oracle` no groups.
  """
  if hyperparameters.router == 'oracle':
    return Oracle(adapted, hyperparameters, groups)
  if hyperparameters.objective == 'mfl':
    if not adapted.num_adaptors:
      raise ValueError(
          '`adapted` must have adaptors with objective=mfl, found 0 of them.'
      )
    return Exponential(adapted, hyperparameters)
  return Learned(adapted, hyperparameters, num_clients)


class Learned:
  """theta in R^C, pi = softmax(theta), initially uniform (Algorithm 1).

  A stateful client keeps theta; a stateless one learns it from zero in every
  round before the joint steps, with frozen adaptors, as does a client that
  never trains at evaluation.
  """

  def __init__(
      self, adapted: adaptors.AdaptedModel,
      hyperparameters: floral_hp.FloralHyperparameters,
      num_clients: Optional[int],
  ):
    """Initializes the router.

    Args:
      adapted: An `adaptors.AdaptedModel`.
      hyperparameters: A `floral_hyperparameters.FloralHyperparameters`.
      num_clients: Clients of index >= N never train. None: all may.
    """
    self._adapted, self._hp = adapted, hyperparameters
    self._zeros, self._num_clients = _zeros(adapted), num_clients
    self._stateful = hyperparameters.router_state == 'stateful'
    self.learning_rate = hyperparameters.router_learning_rate
    self.mix = router_training.build_softmax_mix(
        hyperparameters.router_noise, hyperparameters.min_mix_prob
    )
    # The bound also applies to deployed models, the exploration noise does not.
    self._deployed_mix = router_training.build_softmax_mix(
        minimum=hyperparameters.min_mix_prob
    )

  def initial_state(self) -> Any:
    """Returns the initial client state."""
    return self.keep(tf.constant(self._zeros))

  def keep(self, router: Any) -> Any:
    """Returns the client state after a round."""
    return collections.OrderedDict(router=router) if self._stateful else ()

  def at_start(
      self, message: Mapping[str, Any], client_state: Any,
      data: Mapping[str, Any],
  ) -> tf.Tensor:
    """Returns the router before the local steps of a round."""
    if self._stateful:
      return client_state['router']
    return self._learn(message, data, self._hp.router_warmup_steps)

  def probabilities(self, router: Any) -> tf.Tensor:
    """Returns pi, the averaging weights of adaptors: no noise, no bound."""
    return tf.nn.softmax(router)

  def at_evaluation(
      self, message: Mapping[str, Any], client_state: Any,
      data: Mapping[str, Any],
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns pi and the mix that the client deploys."""
    if self._stateful:
      never_trains = client_work.is_unseen(data['index'], self._num_clients)
      # Stored routers take 0 steps: only clients without one learn it here.
      learned = self._learn(
          message, data, tf.where(never_trains, self._hp.adapt_epochs, 0)
      )
      router = tf.where(never_trains, learned, client_state['router'])
    else:
      router = self._learn(message, data, self._hp.router_warmup_steps)
    return self.probabilities(router), self._deployed_mix(router, None)

  def without_data(self, client_state: Any, index: tf.Tensor) -> tf.Tensor:
    """Returns the mix that the client deploys without using its data."""
    del index  # The client state identifies it.
    router = client_state['router'] if self._stateful else self._zeros
    return self._deployed_mix(tf.convert_to_tensor(router), None)

  def _learn(self, message, data, num_steps):
    return _learn(
        self._adapted, self._hp, self._zeros, message, data, num_steps
    )


class Exponential:
  """pi_c ~ exp(-eta f(u, a_c)) at the weights received; clients keep nothing.

  The algorithm analysed in theory takes this step right after the server's.
  Here a client takes it when it next receives the weights, which are the same;
  only then can it compute its losses.
  """

  learning_rate = 0.0

  def __init__(
      self, adapted: adaptors.AdaptedModel,
      hyperparameters: floral_hp.FloralHyperparameters,
  ):
    self._adapted, self._zeros = adapted, _zeros(adapted)
    self._rate = hyperparameters.mfl_rate

  def initial_state(self) -> Any:
    """Returns the initial client state: empty."""
    return ()

  def keep(self, router: Any) -> Any:
    """Returns the client state after a round: empty."""
    del router  # It is a function of the weights.
    return ()

  def at_start(
      self, message: Mapping[str, Any], client_state: Any,
      data: Mapping[str, Any],
  ) -> tf.Tensor:
    """Returns the logits -eta f(u, a_c) at the received weights, float[C]."""
    del client_state  # Empty.
    return mfl.exponential_router(
        self._adapted, message['weights'], data, rate=self._rate
    )

  def probabilities(self, router: Any) -> tf.Tensor:
    """Returns pi of these logits, float[C]."""
    return tf.nn.softmax(router)

  def at_evaluation(
      self, message: Mapping[str, Any], client_state: Any,
      data: Mapping[str, Any],
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (pi, mix), both pi at the received weights, float[C]."""
    pi = self.probabilities(self.at_start(message, client_state, data))
    return pi, pi

  def without_data(self, client_state: Any, index: tf.Tensor) -> tf.Tensor:
    """Returns the uniform mix, float[C]."""
    del client_state, index  # Not needed.
    return self.probabilities(tf.constant(self._zeros))


class Oracle:
  """pi = 1 at the client's true cluster, exactly, and 0 elsewhere; frozen.

  A client without a known cluster (one that never trains) learns a router like
  a stateless client.
  """

  learning_rate = 0.0
  mix = staticmethod(router_training.known_mix)

  def __init__(
      self, adapted: adaptors.AdaptedModel,
      hyperparameters: floral_hp.FloralHyperparameters, groups: np.ndarray,
  ):
    """Initializes the router.

    Args:
      adapted: An `adaptors.AdaptedModel`.
      hyperparameters: A `floral_hyperparameters.FloralHyperparameters`.
      groups: int32[N], each in 0..C-1.

    Raises:
      ValueError: If `groups` is None or a cluster has no adaptor.
    """
    known = groups is not None and np.min(groups) >= 0
    if not known or np.max(groups) >= adapted.num_adaptors:
      raise ValueError(
          '`router` must be learned unless the cluster of every client is known'
          ' and has an adaptor, found oracle with'
          f' {adapted.num_adaptors} adaptors and'
          f' {np.max(groups) + 1 if known else "unknown"} clusters.'
      )
    self._adapted, self._hp = adapted, hyperparameters
    self._zeros, self._groups = _zeros(adapted), np.asarray(groups, np.int32)

  def initial_state(self) -> Any:
    """Returns the initial client state: empty."""
    return ()

  def keep(self, router: Any) -> Any:
    """Returns the client state after a round: empty."""
    del router  # It is known.
    return ()

  def at_start(
      self, message: Mapping[str, Any], client_state: Any,
      data: Mapping[str, Any],
  ) -> tf.Tensor:
    """Returns pi of the client's cluster, one-hot, float[C]."""
    del message, client_state  # Not needed.
    return self._known(data['index'])

  def probabilities(self, router: Any) -> tf.Tensor:
    """Returns pi unchanged."""
    return router

  def at_evaluation(
      self, message: Mapping[str, Any], client_state: Any,
      data: Mapping[str, Any],
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (pi, mix), both known, or learned by a client without cluster."""
    del client_state  # Empty.
    # Known clients take 0 steps, since `tf.where` computes both branches.
    is_unseen = client_work.is_unseen(data['index'], len(self._groups))
    learned = _learn(
        self._adapted, self._hp, self._zeros, message, data,
        tf.where(is_unseen, self._hp.adapt_epochs, 0),
    )
    pi = tf.where(
        is_unseen, tf.nn.softmax(learned), self._known(data['index'])
    )
    return pi, pi

  def without_data(self, client_state: Any, index: tf.Tensor) -> tf.Tensor:
    """Returns the known mix, float[C]."""
    del client_state  # Empty.
    return self._known(index)

  def _known(self, index):
    return router_training.oracle_mix(
        self._groups, index, len(self._zeros), self._zeros.dtype
    )


def _learn(adapted, hyperparameters, zeros, message, data, num_steps):
  """Returns logits learned from zero in full-batch steps, float[C]."""
  return router_alone.learn_router(
      adapted, tf.constant(zeros), message['weights'], data,
      num_steps=num_steps, router_step=hyperparameters.router_step,
      learning_rate=hyperparameters.router_warmup_learning_rate,
  )


def _zeros(adapted) -> np.ndarray:
  """Returns the logits of the uniform router, float[C]."""
  dtype = adapted.base.dtype
  return np.zeros([adapted.num_adaptors], dtype.as_numpy_dtype)
