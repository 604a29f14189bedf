"""FedRep: a shared representation under private heads.

Exploiting Shared Representations for Personalized Federated Learning
    Collins, Hassani, Mokhtari, Shakkottai. ICML 2021.
"""

import dataclasses
from typing import Any, Optional

import tensorflow as tf

from baselines import fedalt
from baselines import fedsim
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import partition


@dataclasses.dataclass(frozen=True)
class FedRepHyperparameters(fedalt.PhasesHyperparameters):
  """Hyperparameters of FedRep: FedAlt's, with other defaults."""

  private_epochs: int = hp.inherited(
      fedalt.PhasesHyperparameters, 'private_epochs', default=10
  )
  local_steps: int = hp.inherited(hp.LocalTraining, 'local_steps', default=0)
  local_epochs: int = hp.inherited(hp.LocalTraining, 'local_epochs', default=1)
  final_epochs: int = hp.inherited(fedsim.FedSimHyperparameters, 'final_epochs')
  orthonormal: bool = hp.field(
      False,
      'Whether the server orthonormalizes theta in every round, as the authors'
      ' do for linear representations; theta must be a single matrix.',
  )


@builders.checked
@builders.takes_statistics('averaged')
def build_fedrep(
    parts: partition.Partition,
    hyperparameters: FedRepHyperparameters = FedRepHyperparameters(),
    *,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedRep: FedAlt whose heads are trained to fit the representation.

    client i: a <- theta, w <- w_i
              many epochs: w <- w - eta_w grad_w f_i(a, w; b)
              few epochs : a <- a - eta   grad_a f_i(a, w; b)
              w_i <- w
    server  : theta <- theta - eta_g * sum_i q_i (theta - a_i) / sum_i q_i
              [orthonormal: theta <- Q, where theta = Q R]

  The authors train every head for ten more epochs after the last round
  (`final_epochs`); the default is 0 because the methods that it is compared
  with do not.

  Args:
    parts: The model and its split.
    hyperparameters: See `FedRepHyperparameters`; `split` is `parts` already.
    num_clients: See `fedsim.build_fedsim`.
    client_weighting: q_i, see `fedavg.build_fedavg`.

  Raises:
    ValueError: With `orthonormal`, if theta is not a single matrix.
  """
  if hyperparameters.orthonormal:
    _check_matrix(parts)
  return fedalt.build_fedalt(
      parts, hyperparameters, num_clients=num_clients,
      client_weighting=client_weighting,
      project=orthonormalize if hyperparameters.orthonormal else None,
  )


def _check_matrix(parts: partition.Partition) -> None:
  shapes = [tuple(leaf.shape) for leaf in parts.split(parts.model.spec)[0]]
  if [len(shape) for shape in shapes] != [2]:
    raise ValueError(
        '`orthonormal` must be false unless the global weights are one matrix,'
        f' a linear representation without bias, found the shapes {shapes} in'
        f' {parts.model.name}.'
    )


def orthonormalize(theta: Any) -> Any:
  """Returns theta, a tuple of one matrix, orthonormal along its longer side.

  The span of the columns (tall matrix) or rows (wide matrix) is preserved.
  """
  matrix = theta[0]
  is_wide = matrix.shape[0] < matrix.shape[1]
  q, r = tf.linalg.qr(tf.transpose(matrix) if is_wide else matrix)
  # Choose the signs that leave an orthonormal theta unchanged.
  signs = tf.where(tf.linalg.diag_part(r) < 0, -1.0, 1.0)
  q *= tf.cast(signs, q.dtype)
  return (tf.transpose(q) if is_wide else q,)


@methods.register(
    'fedrep', FedRepHyperparameters, needs=fedsim.NEEDS,
    summary='a shared representation under private heads (Collins 2021)',
)
def _build(task, hyperparameters):
  return build_fedrep(
      hyperparameters.partition(task.model), hyperparameters,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
