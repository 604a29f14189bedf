"""Hyperparameters of FFGG, asynchronous FFGG and Local FFGG."""

import dataclasses
import math
from typing import Any, Mapping, Optional, Union

import tensorflow as tf

from tff_pers.client_works import fine_tuners
from tff_pers.client_works import local_step
from tff_pers.config import cadence as cadence_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.data import task as task_lib
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters
from tff_pers import tff

_Rate = Union[float, str]
_STEPS = 'tuner=sgd or tuner=adam'
_PRETRAINS = 'pretrain_rounds!=0'
_ADAPTIVE = 'server_optimizer=adam'
# Steps of private weights that are as many times smaller than others are small.
_SMALL = 10.0


@dataclasses.dataclass(frozen=True)
class PartialHyperparameters(split_hyperparameters.SplitHyperparameters):
  """Common hyperparameters of FFGG and Local FFGG."""

  adapt_epochs: int = hp.inherited(
      split_hyperparameters.SplitHyperparameters, 'adapt_epochs', when=_STEPS
  )
  tuner: str = hp.field(
      'sgd',
      'How private weights are trained with frozen global weights: by minibatch'
      ' steps of sgd or adam; for losses that are quadratic in them also by cg'
      ' (conjugate gradient on all examples) or exact.',
      choices=('sgd', 'adam', 'cg', 'exact'),
  )
  stateful: bool = hp.field(
      False,
      'Whether clients keep their private weights and resume from them; else'
      ' they restart in each round in which they take part and keep nothing.',
  )
  private_init: str = hp.field(
      'initial',
      'Start of private weights that are not kept: initial (from the run\'s'
      ' initial or pre-trained weights), random (drawn in every round by'
      ' every client), or zeros.',
      choices=('initial', 'random', 'zeros'),
      when='stateful=false',
  )
  server_optimizer: str = hp.field(
      'sgd', 'Server optimizer of the global weights.', choices=('sgd', 'adam')
  )
  server_beta1: float = hp.field(
      0.9, "Adam's decay of the mean.", minimum=0.0, below=1.0, when=_ADAPTIVE
  )
  server_beta2: float = hp.field(
      0.999, "Adam's decay of the mean of squares.", minimum=0.0, below=1.0,
      when=_ADAPTIVE,
  )
  server_epsilon: float = hp.field(
      1e-8, "Added to the root in Adam's step.", above=0.0, when=_ADAPTIVE
  )
  pretrain_rounds: int = hp.field(
      0,
      'First rounds, in which all weights are global and trained by FedAvg;'
      ' the private weights start from the result. A learning_rate_schedule'
      ' spans them (steps: as listed) and starts again after them.',
      minimum=0, when='stateful=false and private_init=initial',
  )
  pretrain_learning_rate: float = hp.field(
      0.0, 'Step size of the clients in these rounds; 0: learning_rate.',
      minimum=0.0, when=_PRETRAINS,
  )
  pretrain_server_learning_rate: float = hp.field(
      1.0, 'Step size of the server in these rounds.', above=0.0,
      when=_PRETRAINS,
  )

  @property
  def pretrain_rate(self) -> float:
    """Step size of the clients while they pre-train."""
    return self.pretrain_learning_rate or self.learning_rate

  def cadence(
      self, num_clients: int, cohort_size: int
  ) -> cadence_lib.Cadence:
    """See the base class; during pre-training, all clients share one model."""
    whole = super().cadence(num_clients, cohort_size)
    return whole.after(self.pretrain_rounds + whole.first)

  def describe(self, task: Any) -> str:
    """See the base class; also says if the steps of w are small."""
    split, rate = super().describe(task), self.private_rate
    is_kept = self.stateful or self.tuner != 'sgd'
    if is_kept or _SMALL * rate > self.pretrain_rate:
      return split
    return (
        f'{split}\nPrivate weights take steps of {rate:g}, which is'
        f' {self.pretrain_rate / rate:.0f} times smaller than'
        f' {self.pretrain_rate:g}, the step size of the other weights. They'
        ' restart in each round and may not learn.'
    )

  def of_pretraining(self) -> 'PartialHyperparameters':
    """Returns these with the schedule of the rounds of pre-training."""
    if self.learning_rate_schedule in ('constant', 'steps'):
      return self
    return hp.replace(self, learning_rate_rounds=str(self.pretrain_rounds))

  def scheduled(self, message: Mapping[str, Any], learning_rate: Any) -> Any:
    """Returns the step size of a round after pre-training."""
    since = dict(round=message['round'] - self.pretrain_rounds)
    return local_step.scheduled(self, since, learning_rate)

  def final_budget(self) -> dict[str, Any]:
    """Returns the budget of the final fine-tuning before evaluation."""
    return dict(batch_size=self.batch_size, num_epochs=self.adapt_epochs)

  def fine_tuner(self, parts: partition.Partition) -> fine_tuners.FineTuner:
    """Returns the fine-tuner.

    Raises:
      ValueError: If it is for quadratics and the loss is not quadratic in the
        private weights.
    """
    if self.tuner in ('cg', 'exact'):
      theta, own = parts.initial_weights(0)
      fine_tuners.check_quadratic(parts.private_model(theta), own, self.tuner)
      return {
          'cg': fine_tuners.conjugate_gradient, 'exact': fine_tuners.exact
      }[self.tuner]()
    local = local_step.build(self)
    if self.tuner == 'adam':
      return fine_tuners.optimizer(_adam(1.0, parts.model.dtype), local)
    return fine_tuners.sgd(local)

  def build_server_optimizer(
      self, learning_rate: float, dtype: tf.DType
  ) -> Optional[tff.learning.optimizers.Optimizer]:
    """Returns Adam, or None if the server's steps are plain.

    This Adam corrects its bias, as in the code of the experiments, and thus is
    not the one in `server_optimizers`.

    Args:
      learning_rate: gamma_theta.
      dtype: Dtype of the weights.
    """
    if self.server_optimizer == 'sgd':
      return None
    return _adam(
        learning_rate, dtype, self.server_beta1, self.server_beta2,
        self.server_epsilon,
    )


def _adam(learning_rate, dtype, *further):
  # NumPy numbers of the weights' dtype, because TFF's optimizer multiplies
  # tensors by them.
  numbers = map(dtype.as_numpy_dtype, (learning_rate, *further))
  return tff.learning.optimizers.build_adam(*numbers)


def _local_training(name: str, **changes):
  """Returns a field of `LocalTraining` with changes, such as its `when`."""
  return hp.inherited(hp.LocalTraining, name, **changes)


@dataclasses.dataclass(frozen=True)
class FFGGHyperparameters(PartialHyperparameters):
  """Hyperparameters of FFGG."""

  # Clients take minibatch steps on private weights only.
  learning_rate: float = hp.field(
      0.1, 'Step size gamma_w of the private weights, per step.', above=0.0,
      when=f'{_STEPS} or {_PRETRAINS}', search=hp.Around(20),
  )
  local_steps: int = hp.field(
      0,
      'Fine-tuning steps tau: minibatches, or iterations of cg; 0: use'
      ' local_epochs instead.',
      minimum=0, when=f'tuner!=exact or {_PRETRAINS}', search=hp.Around(4),
  )
  local_epochs: int = hp.field(
      1, 'Passes over the local data to fine-tune, if local_steps is 0.',
      minimum=0, when=f'tuner!=exact or {_PRETRAINS}', search=hp.Around(4),
  )
  learning_rate_schedule: str = _local_training(
      'learning_rate_schedule', when=f'{_STEPS} or {_PRETRAINS}'
  )
  batch_size: int = _local_training(
      'batch_size', when=f'{_STEPS} or {_PRETRAINS}'
  )
  momentum: float = _local_training(
      'momentum', when=f'tuner=sgd or {_PRETRAINS}'
  )
  weight_decay: float = _local_training(
      'weight_decay', when=f'{_STEPS} or {_PRETRAINS}'
  )
  clip_norm: float = _local_training(
      'clip_norm', when=f'{_STEPS} or {_PRETRAINS}'
  )
  # A round is a single step: with the 0.1 of local steps, training would take
  # ten times as many rounds.
  server_learning_rate: float = hp.field(
      1.0, 'Step size gamma_theta of the global weights, per round.', above=0.0,
      search=hp.Around(10),
  )
  gradient_examples: int = hp.field(
      0,
      'Examples that a client draws without replacement for the gradient of the'
      ' global weights: an unbiased message with rho_in > 1 (Theorems 4 and 8);'
      ' 0: all, rho_in = 1 where fine-tuning is exact.',
      minimum=0,
  )

  def __post_init__(self):
    super().__post_init__()
    if self.tuner == 'cg' and not self.local_steps:
      raise ValueError(
          '`local_steps` must be > 0 and `local_epochs` 0 with tuner=cg, found'
          f' {self.local_steps} and {self.local_epochs}.'
      )

  def fine_tuning_budget(self) -> dict[str, Any]:
    """Returns the length of fine-tuning in a round."""
    return self.budget()


@dataclasses.dataclass(frozen=True)
class AsyncFFGGHyperparameters(FFGGHyperparameters):
  """Hyperparameters of FFGG whose server takes a step on each message."""

  # The base class has no auto; `step` turns it into a number.
  server_learning_rate: _Rate = hp.field(  # type: ignore[assignment]
      'auto',
      'Step size gamma_theta of the global weights, per message; auto: 1 / (L'
      ' P) with P clients in flight, or 1 / P if their smoothness L is unknown;'
      ' theorem: 1 / (2 L sqrt(2 P tau_max)) with the largest delay tau_max.',
      above=0.0, auto=('auto', 'theorem'),
      search=hp.Between(0.01, 3.0, log=True),
  )

  def __post_init__(self):
    super().__post_init__()
    if self.pretrain_rounds:
      raise ValueError(
          '`pretrain_rounds` must be 0 because a message of the first stage may'
          f' arrive in the second, found {self.pretrain_rounds}.'
      )

  def step(
      self, arrivals: Optional[task_lib.Arrivals], smoothness: Optional[float]
  ) -> float:
    """Returns gamma_theta.

    Args:
      arrivals: Known delays of the messages; None: rounds, each of which counts
        as one message without delay.
      smoothness: L, or None if unknown.

    Raises:
      ValueError: If the step of Theorem 7 is asked for and L is unknown.
    """
    if not isinstance(self.server_learning_rate, str):
      return self.server_learning_rate
    in_flight, max_delay = arrivals or (1, 1)
    if self.server_learning_rate == 'auto':
      return 1.0 / ((smoothness or 1.0) * in_flight)
    if smoothness is None:
      raise ValueError(
          '`server_learning_rate` must be auto or a number where the smoothness'
          ' of the clients is unknown, found theorem.'
      )
    return 1.0 / (2.0 * smoothness * math.sqrt(2.0 * in_flight * max_delay))


@dataclasses.dataclass(frozen=True)
class LocalFFGGHyperparameters(PartialHyperparameters):
  """Hyperparameters of Local FFGG."""

  local_steps: int = hp.field(
      0,
      'Alternating steps K, in minibatches, each of one private and one global'
      ' step; 0: use local_epochs instead.',
      minimum=0, search=hp.Around(4),
  )
  local_epochs: int = hp.field(
      1, 'Passes over the local data with alternating steps, if local_steps is'
      ' 0.', minimum=0, search=hp.Around(4),
  )
  private_learning_rate: float = hp.field(
      0.0,
      'Step size gamma_w of the private weights, per step; 0: learning_rate.',
      minimum=0.0, search=hp.Around(20, of='learning_rate'),
  )
  private_steps: int = hp.field(
      0,
      'Fine-tuning steps before the alternating ones: minibatches, or'
      ' iterations of cg; 0: use private_epochs instead.',
      minimum=0, when='tuner!=exact',
  )
  private_epochs: int = hp.field(
      1, 'Passes over the local data to fine-tune, if private_steps is 0.',
      minimum=0, when='tuner!=exact',
  )
  server_learning_rate: float = hp.field(
      1.0, 'Server step size; 1 with sgd is plain averaging.', above=0.0
  )

  def __post_init__(self):
    super().__post_init__()
    if (self.private_steps > 0) == (self.private_epochs > 0):
      raise ValueError(
          'Exactly one of `private_steps` and `private_epochs` must be > 0,'
          f' found {self.private_steps} and {self.private_epochs}.'
      )
    if self.tuner == 'cg' and not self.private_steps:
      raise ValueError(
          '`private_steps` must be > 0 and `private_epochs` 0 with tuner=cg,'
          f' found {self.private_steps} and {self.private_epochs}.'
      )

  @property
  def private_rate(self) -> float:
    return self.private_learning_rate or self.learning_rate

  def fine_tuning_budget(self) -> dict[str, Any]:
    """Returns the length of fine-tuning before the alternating steps."""
    return dict(
        batch_size=self.batch_size, num_steps=self.private_steps or None,
        num_epochs=self.private_epochs or None,
    )


# Table 2, section 5.4 of the spec sheet: the stages, each with its step sizes.
# Their rounds, 2500, 3100 and 1500 in all, are those of the run.
_PIPELINE = dict(client_weighting='uniform', adapt_epochs=5)
_ADAM = dict(
    _PIPELINE, batch_size=64, server_optimizer='adam',
    learning_rate_schedule='linear',
)
RECIPES = dict(
    emnist=dict(
        _PIPELINE, batch_size=32, pretrain_rounds=2000,
        pretrain_learning_rate=0.5, learning_rate=0.01,
        # The rounds of the decay are missing in the paper; these are those of
        # the code that it builds on. The 500 rounds of stage 2 see no decay.
        learning_rate_schedule='steps', learning_rate_decay=0.5,
        learning_rate_rounds='500:1000:1500',
    ),
    gldv2=dict(
        _ADAM, pretrain_rounds=2500, pretrain_learning_rate=0.01,
        pretrain_server_learning_rate=2e-4, learning_rate=0.001,
        server_learning_rate=2e-5, learning_rate_rounds='600',
    ),
    stackoverflow=dict(
        _ADAM, pretrain_rounds=1000, pretrain_learning_rate=1.0,
        pretrain_server_learning_rate=5e-4, learning_rate=0.1,
        server_learning_rate=5e-5, learning_rate_rounds='500', clip_norm=0.1,
    ),
)
