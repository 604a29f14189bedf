"""Constants of a run of PERM, and which round does what."""

import dataclasses
from typing import Any, Optional

import tensorflow as tf

from tff_pers.algorithms.perm import perm_devices
from tff_pers.data import client_data
from tff_pers import tff

# A dense table of all pairs of this many clients takes 4 MB; it grows
# quadratically.
_DENSE = 1000
_KEPT_OF_MANY = 100


@dataclasses.dataclass(frozen=True)
class Setting:
  """Constants of a run with visits, known to server and clients.

  Attributes:
    devices: The model, and its parts on the clients' devices.
    hyperparameters: `ShufflingHyperparameters`.
    num_clients: N.
    full_participation: Whether every round has all clients.
  """

  devices: perm_devices.Devices
  hyperparameters: Any
  num_clients: int
  full_participation: bool = True

  @property
  def data_type(self) -> tff.Type:
    """D, the type of dense client data."""
    model = self.devices.model
    return client_data.client_data_type(model.x_spec, model.y_spec)

  @property
  def is_matched(self) -> bool:
    """Whether rounds are matchings, not permutations."""
    return self.hyperparameters.uses_matching(self.full_participation)


@dataclasses.dataclass(frozen=True)
class PermSetting(Setting):
  """Constants of a run of PERM: when w moves, and when A is updated.

  Attributes:
    client_weighting: Weights of the mean gradient for w.
    num_visits: Visits of a model in the run; None: unknown.
  """

  client_weighting: str = 'examples'
  num_visits: Optional[float] = None

  @property
  def num_models(self) -> int:
    """C, or N with a model for each client."""
    return self.hyperparameters.models or self.num_clients

  @property
  def kept_per_row(self) -> int:
    """Number of mixing weights kept per row; 0: all, as a dense table."""
    values = self.hyperparameters
    is_dense = values.models or values.solver != 'water_filling'
    if is_dense or self.num_clients <= _DENSE:
      return values.row_nonzeros
    return values.row_nonzeros or _KEPT_OF_MANY

  def moves_w(self, t: tf.Tensor) -> tf.Tensor:
    """Returns whether w moves in round t.

    In rounds of cohorts w is fixed from the first visit on, so that gradients
    of all rounds can be compared.
    """
    hyperparameters = self.hyperparameters
    first = hyperparameters.first_visit
    if hyperparameters.variant == 'two_stage' or not self.full_participation:
      return t < first
    if hyperparameters.alpha_update == 'round':
      return tf.constant(True)
    is_start_of_epoch = tf.equal((t - first) % self.num_clients, 0)
    return tf.logical_or(t < first, is_start_of_epoch)

  @property
  def ever_trains_w(self) -> bool:
    """Whether there are rounds in which w moves by FedAvg."""
    by_gradient = self.hyperparameters.warmup == 'gradient'
    return not by_gradient and self.hyperparameters.first_visit > 0

  def trains_w(self, t: tf.Tensor) -> tf.Tensor:
    """Returns whether w moves by FedAvg in round t, if it moves."""
    if not self.ever_trains_w:
      return tf.constant(False)
    return t < self.hyperparameters.first_visit

  def updates_mixing(self, t: tf.Tensor) -> tf.Tensor:
    """Returns whether A is updated in round t from the gradients at w."""
    hyperparameters = self.hyperparameters
    updates = t >= hyperparameters.first_mixing_update
    if self.full_participation:
      if hyperparameters.variant == 'two_stage':
        updates = tf.equal(t, hyperparameters.first_visit)
      else:
        updates = tf.logical_and(updates, self.moves_w(t))
    if hyperparameters.freeze_after:
      updates = tf.logical_and(updates, t < hyperparameters.freeze_after)
    return updates

  def comparable_since(self, t: tf.Tensor) -> tf.Tensor:
    """Returns the first round whose gradients are at the w of round t."""
    if self.full_participation:
      return t
    return tf.minimum(t, self.hyperparameters.first_visit)
