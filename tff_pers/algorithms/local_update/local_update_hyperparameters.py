"""Hyperparameters of the family of local update methods."""

import dataclasses
from typing import Any, Optional

import tensorflow as tf

from tff_pers.composition import server_optimizers
from tff_pers.config import hyperparameters as hp
from tff_pers.numerics import thetas
from tff_pers import tff

_NAMED: dict[str, Any] = {
    'sum': thetas.FirstGradients, 'last': thetas.LastGradient,
}


@dataclasses.dataclass(frozen=True)
class LocalUpdateHyperparameters(hp.Aggregation, hp.Hyperparameters):
  """Hyperparameters of a member of the family."""

  theta: str = hp.field(
      'sum',
      'Weights of the gradients of a client: sum (1, ..., 1), last (0, ..., 0,'
      ' 1), or a list of weights separated by colons, such as 0:0.5:1.',
  )
  num_steps: int = hp.field(
      20, 'Gradients K of a client per round, one per minibatch.', minimum=1,
      when='theta=sum or theta=last', search=hp.Around(4),
  )
  gamma: float = hp.field(
      0.1, 'Step size of the clients; 0 takes all gradients at the model'
      ' received.', minimum=0.0, search=hp.Around(20),
  )
  alpha: float = hp.field(
      0.0, 'Strength of the pull towards the model received.', minimum=0.0
  )
  eta: float = hp.field(
      0.1, 'Step size of the server, whose gradient is the weighted sum; with'
      ' theta=sum, the value of gamma gives FedAvg.', above=0.0,
      search=hp.Around(20),
  )
  server_optimizer: str = hp.field(
      'gd', 'Server optimizer: gradient descent, plain or with momentum.',
      choices=('gd', 'heavy_ball', 'nesterov'),
  )
  beta: float = hp.field(
      0.9, 'Momentum of the server.', minimum=0.0, below=1.0,
      when='server_optimizer!=gd',
  )
  batch_size: int = hp.inherited(hp.LocalBatches, 'batch_size')
  batches: str = hp.field(
      'epochs',
      'How minibatches are drawn: epochs, each of a new permutation of the'
      ' examples; or independent, with replacement, as in the theory.',
      choices=('epochs', 'independent'), when='batch_size!=0',
  )

  def __post_init__(self):
    super().__post_init__()
    self.weights()

  @property
  def learning_rate(self) -> float:
    """gamma, under the name that other methods use."""
    return self.gamma

  def weights(self) -> tuple[float, ...]:
    """Returns Theta as numbers.

    Raises:
      ValueError: If `theta` is neither a name nor a list of weights.
    """
    if self.theta in _NAMED:
      return _NAMED[self.theta](self.num_steps).theta
    try:
      weights = [float(text) for text in self.theta.split(':')]
    except ValueError:
      raise ValueError(
          '`theta` must be sum, last, or numbers with colons between them,'
          f' found {self.theta!r}.'
      ) from None
    return thetas.Gradients(tuple(weights)).theta

  def build_server_optimizer(
      self, dtype: tf.DType
  ) -> Optional[tff.learning.optimizers.Optimizer]:
    """Returns the optimizer, or None for plain gradient descent.

    Args:
      dtype: Dtype of the weights.
    """
    if self.server_optimizer == 'gd':
      return None
    if self.server_optimizer == 'nesterov':
      return server_optimizers.build_nesterov(self.eta, self.beta)
    return server_optimizers.build_heavy_ball(self.eta, self.beta, dtype)
