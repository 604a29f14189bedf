"""FedAvgM, FedAdam, FedYogi, FedAdagrad: FedAvg with a server optimizer.

The clients are FedAvg's. The server uses the mean of w - u_i as a gradient.

Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification (FedAvgM).
    Hsu, Qi, Brown. 2019. https://arxiv.org/abs/1909.06335
Adaptive Federated Optimization (the others).
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. ICLR 2021.
"""

import dataclasses
from typing import Any, ClassVar, Union

import tensorflow as tf

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.client_works import local_sgd
from tff_pers.composition import builders
from tff_pers.composition import server_optimizers
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class FedAvgMHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of FedAvgM."""

  server_learning_rate: float = hp.field(
      1.0, 'Server step size eta_g.', above=0.0, search=hp.Around(10)
  )
  beta: float = hp.field(
      0.9, 'Momentum of the server; 0 is FedAvg.', minimum=0.0, below=1.0,
      search=hp.Between(0.5, 0.95),
  )
  nesterov: bool = hp.field(
      False, "Whether the momentum is Nesterov's or that of the heavy ball."
  )

  def server_optimizer(self, dtype: tf.DType) -> Any:
    """Returns m <- beta m + D, then w <- w + eta_g m, or eta_g (D + beta m)."""
    if self.nesterov:
      return server_optimizers.build_nesterov(
          self.server_learning_rate, self.beta
      )
    return server_optimizers.build_heavy_ball(
        self.server_learning_rate, self.beta, dtype
    )


@dataclasses.dataclass(frozen=True)
class _AdaptiveHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Common hyperparameters of the adaptive methods."""

  server_learning_rate: float = hp.field(
      0.1, 'Server step size eta_g.', above=0.0, search=hp.Around(10)
  )
  beta1: float = hp.field(
      0.9, "Decay of the mean of the server's updates.", minimum=0.0, below=1.0
  )
  epsilon: float = hp.field(
      1e-3, 'Added to the root of v, the mean or sum of squared updates.',
      above=0.0, search=hp.Between(1e-4, 0.1, log=True),
  )
  # Set by subclasses; called with `arguments`.
  optimizer_builder: ClassVar[staticmethod]

  # The paper starts v at epsilon^2, its TFF code at 0.
  initial_v: Union[float, str] = hp.field(
      'auto', 'v before the first round; auto: epsilon squared.', minimum=0.0,
      auto=True,
  )

  def server_optimizer(self, dtype: tf.DType):
    """Returns the optimizer of the formula, see `server_optimizers`."""
    del dtype  # The optimizer takes it from the weights.
    return self.optimizer_builder(**self.arguments())

  def arguments(self) -> dict[str, object]:
    """Returns the arguments of `optimizer_builder`."""
    return dict(
        learning_rate=self.server_learning_rate, beta1=self.beta1,
        epsilon=self.epsilon,
        initial_v=None if self.initial_v == 'auto' else self.initial_v,
    )


@dataclasses.dataclass(frozen=True)
class FedAdagradHyperparameters(_AdaptiveHyperparameters):
  """Hyperparameters of FedAdagrad."""

  optimizer_builder = staticmethod(server_optimizers.build_fedadagrad)


@dataclasses.dataclass(frozen=True)
class _DecayingHyperparameters(_AdaptiveHyperparameters):
  """Common hyperparameters of FedAdam and FedYogi."""

  beta2: float = hp.field(
      0.99, 'Decay of the mean of squared updates.', minimum=0.0, below=1.0
  )

  def arguments(self) -> dict[str, object]:
    return dict(super().arguments(), beta2=self.beta2)


@dataclasses.dataclass(frozen=True)
class FedAdamHyperparameters(_DecayingHyperparameters):
  """Hyperparameters of FedAdam."""

  optimizer_builder = staticmethod(server_optimizers.build_fedadam)


@dataclasses.dataclass(frozen=True)
class FedYogiHyperparameters(_DecayingHyperparameters):
  """Hyperparameters of FedYogi."""

  optimizer_builder = staticmethod(server_optimizers.build_fedyogi)


@builders.checked
@builders.takes_statistics('averaged')
def build_fedopt(
    model: functional.FunctionalModel,
    hyperparameters: Union[FedAvgMHyperparameters, _AdaptiveHyperparameters],
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedAvg with a server optimizer.

    client i: u <- w;  K times: u <- u - eta g_i(u; b)
    server  : D = sum_i q_i (u_i - w) / sum_i q_i
              FedAvgM: m <- beta m + D;  w <- w + eta_g m   (heavy ball)
                                         w <- w + eta_g (D + beta m)  (Nesterov)
              others : see `server_optimizers`

  Server state: `weights` w, and `optimizer`. Clients are stateless. FedAvgM
  with beta = 0 is FedAvg.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: `FedAvgMHyperparameters`, `FedAdamHyperparameters`,
      `FedYogiHyperparameters` or `FedAdagradHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  return fedavg.build_averaging(
      model,
      local_sgd.build_local_sgd(model, hyperparameters, client_weighting),
      server_optimizer=hyperparameters.server_optimizer(model.dtype),
      model_aggregator=choice.chosen(hyperparameters),
  )


def _build(task, hyperparameters):
  return build_fedopt(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )


# One loop, because the four methods differ only in their server optimizer.
for _name, _hyperparameters, _optimizer, _source in (
    ('fedavgm', FedAvgMHyperparameters, 'momentum', 'Hsu 2019'),
    ('fedadagrad', FedAdagradHyperparameters, 'Adagrad', 'Reddi 2021'),
    ('fedadam', FedAdamHyperparameters, 'Adam', 'Reddi 2021'),
    ('fedyogi', FedYogiHyperparameters, 'Yogi', 'Reddi 2021'),
):
  methods.register(
      _name, _hyperparameters,
      summary=f'FedAvg with {_optimizer} at the server ({_source})',
  )(_build)
