"""What everybody in a run of visits knows: clients, devices, hyperparameters.
"""

import dataclasses
from typing import Any

import tensorflow_federated as tff

from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.data import client_data


@dataclasses.dataclass(frozen=True)
class Setting:
  """What stays the same in all rounds.

  Attributes:
    devices: The model, and what the clients' devices hold of it.
    hyperparameters: `ShufflingHyperparameters`, or those of PERM.
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
    """Whether rounds are matchings; else they are permutations."""
    return visit_schedule.uses_matching(
        self.hyperparameters, self.full_participation
    )
