"""FedProx: FedAvg whose local steps are pulled towards the received model.

TFF's own FedProx adds the gradient of the pull with the wrong sign (in 0.87,
mu (w - u) instead of mu (u - w)), which drives clients away from the model that
they received. This implementation does not build on it.

Federated Optimization in Heterogeneous Networks
    Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith. MLSys 2020.
"""

import dataclasses
from typing import Optional

import tensorflow as tf

from tff_pers.aggregators import choice
from tff_pers.algorithms.local_update import local_update as family
from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.client_works import local_update
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional

_ALL_FINISH = 'epochs_range=off'
_EPOCHS_USE = 1  # Of the key of (seed, round, client); 0 draws the batches.


@dataclasses.dataclass(frozen=True)
class FedProxHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of FedProx."""

  local_steps: int = hp.inherited(
      hp.LocalTraining, 'local_steps', when=_ALL_FINISH
  )
  local_epochs: int = hp.inherited(
      hp.LocalTraining, 'local_epochs', when=_ALL_FINISH
  )
  mu: float = hp.field(
      0.1, 'Pull mu towards the received model; 0 is FedAvg.', minimum=0.0,
      search=hp.Between(1e-3, 1.0, log=True),
  )
  server_learning_rate: float = hp.field(
      1.0, 'Server step size eta_g; 1 is plain averaging.', above=0.0
  )
  epochs_range: str = hp.field(
      'off',
      'Range of local epochs, such as 1:5, drawn for each client and round, to'
      ' simulate clients that do not finish; off: all finish their epochs.',
  )

  def __post_init__(self):
    super().__post_init__()
    self.fewest_and_most_epochs()

  def longest_line(self) -> int:
    # 0 means that the data decide.
    return super().longest_line() if self.epochs_range == 'off' else 0

  def num_visited(self, num_examples: int) -> int:
    epochs = self.fewest_and_most_epochs()
    if epochs is None:
      return super().num_visited(num_examples)
    return round(num_examples * sum(epochs) / 2)  # On average.

  def fewest_and_most_epochs(self) -> Optional[tuple[int, int]]:
    """Returns `epochs_range` as two numbers, or None if it is off.

    Raises:
      ValueError: If it is neither off nor a range.
    """
    if self.epochs_range == 'off':
      return None
    try:
      fewest, most = (int(text) for text in self.epochs_range.split(':'))
    except ValueError:
      fewest, most = 0, 0
    if not 1 <= fewest <= most:
      raise ValueError(
          '`epochs_range` must be off, or two integers 1 <= a <= b with a colon'
          f' between them, found {self.epochs_range!r}.'
      )
    return fewest, most


@builders.checked
@builders.takes_statistics('averaged')
def build_fedprox(
    model: functional.FunctionalModel,
    hyperparameters: FedProxHyperparameters = FedProxHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedProx.

    client i: u <- w;  K times: g <- g_i(u; b) + mu (u - w);  u <- u - eta g
    server  : w <- w - eta_g eta * sum_i q_i (sum of the g) / sum_i q_i

  It is Theta_1:K of the local update methods with gamma = eta and alpha = mu:
  eta times the sum is w - u_i, so that eta_g = 1 averages the u_i. mu = 0 is
  FedAvg, and so is K = 1 with any mu, because the first u is w.

  With `epochs_range` the number of epochs is drawn for each client and round,
  as the paper does to simulate clients that stop early.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedProxHyperparameters`.
    client_weighting: q_i, see `client_work.client_weight`.
  """
  return family.compose(
      model, build_fedprox_work(model, hyperparameters, client_weighting),
      eta=lambda state: (
          hyperparameters.server_learning_rate * _eta(hyperparameters, state)
      ),
      model_aggregator=choice.chosen(hyperparameters),
  )


def build_fedprox_work(
    model: functional.FunctionalModel,
    hyperparameters: FedProxHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work; it sends the sum of its gradients.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_fedprox`.
    client_weighting: See `build_fedprox`.
  """
  local = local_step.build(hyperparameters)

  def update(message, client_state, data):
    budget = hyperparameters.budget()
    epochs = hyperparameters.fewest_and_most_epochs()
    if epochs is not None:
      budget.update(num_steps=None, num_epochs=_draw(message, data, *epochs))
    path = local_update.walk(
        model, message['weights'], data, alpha=hyperparameters.mu, local=local,
        gamma=_eta(hyperparameters, message),
        seed=client_work.key(message, data), **budget,
    )
    weight = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return local_update.as_output(message, client_state, path, weight)

  return client_work.ClientWork(update)


def _eta(hyperparameters, message):
  """Returns eta in the round of a message or server state."""
  return local_step.scheduled(
      hyperparameters, message, hyperparameters.learning_rate
  )


def _draw(message, data, fewest: int, most: int):
  """Returns a number of epochs, drawn for this round and client."""
  return tf.random.stateless_uniform(
      [], client_work.key(message, data, _EPOCHS_USE), fewest, most + 1,
      tf.int32,
  )


@methods.register(
    'fedprox', FedProxHyperparameters,
    summary='FedAvg with a pull towards the received model (Li 2020)',
)
def _build(task, hyperparameters):
  return build_fedprox(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
