"""Distances between deployed models and an optimum that the task knows."""

from typing import Any, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.core import process as process_lib
from tff_pers import tff


def is_comparable(
    process: process_lib.PersonalizedProcess, optimum: Any
) -> bool:
  """Returns whether clients deploy weights of the form of `optimum`.

  That is `Task.optimum`, or None. A method that deploys anything but weights of
  the task's model, for example an ensemble, has no distance.
  """
  if optimum is None:
    return False
  specs = tf.nest.flatten(process.deployed.spec)
  known = tf.nest.flatten(optimum)
  return len(specs) == len(known) and all(
      leaf is None or leaf.shape[1:] == tuple(spec.shape)
      for leaf, spec in zip(known, specs)
  )


class Distances:
  """The distances ||w_i - w_i*|| of clients, all leaves of w_i together.

  w_i is what client i deploys before it adapts to its data (`client_model`),
  w_i* its row of `Task.optimum`. Leaves that are None in the optimum are
  ignored. Norms are computed in float64, whatever the model's dtype.
  """

  def __init__(self, process: process_lib.PersonalizedProcess, optimum: Any):
    """Builds the computation; `is_comparable` must hold."""
    leaves = tf.nest.flatten(optimum)
    self._known = [i for i, leaf in enumerate(leaves) if leaf is not None]
    self._optimum = [np.asarray(leaves[i], np.float64) for i in self._known]
    self._compute = self._build(process)

  def __call__(self, state, client_states, clients: Sequence[int]):
    """Returns the distances of n clients with these states, float64[n]."""
    rows = [tuple(leaf[c] for leaf in self._optimum) for c in clients]
    return np.array(
        self._compute(state, client_states, list(clients), rows), np.float64
    )

  def _build(self, process) -> tff.Computation:
    weights_type = process.client_model.type_signature.result
    row_type = tff.to_type(
        tuple((np.float64, leaf.shape[1:]) for leaf in self._optimum)
    )

    @tff.tensorflow.computation(weights_type, row_type)
    def distance(weights, optimum):
      leaves = tf.nest.flatten(weights)
      return tf.linalg.global_norm([
          tf.cast(leaves[i], tf.float64) - best
          for i, best in zip(self._known, tf.nest.flatten(optimum))
      ])

    @tff.federated_computation(
        tff.FederatedType(process.server_state_type, tff.SERVER),
        tff.FederatedType(process.client_state_type, tff.CLIENTS),
        tff.FederatedType(np.int32, tff.CLIENTS),
        tff.FederatedType(row_type, tff.CLIENTS),
    )
    def distances(state, client_states, indices, optimum):
      weights = tff.federated_map(
          process.client_model,
          (tff.federated_broadcast(state), client_states, indices),
      )
      return tff.federated_map(distance, (weights, optimum))

    return distances
