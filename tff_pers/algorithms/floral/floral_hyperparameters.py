"""Hyperparameters of FLoRAL and other methods that train adaptors."""

import dataclasses
from typing import Any, Mapping, Union

from tff_pers.config import conditions
from tff_pers.config import hyperparameters as hp
from tff_pers.models import adaptor_forms
from tff_pers.models import adaptor_layers
from tff_pers.models import adaptor_plan
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import labels
from tff_pers.models import layers
from tff_pers import tff

# Where ranks are chosen for fewer bytes, this one has most of the accuracy of a
# full adaptor (docs/floral.md).
_LEAST_RANK = 4
# When routers are logits trained by SGD, see `floral_routers.Learned`.
_LEARNED = 'router=learned and objective=fml'
# When only new clients learn one; an oracle does not know their cluster.
_NEW = 'router=oracle or objective=fml and router_state=stateful'
# When a client keeps what it learns, and there is one loss to learn it from.
_PRIVATE = 'objective=fml and router_state=stateful'
# When one of these cases is possible.
_WARMED_UP = 'objective=fml or router=oracle'
# Kind of weights that a hyperparameter concerns, see `LayerWeight`.
_ABOUT = dict(
    conv_form='conv', adapt_bias='bias', adapt_norm='norm',
    adapt_embedding='embedding',
)


@dataclasses.dataclass(frozen=True)
class AdaptorHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of every method that trains adaptors."""

  learning_rate: float = hp.field(
      0.1,
      'Step size eta of local SGD, per step; 0: the base is frozen, only'
      ' adaptors are trained.',
      minimum=0.0, search=hp.Around(20),
  )
  rank: int = hp.field(
      0, 'Rank r of every adapted kernel; 0: as large as budget allows.',
      minimum=0,
  )
  budget_: float = hp.field(  # `budget()` is the training length.
      0.01,
      'rho: parameters of an adaptor relative to its kernel.',
      above=0.0, when='rank=0',
  )
  # The paper has 1, at which a kernel of m classes learns one of m - 1
  # directions at a time.
  min_rank: int = hp.field(
      0,
      'Least rank of a kernel whose budget allows less; 0: 4, but at most the'
      ' number of classes less one, or of outputs; 1: as in the paper.',
      minimum=0, when='rank=0',
  )
  adapt_kernels: str = hp.field(
      'all',
      'Which kernels have adaptors (Table 5): all, none of dense layers (conv),'
      ' or none of convolutions (dense).',
      choices=('all', 'conv', 'dense'),
  )
  conv_form: str = hp.field(
      'balanced_2d', 'How convolution kernels are factorised.',
      choices=adaptor_forms.CONV_FORMS,
      when='adapt_kernels!=dense',
  )
  adapt_bias: bool = hp.field(True, 'Whether adaptors have biases.')
  adapt_norm: bool = hp.field(
      False, 'Whether normalization layers have adaptors.'
  )
  adapt_embedding: bool = hp.field(
      False, 'Whether embedding tables have low-rank adaptors.'
  )
  zero_factor: str = hp.field(
      'output',
      'Which factor of a low-rank adaptor is initially zero: output (U) or'
      ' input (V); the other is random.',
      choices=adaptor_layers.ZERO_FACTORS,
  )
  precondition: bool = hp.field(
      True, 'Whether gradients of low-rank factors are preconditioned.'
  )
  adaptor_learning_rate: Union[float, str] = hp.field(
      'auto',
      'eta_lora: step size of the adaptors; auto: learning_rate, with'
      ' rank=0 and min_rank=0 times d / r: classes less one, at most the'
      ' smaller side of the largest adapted kernel, per rank.',
      above=0.0, auto=True, search=hp.Between(0.01, 10.0, log=True),
  )

  def __post_init__(self):
    super().__post_init__()
    if not self.learning_rate and self.adaptor_learning_rate == 'auto':
      raise ValueError(
          '`adaptor_learning_rate` must be a number with learning_rate=0, which'
          ' freezes the base, because auto is learning_rate, found auto.'
      )

  def adaptor_rate(self, adapted: adaptors.AdaptedModel) -> float:
    """Returns eta_lora for a model that `adapt` has returned.

    A preconditioned step projects the gradient G of a kernel onto the r
    directions of a factor. G has d of them (`labels.num_directions`, but no
    more than the smaller side of the largest adapted kernel), and the zero
    factor starts with random ones: the step keeps about r / d of ||G||^2,
    while the base, which moves by all of G and is averaged over clusters,
    takes the rest of what the client learns. With eta_lora = eta d / r both
    move alike. Ours: the paper has eta_lora = eta.
    """
    if not isinstance(self.adaptor_learning_rate, str):
      return self.adaptor_learning_rate
    rank = adaptor_plan.least_rank(adapted.plan)
    if self.rank or self.min_rank or rank is None:
      return self.learning_rate
    directions = min(
        labels.num_directions(adapted.base),
        adaptor_plan.largest_rank(adapted.plan),
    )
    return self.learning_rate * max(1.0, directions / rank)

  def check_aggregator(self, adapted: adaptors.AdaptedModel) -> None:
    """Raises ValueError if an aggregator is set but the base is frozen."""
    is_trained = self.learning_rate and adapted.base.num_parameters
    if self.aggregator != 'mean' and not is_trained:
      raise ValueError(
          '`aggregator` must be mean if the base is frozen, because it acts on'
          f' the base only, found {self.aggregator}.'
      )

  def adapt(
      self, model: functional.FunctionalModel, num_adaptors: int
  ) -> adaptors.AdaptedModel:
    """Returns `model` with adaptors of these sizes.

    Raises:
      ValueError: If a hyperparameter concerns layers that the model lacks.
    """
    kinds = {weight.kind for weight in layers.describe(model.of_all_weights)}
    for name, kind in _ABOUT.items():
      value, default = getattr(self, name), getattr(type(self), name)
      if value != default and kind not in kinds:
        raise ValueError(
            f'`{name}` must be left at {conditions.as_text(default)} because'
            f' the model has no weight of kind {kind}, found'
            f' {conditions.as_text(value)}.'
        )
    if self.adapt_kernels != 'all' and not kinds >= {'conv', 'dense'}:
      raise ValueError(
          '`adapt_kernels` must be left at all unless the model has'
          f' convolutions and dense layers, found {self.adapt_kernels}.'
      )
    others = {'conv', 'dense'} - {self.adapt_kernels}
    return adaptors.floral(
        model, num_adaptors, conv_form=self.conv_form,
        predicate=None if self.adapt_kernels == 'all' else (
            lambda weight: weight.kind not in others
        ),
        adapt_bias=self.adapt_bias, adapt_norm=self.adapt_norm,
        rank=self.rank or None, budget=None if self.rank else self.budget_,
        min_rank=self.min_rank or min(
            _LEAST_RANK, labels.num_directions(model)
        ),
        adapt_embedding=self.adapt_embedding, zero_factor=self.zero_factor,
    )


@dataclasses.dataclass(frozen=True)
class FloralHyperparameters(AdaptorHyperparameters):
  """Hyperparameters of FLoRAL."""

  num_adaptors: int = hp.field(
      0,
      "C; 0: the task's number of clusters; if that is unknown, a third of the"
      ' number of clients, but 2 to 8.',
      minimum=0, search=hp.Between(2, 8),
  )
  router: str = hp.field(
      'learned', 'learned, or oracle (the true cluster, frozen).',
      choices=('learned', 'oracle'),
  )
  # Not in the paper, which uses the gradient: with U = 0 the uniform router is
  # a saddle that gradient steps leave slowly.
  router_step: str = hp.field(
      'scale_free',
      "Step of the router's logits: scale_free (the slope of the loss in each"
      ' mixture weight, at the received adaptors where their mixture hurts,'
      ' divided by the largest of them) or gradient (as in the paper).',
      choices=('scale_free', 'gradient'), when=_WARMED_UP,
  )
  router_learning_rate: float = hp.field(
      0.1,
      'Step size of the router: with scale_free the largest change of a logit'
      ' per step, with gradient eta_router; 0: only its warm-up moves it.',
      minimum=0.0, when=_LEARNED,
  )
  router_state: str = hp.field(
      'stateful',
      'stateful (clients keep their router) or stateless (they relearn it in'
      ' every round).',
      choices=('stateful', 'stateless'), when=_LEARNED,
  )
  # Not in the paper: the joint steps alone are too few to learn a stateless
  # router.
  router_warmup_steps: int = hp.field(
      20,
      'Full-batch steps in which stateless clients learn a router from zero,'
      ' with all else frozen, in every round and at evaluation.',
      minimum=0, when='router_state=stateless',
  )
  adapt_epochs: int = hp.inherited(hp.NewClients, 'adapt_epochs', when=_NEW)
  router_warmup_learning_rate: float = hp.field(
      1.0,
      'Step size of a router that is learned separately in full-batch steps.',
      above=0.0, when=_WARMED_UP,
  )
  router_noise: float = hp.field(
      0.0,
      'Uniform noise added to the logits in training; 0: as in the paper, 1: as'
      " in the authors' code.",
      minimum=0.0, when=_LEARNED,
  )
  # Not in the paper; the authors' code uses 0.01, also without rescaling.
  min_mix_prob: float = hp.field(
      0.0, 'Lower bound of the mixture weights in the forward pass.',
      minimum=0.0, maximum=1.0, when=_LEARNED,
  )
  objective: str = hp.field(
      'fml',
      'fml (one model, the mixture of weights inside the loss) or mfl (C'
      ' models, the mixture of losses).',
      choices=('fml', 'mfl'),
  )
  # Constant: with the paper's decaying eta_t the router would become uniform
  # again.
  mfl_rate: float = hp.field(
      10.0,
      'eta of the exponential router, pi_c ~ exp(-eta loss_c).',
      above=0.0, when='router=learned and objective=mfl',
  )
  # Not in the paper, see `floral_private`.
  private_rank: int = hp.field(
      0,
      "Rank of one more adaptor, the client's own, which is never sent, for"
      ' clients that belong to no cluster; 0: none, as in the paper.',
      minimum=0, when=_PRIVATE,
  )
  center: bool = hp.field(
      False, "Whether the adaptors' mean moves into the base after every round."
  )
  server_optimizer: str = hp.field(
      'sgd', 'Server optimizer of base and adaptors.', choices=('sgd', 'adam')
  )
  server_learning_rate: float = hp.field(
      1.0, 'Server step size; 1 with sgd is plain averaging.', above=0.0
  )
  # Algorithm 1 averages adaptors with step 1. The authors' code uses eta_lora
  # here, very likely by accident, since its server inherits the clients'
  # parameter groups.
  adaptor_server_learning_rate: Union[float, str] = hp.field(
      'auto',
      'Server step size of the adaptors; auto: server_learning_rate.',
      above=0.0, auto=True,
  )

  def __post_init__(self):
    super().__post_init__()
    if self.center and not self.learning_rate:
      raise ValueError(
          '`center` must be false with learning_rate=0, because it moves the'
          ' base, which this freezes, found true.'
      )

  def server_optimizers(self) -> Mapping[str, Any]:
    """Returns TFF's server optimizers by part of the weights."""
    build = {
        'sgd': tff.learning.optimizers.build_sgdm,
        'adam': tff.learning.optimizers.build_adam,
    }[self.server_optimizer]
    rate = self.adaptor_server_learning_rate
    if rate == 'auto':
      rate = self.server_learning_rate
    # `float`, because TFF's optimizers have their rates in their states.
    return dict(
        adaptors=build(float(rate)),
        base=build(float(self.server_learning_rate)),
    )
