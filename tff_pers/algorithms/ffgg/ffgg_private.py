"""Private weights of a client of FFGG and Local FFGG.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025. Algorithm 2.
"""

from typing import Any, Mapping, Optional, Union

import numpy as np
import tensorflow as tf

from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.client_works import client_work
from tff_pers.client_works import fine_tuners
from tff_pers.models import partition

Hyperparameters = Union[
    ffgg_hp.FFGGHyperparameters, ffgg_hp.LocalFFGGHyperparameters
]
# Uses of the key of (seed, round, client); 0 is the main batch sequence.
FINE_TUNING = 1
_RANDOM_START = 2


class PrivateWeights:
  """Initializes and fine-tunes a client's private weights."""

  def __init__(
      self,
      parts: partition.Partition,
      hyperparameters: Hyperparameters,
      tuner: Optional[fine_tuners.FineTuner] = None,
  ):
    """Initializes.

    Args:
      parts: The model and its split.
      hyperparameters: Determine the start and the fine-tuning.
      tuner: Replaces the fine-tuner of the hyperparameters.

    Raises:
      ValueError: If all weights are private, so that nothing is shared, or if
        they should start at random but their initialization is deterministic.
    """
    if all(parts.is_private):
      raise ValueError(
          f'`split` must leave {parts.model.name} a global weight, found none.'
      )
    if hyperparameters.private_init == 'random':
      first, second = (parts.initial_weights(seed)[1] for seed in (0, 1))
      pairs = zip(tf.nest.flatten(first), tf.nest.flatten(second))
      if all(np.array_equal(a, b) for a, b in pairs):
        raise ValueError(
            '`private_init` must be initial or zeros because the private'
            f' weights of {parts.model.name} start alike for every seed,'
            ' found random.'
        )
    self._parts = parts
    self._hyperparameters = hyperparameters
    self._tuner = tuner or (
        hyperparameters.fine_tuner(parts) if any(parts.is_private) else None
    )

  def start(
      self, message: Mapping[str, Any], kept: Any, data: Mapping[str, Any]
  ) -> Any:
    """Returns the initial w of this participation."""
    how = self._hyperparameters.private_init
    if self._hyperparameters.stateful:
      return kept
    if how == 'random':
      # The key of round and client: a new draw at every participation.
      key = client_work.key(message, data, _RANDOM_START)
      return self._parts.split(self._parts.model.init(key))[1]
    own = initial(self._parts, message)
    if how == 'zeros':
      return tf.nest.map_structure(tf.zeros_like, own)
    return own

  def tune(
      self, message: Mapping[str, Any], kept: Any, data: Mapping[str, Any], *,
      use: int,
  ) -> Any:
    """Returns w ~ argmin_w f_m(theta, w) for the received theta.

    Args:
      message: The message from the server.
      kept: The client state.
      data: Dense client data.
      use: Number of the batch sequence, see `client_work.key`.
    """
    hyperparameters = self._hyperparameters
    return self._tuned(
        message, kept, data, use,
        learning_rate=hyperparameters.scheduled(
            message, hyperparameters.private_rate
        ),
        **hyperparameters.fine_tuning_budget(),
    )

  def tune_finally(
      self, message: Mapping[str, Any], kept: Any, data: Mapping[str, Any]
  ) -> Any:
    """Returns w after stage 3, with the batches of the coming round.

    Its steps ignore the schedule, which is for the rounds: the rate may have
    decayed to almost nothing.
    """
    hyperparameters = self._hyperparameters
    budget = hyperparameters.fine_tuning_budget()
    if hyperparameters.tuner in ('sgd', 'adam'):
      budget = hyperparameters.final_budget()
    return self._tuned(
        message, kept, data, FINE_TUNING,
        learning_rate=hyperparameters.private_rate, **budget,
    )

  def _tuned(self, message, kept, data, use, **options):
    own = self.start(message, kept, data)
    if self._tuner is None:  # No private weights.
      return own
    return self._tuner(
        self._parts.private_model(message['weights']), own, data,
        seed=client_work.key(message, data, use), **options,
    )

  def keep(self, kept: Any, own: Any) -> Any:
    """Returns the client's next state."""
    return own if self._hyperparameters.stateful else kept


def initial(
    parts: partition.Partition, state_or_message: Mapping[str, Any]
) -> Any:
  """Returns the private part of the initial or pre-trained weights."""
  if 'private' in state_or_message:
    return state_or_message['private']
  return parts.initial_weights(state_or_message['seed'])[1]
