"""A base model and the adaptors of its weights (paper: see `adaptors`)."""

import collections
import dataclasses
import functools
from typing import Any, ClassVar

import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import adaptor_layers
from tff_pers.models import adaptor_plan
from tff_pers.models import functional
from tff_pers.models import layers as layers_lib

_ADAPTORS_USE = -2  # Folded into the model's key.


@dataclasses.dataclass(frozen=True)
class AdaptedModel:
  """A base model and the adaptors of its weights.

  Adaptors are a tuple with one entry per adapted leaf, in the order of `plan`:
  <u, v> for kernels and tables (`adaptor_layers.LowRank`), one tensor for
  vectors; the leading axis of every tensor is C.

  Attributes:
    made_by: How to make one from a model, for messages.
    base: The model whose weights are adapted.
    num_adaptors: C.
    plan: One `adaptor_plan.AdaptedWeight` per leaf of the base weights; of all
      weights, if the base has frozen ones.
  """

  made_by: ClassVar[str] = 'models.adaptors.floral(model, num_adaptors=4)'
  base: functional.FunctionalModel
  num_adaptors: int
  plan: tuple[adaptor_plan.AdaptedWeight, ...]

  @functools.cached_property
  def merged(self) -> functional.FunctionalModel:
    """The model over merged weights: the base, with its frozen weights."""
    return self.base.of_all_weights

  def initial_adaptors(self, seed: tf.Tensor) -> Any:
    """Returns the adaptors of the run `seed`, which change nothing at first."""
    return self.drawn(functional.init_key(seed))

  def drawn(self, key: tf.Tensor) -> Any:
    """Returns adaptors drawn from a key of the base model, int64[2]."""
    key = random.fold_in(key, _ADAPTORS_USE)
    return tuple(
        adaptor.init(
            random.fold_in(key, position), self.num_adaptors, self.base.dtype
        )
        for position, adaptor in enumerate(self._adaptors)
    )

  @property
  def parameters_per_adaptor(self) -> int:
    """Number of scalars of one adaptor of the whole model."""
    return sum(adaptor.num_parameters for adaptor in self._adaptors)

  @property
  def relative_budget(self) -> float:
    """Parameters of one adaptor relative to those of the base model."""
    return self.parameters_per_adaptor / self.merged.num_parameters

  def effective(self, base_weights: Any, adaptors: Any, mix: tf.Tensor) -> Any:
    """Returns W + sum_c mix_c L_c, weights of `merged`.

    It has the structure of `base_weights`; with frozen weights it has all
    weights in order. `mix` is floats [C], usually on the simplex.
    """
    mix = tf.cast(mix, self.base.dtype)
    return self._add(self.base.all_weights(base_weights), [
        adaptor.mixed_delta(own, mix)
        for adaptor, own in zip(self._adaptors, adaptors)
    ])

  def mixed(self, mix: tf.Tensor) -> functional.FunctionalModel:
    """Returns the model of one mixture, over the weights <adaptors, base>.

    It computes what the base model does at the `effective` weights, including
    the penalty. A model that takes factors never multiplies out dense kernels:
    a step costs at most about C times the relative budget more.
    """

    def init(key):
      return collections.OrderedDict(
          adaptors=self.drawn(key), base=self.base.init(key)
      )

    def predict(weights, x, training, seed):
      return self.merged.predict(
          self._factorised(weights, mix), x, training, seed
      )

    def penalty(weights):
      # A norm needs the whole matrix, so the penalty cannot use factors.
      return self.merged.penalty(
          self.effective(weights['base'], weights['adaptors'], mix)
      )

    return self._wrap(init, predict, penalty, self._layers)

  def beside(self, adaptors: Any, others: Any) -> Any:
    """Returns adaptors and then others, for a mix of as many weights."""
    return tf.nest.map_structure(
        lambda *pair: tf.concat(pair, 0), adaptors, others
    )

  def precondition(
      self, adaptors: Any, gradients: Any, eps: float = 1e-5,
      conv_norm: str = 'spatial',
  ) -> Any:
    """Returns gradients scaled by the other factor (section 2.4).

    dense: G_U <- G_U (V^T V + eps I)^-1,      G_V <- G_V (U^T U + eps I)^-1
    conv : G_U <- G_U / (||Gram(V)||_F + eps)
           G_V <- G_V / (||Gram(U)||_F + eps)

    with Frobenius norms. Vectors (biases, norms) keep their gradients.

    Args:
      adaptors: The adaptors at which the gradients were taken.
      gradients: Gradients of the loss, a structure like `adaptors`.
      eps: > 0, relative to factors of norm about one.
      conv_norm: Whether the Gram of a convolution's factor keeps the positions
        of the window separate ('spatial') or sums over them ('matrix').

    Raises:
      ValueError: If `conv_norm` is neither of these.
    """
    adaptor_plan.check_choice('conv_norm', conv_norm, adaptor_layers.CONV_NORMS)
    return tuple(
        adaptor.precondition(own, gradient, eps, conv_norm)
        for adaptor, own, gradient in zip(self._adaptors, adaptors, gradients)
    )

  def bounded(self, adaptors: Any, directions: Any, rate: Any) -> Any:
    """Returns directions that a step of size `rate` can take in both factors.

    A joint step changes a product also by the product of the two steps. Next to
    a zero factor, where the preconditioner divides by almost 0, that term may
    exceed all others, and training diverges. Each adaptor's step is shortened
    as far as that term makes its change of the kernel longer than the two steps
    together, see `low_rank.step_share`. Ours: the paper has no bound.

    `directions` are preconditioned gradients at the adaptors, and `rate` is
    eta_lora, a float or a scalar tensor.
    """
    dtype = self.base.dtype
    rate = tf.cast(tf.convert_to_tensor(rate, dtype_hint=dtype), dtype)
    return tuple(
        adaptor.bounded(own, direction, rate)
        for adaptor, own, direction in zip(self._adaptors, adaptors, directions)
    )

  def merge(self, weights: Any, router: tf.Tensor) -> Any:
    """Returns plain weights, those of `merged`, for <adaptors, base>.

    The router is logits, floats [C]. For a Keras model these are all its
    weights in Keras's order:
    `keras_model.set_weights(adapted.merge(weights, router))`.
    """
    return self.effective(
        weights['base'], weights['adaptors'], tf.nn.softmax(router)
    )

  def center(self, weights: Any, probabilities: tf.Tensor) -> Any:
    """Returns <adaptors, base> with the mean adaptor moved into the base.

    Vectors: u <- u + sum_c p_c a_c, a_c <- a_c - sum_c p_c a_c. Kernels do the
    same with products, whose best approximation of the old rank is kept; merged
    weights of all routers are unchanged only if that loses nothing. p is the
    share of each adaptor, floats [C] on the simplex (LoRA centering, section
    2.5).

    Raises:
      ValueError: If the base has frozen weights, which must not move.
    """
    if self.base.frozen is not None:
      raise ValueError(
          '`center` must be false for a model with frozen weights, because it'
          ' moves them, found true. Tip: let all weights be trainable.'
      )
    probabilities = tf.cast(probabilities, self.base.dtype)
    parts = [
        adaptor.centered(own, probabilities)
        for adaptor, own in zip(self._adaptors, weights['adaptors'])
    ]
    return collections.OrderedDict(
        adaptors=tuple(rest for _, rest in parts),
        base=self._add(weights['base'], [mean for mean, _ in parts]),
    )

  def as_model(self) -> functional.FunctionalModel:
    """Returns a functional model over the weights <adaptors, base, router>.

    The router's logits start at zero. Loss and penalty are those of the base
    model at the merged weights.
    """

    def mixed(weights):
      return self.mixed(tf.nn.softmax(weights['router']))

    def init(key):
      router = tf.zeros([self.num_adaptors], self.base.dtype)
      weights = self.mixed(router).init(key)
      return collections.OrderedDict(**weights, router=router)

    router = functional.LayerWeight(
        'router', 'router', 'router', (self.num_adaptors,)
    )
    return self._wrap(
        init,
        lambda weights, *rest: mixed(weights).predict(weights, *rest),
        lambda weights: mixed(weights).penalty(weights),
        (*self._layers, router),
    )

  def summary(self) -> str:
    """Returns a table of all weights, their adaptors, and their sizes."""
    extra = self.num_adaptors * self.parameters_per_adaptor
    return (
        f'{adaptor_plan.table(self.plan)}\n'
        f'{self.base.name}: {self.merged.num_parameters} parameters;'
        f' {self.num_adaptors} adaptors of {self.parameters_per_adaptor}'
        f' ({self.relative_budget:.2%} each): {extra} extra.'
    )

  def _wrap(
      self, init, predict, penalty, layers
  ) -> functional.FunctionalModel:
    """Returns a model of other weights, with the base model's losses."""
    return dataclasses.replace(
        self.base, init=init, predict=predict,
        penalty=self.base.penalty_by(penalty), layers=layers,
        takes_factors=False, frozen=None, name=f'{self.base.name}_adapted',
    )

  @property
  def _layers(self) -> tuple[functional.LayerWeight, ...]:
    """The weights <adaptors, base>, described in the order of `tf.nest`."""
    return (
        *adaptor_plan.describe(self.plan, self.num_adaptors),
        *layers_lib.describe(self.base),
    )

  @property
  def _adaptors(self):
    return [entry.adaptor for entry in self.plan if entry.adaptor is not None]

  def _factorised(self, weights, mix):
    """Returns the effective weights; dense kernels as `UpdatedMatrix`."""
    if not self.base.takes_factors:
      return self.effective(weights['base'], weights['adaptors'], mix)
    mix = tf.cast(mix, self.base.dtype)
    parameters = iter(weights['adaptors'])

    def apply(leaf, entry):
      if entry.adaptor is None:
        return leaf
      own = next(parameters)
      # `takes_factors` covers an update next to the kernel for dense kernels
      # only; convolutions and lookups need a plain tensor.
      if entry.weight.kind == 'dense' and entry.adaptor.rank:
        return entry.adaptor.mixed_update(leaf, own, mix)
      return leaf + entry.adaptor.mixed_delta(own, mix)

    base = self.base.all_weights(weights['base'])
    leaves = tf.nest.flatten(base)
    return tf.nest.pack_sequence_as(
        base, [apply(*pair) for pair in zip(leaves, self.plan)]
    )

  def _add(self, base_weights, deltas):
    """Adds the change of each adapted leaf to weights of `merged`."""
    deltas = iter(deltas)
    return tf.nest.pack_sequence_as(base_weights, [
        leaf if entry.adaptor is None else leaf + next(deltas)
        for leaf, entry in zip(tf.nest.flatten(base_weights), self.plan)
    ])
