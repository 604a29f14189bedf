"""Splits the weights of a model into global and private ones.

Partial personalization splits one model into global weights theta, which are
sent and averaged, and private weights w_i, which stay with client i:

    partition = from_scheme(model, 'output_layer')
    theta, w = partition.split(weights)
    weights = partition.merge(theta, w)

Federated Learning with Partial Model Personalization
    Pillutla, Malik, Mohamed, Rabbat, Sanjabi, Xiao. ICML 2022.
Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025 (splits: section 5).
"""

import collections.abc
import dataclasses
import fnmatch
import functools
import itertools
from typing import Any, Callable, ClassVar, Optional, Sequence

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import layers
from tff_pers.models import moving_statistics

_SIDES = ('global', 'private')
_NORM = ('norm', moving_statistics.KIND)
_NAMES_SHOWN = 8  # Names shown in messages.


@dataclasses.dataclass(frozen=True)
class Partition:
  """A model whose weights are split into a global and a private part.

  Each part is a tuple of leaves in the model's order. It has no names, because
  TFF's native runtime requires sorted field names in everything that passes
  through a sequence; an empty part is `()`.

  Limit cases: without private weights a method of split models is its global
  counterpart (FedAvg), without global weights it is local training.

  Attributes:
    made_by: How to make one from a model, for messages.
    model: The whole model.
    is_private: Whether each leaf of the weights, in the order of `tf.nest`, is
      private.
  """

  made_by: ClassVar[str] = (
      "models.partition.from_scheme(model, 'output_layer')"
  )
  model: functional.FunctionalModel
  is_private: tuple[bool, ...]

  def __post_init__(self):
    if len(self.is_private) != len(self.weights):
      raise ValueError(
          '`is_private` must have one entry for each of the'
          f' {len(self.weights)} weights of {self.model.name}, found'
          f' {len(self.is_private)}.'
      )

  @functools.cached_property
  def weights(self) -> tuple[functional.LayerWeight, ...]:
    """Descriptions of the leaves of the weights."""
    return layers.describe(self.model)

  def split(self, weights: Any) -> tuple[Any, Any]:
    """Returns (global part, private part) of a structure like the weights."""
    leaves = tf.nest.flatten(weights)
    is_global = [not private for private in self.is_private]
    return (
        tuple(itertools.compress(leaves, is_global)),
        tuple(itertools.compress(leaves, self.is_private)),
    )

  def merge(self, global_weights: Any, private_weights: Any) -> Any:
    """Returns the whole weights: the inverse of `split`."""
    sides = iter(global_weights), iter(private_weights)
    return tf.nest.pack_sequence_as(
        self.model.spec, [next(sides[private]) for private in self.is_private]
    )

  def initial_weights(self, seed: tf.Tensor) -> tuple[Any, Any]:
    """Returns (global part, private part) of the run's w^0."""
    return self.split(self.model.initial_weights(seed))

  def global_model(self, private_weights: Any) -> functional.FunctionalModel:
    """Returns the model of the global part, with a constant private part."""
    return self._part(0, lambda part: self.merge(part, private_weights))

  def private_model(self, global_weights: Any) -> functional.FunctionalModel:
    """Returns the model of the private part, with a constant global part."""
    return self._part(1, lambda part: self.merge(global_weights, part))

  @functools.cached_property
  def statistics(self) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """`FunctionalModel.statistics` of (global part, private part)."""
    return (
        self.global_model(()).statistics, self.private_model(()).statistics
    )

  def num_parameters(self) -> tuple[int, int]:
    """Returns the number of scalars of the global and the private part."""
    return tuple(
        sum(spec.shape.num_elements() for spec in part)
        for part in self.split(self.model.spec)
    )

  def summary(self) -> str:
    """Returns a table of all weights and their sides, with the totals."""
    rows = [('weight', 'kind', 'shape', 'parameters', 'side')]
    specs = tf.nest.flatten(self.model.spec)
    for weight, spec, private in zip(self.weights, specs, self.is_private):
      rows.append((
          weight.name, weight.kind, ' x '.join(map(str, weight.shape)),
          str(spec.shape.num_elements()), _SIDES[private],
      ))
    counts = self.num_parameters()
    parts = ', '.join(
        f'{count} {side} ({count / sum(counts):.2%})'
        for side, count in zip(_SIDES, counts)
    )
    return (
        f'{layers.table(rows)}\n'
        f'{self.model.name}: {sum(counts)} parameters; {parts}.'
    )

  def _part(self, side: int, merge) -> functional.FunctionalModel:
    """Returns the model over one part of its weights."""
    model = self.model
    return dataclasses.replace(
        model,
        init=lambda key: self.split(model.init(key))[side],
        predict=lambda part, *rest: model.predict(merge(part), *rest),
        penalty=model.penalty_by(lambda part: model.penalty(merge(part))),
        frozen=None,
        name=f'{model.name} ({_SIDES[side]} part)',
        layers=tuple(
            weight for weight, private in zip(self.weights, self.is_private)
            if private == side
        ),
    )


def by_predicate(
    model: functional.FunctionalModel,
    predicate: Callable[[functional.LayerWeight], bool],
) -> Partition:
  """Returns the partition whose private weights satisfy `predicate`.

  This is e.g. `lambda weight: weight.name.startswith('head/')`.
  """
  return Partition(
      model, tuple(bool(predicate(x)) for x in layers.describe(model))
  )


def from_scheme(model: functional.FunctionalModel, split: str) -> Partition:
  """Returns the partition that a flag names; neither part may be empty.

  The private weights are one of `SCHEMES`:

    input_layer : the layer of the first kernel, and the normalizations after
                  it; as in the papers, an embedding table is no input layer
    output_layer: the layer of the last kernel
    norm        : scales, offsets and moving statistics of all normalizations
    bias        : the biases of all layers
    adapter     : the adaptors of an adapted model, e.g. of
                  `adaptors.floral(model, 1).mixed([1.0])`

  Args:
    model: The model.
    split: A scheme, or a shell pattern of names, e.g. 'dense_2/*' or
      '*/kernel'; or several with colons between them, e.g. 'adapter:norm': a
      weight is private if it matches one of them.

  Raises:
    ValueError: If a scheme or pattern matches no weight, or all weights would
      be private, or if the model does not describe its weights well enough for
      a scheme.
  """
  weights = layers.describe(model)
  chosen = [_choose(model, weights, item) for item in items(split)]
  partition = Partition(model, tuple(map(any, zip(*chosen))))
  if all(partition.is_private):
    raise ValueError(
        f'`split` must leave {model.name} a global weight, found {split!r},'
        ' which makes all of them private. Tip: local_only trains every client'
        ' independently.'
    )
  return partition


def last_layers(model: functional.FunctionalModel, count: int) -> Partition:
  """Returns the partition whose private weights are the last layers.

  These are `count` layers with a kernel, at most all of them, or all layers if
  none has one; a normalization between two of them stays global.

  Raises:
    ValueError: If the model does not say which layer is last, or has several
      outputs.
  """
  weights = layers.describe(model)
  applied = layers.as_applied(weights)
  named = list(dict.fromkeys(_kernels(applied) or [w.layer for w in applied]))
  reason = _unknown(model, weights, 'output_layer')
  if count and len(weights) > 1 and reason is not None:
    raise ValueError(
        f'`model` must say which layer is its last one, but {model.name} does'
        f' not say {reason}.' + (
            '' if model.num_outputs > 1
            else ' Tip: describe all weights in FunctionalModel.layers.'
        )
    )
  last = named[-count:] if count else []
  return by_predicate(model, lambda weight: weight.layer in last)


def items(split: str) -> list[str]:
  """Returns the schemes and patterns of a flag, see `from_scheme`."""
  return [item.strip() for item in split.split(':')]


def _choose(model, weights, item: str) -> list[bool]:
  """Returns which weights match one scheme or pattern."""
  if item in SCHEMES:
    # Adaptors are never inferred from shapes: their kind is certain.
    reason = item != 'adapter' and _unknown(model, weights, item)
    if reason:
      raise ValueError(
          f'`split` must be a pattern of names, because {model.name} does not'
          f' say {reason}, found {item!r}. Tip: name layers, such as'
          f' {weights[-1].layer}/*' + (
              '.' if model.num_outputs > 1
              else ', or describe all weights in FunctionalModel.layers.'
          )
      )
    applied = layers.as_applied(weights)
    found = dict(zip((w.name for w in applied), SCHEMES[item](applied)))
    fits = [found[weight.name] for weight in weights]
  else:
    fits = [fnmatch.fnmatchcase(weight.name, item) for weight in weights]
  if any(fits):
    return fits
  names = [weight.name for weight in weights]
  more = ', ...' if len(names) > _NAMES_SHOWN else ''
  tip = ''
  if item == 'adapter':
    tip = ' Tip: adapt the model first, see adaptors.floral.'
  raise ValueError(
      f'`split` must be {", ".join(SCHEMES)}, or a pattern of names, and match'
      f' a weight of {model.name} ({", ".join(names[:_NAMES_SHOWN])}{more}),'
      f' found {item!r}, which matches none.{tip}'
  )


def _unknown(model, weights, scheme: str) -> Optional[str]:
  """Returns what a scheme needs and the model does not say, or None."""
  unknown = [weight for weight in weights if weight.kind == 'unknown']
  if unknown:
    return f'what {unknown[0].name} of shape {unknown[0].shape} is'
  # `tf.nest` sorts the leaves of a mapping by key: 'head' comes before
  # 'hidden', although it is applied after it.
  is_ordered = scheme in ('input_layer', 'output_layer')
  if is_ordered and model.layers is None and _has_mapping(model.spec):
    return 'in which order its layers are applied'
  if scheme == 'output_layer' and model.num_outputs > 1:
    return 'which layers end in which of its outputs'
  return None


def _has_mapping(structure) -> bool:
  if isinstance(structure, collections.abc.Mapping):
    return True
  is_sequence = isinstance(structure, (list, tuple))
  return is_sequence and any(map(_has_mapping, structure))


def _is_kernel(weight: functional.LayerWeight) -> bool:
  """Whether it multiplies inputs; Keras has kernels of further kinds."""
  return weight.kind in ('dense', 'conv') or weight.name.endswith('kernel')


def _kernels(weights: Sequence[functional.LayerWeight]) -> list[str]:
  """Returns the layer of each kernel, in order."""
  return [weight.layer for weight in weights if _is_kernel(weight)]


def _input_layer(weights: Sequence[functional.LayerWeight]) -> list[bool]:
  kernels = _kernels(weights)
  block, current = set(kernels[:1]), None
  for weight in weights:
    if _is_kernel(weight):
      current = weight.layer
    # A first layer and its norm are one block (ResNet-18: 576 + 128). Its
    # statistics may come after all other weights.
    if weight.kind == 'norm' and current in kernels[:1]:
      block.add(weight.layer)
  return [weight.layer in block for weight in weights]


def _output_layer(weights: Sequence[functional.LayerWeight]) -> list[bool]:
  last = _kernels(weights)[-1:]
  return [weight.layer in last for weight in weights]


def _of_kind(*kinds: str):
  return lambda weights: [weight.kind in kinds for weight in weights]


SCHEMES = {
    'input_layer': _input_layer,
    'output_layer': _output_layer,
    'norm': _of_kind(*_NORM),
    'bias': _of_kind('bias'),
    'adapter': _of_kind('adaptor'),
}
