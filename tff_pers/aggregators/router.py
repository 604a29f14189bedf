"""Router-weighted averaging: adaptors by use, the base by amounts of data.

A mean with one scalar weight per part of the value. It consists of two sums, of
weighted values and of weights, so that the server sees only sums: it needs
neither identities nor routers.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    FLoRAL, Algorithm 1, last two lines.
"""

import collections
from typing import Optional

import numpy as np
import tensorflow as tf

from tff_pers import tff

# Smaller weights count as 0, because their products with values would underflow
# in float32. Routers reach such weights: the softmax of logits 0 and -100 has
# the weight 3.7e-44, a subnormal number.
_NEGLIGIBLE = 1e-20


class RouterWeightedFactory(tff.aggregators.WeightedAggregationFactory):
  """Averages `<adaptors, base>` with weights a_k = (n_k, q_k1, ..., q_kC).

    base       : sum_k n_k base_k / sum_k n_k
    adaptor c  : sum_k q_kc adaptors_k[c] / sum_k q_kc,   q_kc = pi_kc n_k

  where pi_k is client k's router, and adaptors_k[c] is row c of every leaf of
  `adaptors`. The factors of low-rank adaptors are averaged, not their products.

  `next`: <S@SERVER, {V}@CLIENTS, {float32[C+1]}@CLIENTS> -> <state=S, result=V,
  measurements=M>@SERVER, with V = <adaptors, base>, every leaf of `adaptors`
  [C, ...]. If a part has no weight at all (or less than 1e-20), its result is 0
  for any values, including NaN and infinity: if values are differences, an
  adaptor that no client used keeps its value. C = 0 averages `base` as
  `tff.aggregators.MeanFactory(no_nan_division=True)` does.
  """

  def __init__(
      self,
      value_sum_factory: Optional[
          tff.aggregators.UnweightedAggregationFactory
      ] = None,
      weight_sum_factory: Optional[
          tff.aggregators.UnweightedAggregationFactory
      ] = None,
      *,
      base_factory: Optional[
          tff.aggregators.WeightedAggregationFactory
      ] = None,
      with_shares: bool = False,
  ):
    """Initializes the factory.

    Args:
      value_sum_factory: Sums the weighted values `<adaptors, base>`, e.g. after
        clipping, with noise, or securely. None: a plain sum.
      weight_sum_factory: Sums the weights float32[C+1]. None: a plain sum.
      base_factory: Combines `base` by the weights n_k, e.g. a robust rule;
        None: the mean above.
      with_shares: Whether the result has a further field `shares` float32[C],
        sum_k q_kc / sum_k n_k: the use of each adaptor.
    """
    self._value_sum = value_sum_factory or tff.aggregators.SumFactory()
    self._weight_sum = weight_sum_factory or tff.aggregators.SumFactory()
    self._base_factory = base_factory
    self._with_shares = with_shares

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type of <adaptors, base>.
      weight_type: float32[C+1], see `router_weight`.

    Raises:
      TypeError: If the types do not have the form described above.
    """
    _check_types(value_type, weight_type)
    value_sum = self._value_sum.create(value_type)
    weight_sum = self._weight_sum.create(weight_type)

    @tff.tensorflow.computation(weight_type)
    def drop_negligible(weight):
      return tf.where(weight < _NEGLIGIBLE, tf.zeros_like(weight), weight)

    @tff.tensorflow.computation(value_type, weight_type)
    def multiply(value, weight):
      # 0 * NaN is 0 here: a diverged adaptor that its client does not use must
      # not affect the others.
      return _by_part(tf.math.multiply_no_nan, value, weight)

    @tff.tensorflow.computation(value_type, weight_type)
    def divide(value, weight):
      # 0 / 0 is 0 here, so an adaptor that the cohort did not use stays.
      return _by_part(tf.math.divide_no_nan, value, weight)

    @tff.tensorflow.computation(value_type, weight_type)
    def add_shares(result, weight):
      # p(c) = sum_k p(k) pi_kc over the cohort (Appendix E).
      shares = tf.math.divide_no_nan(weight[1:], weight[0])
      return collections.OrderedDict(result, shares=shares)

    parts = collections.OrderedDict(value_sum=value_sum, weight_sum=weight_sum)
    if self._base_factory is not None:
      parts['base'] = self._base_factory.create(
          value_type['base'], tff.TensorType(np.float32)
      )

    @tff.tensorflow.computation(weight_type)
    def base_weight(weight):
      return weight[0]

    @tff.tensorflow.computation(value_type, value_type['base'])
    def with_base(result, base):
      return collections.OrderedDict(adaptors=result['adaptors'], base=base)

    @tff.federated_computation
    def init_fn():
      return tff.federated_zip(
          collections.OrderedDict(
              (name, part.initialize()) for name, part in parts.items()
          )
      )

    @tff.federated_computation(
        init_fn.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      weight = tff.federated_map(drop_negligible, weight)
      values = value_sum.next(
          state['value_sum'], tff.federated_map(multiply, (value, weight))
      )
      weights = weight_sum.next(state['weight_sum'], weight)
      result = tff.federated_map(divide, (values.result, weights.result))
      outputs = collections.OrderedDict(value_sum=values, weight_sum=weights)
      if 'base' in parts:
        # Replaces the mean, which is then unused.
        outputs['base'] = parts['base'].next(
            state['base'], value['base'], tff.federated_map(base_weight, weight)
        )
        result = tff.federated_map(with_base, (result, outputs['base'].result))
      if self._with_shares:
        result = tff.federated_map(add_shares, (result, weights.result))
      return tff.templates.MeasuredProcessOutput(
          _zip_parts(outputs, 'state'), result,
          _zip_parts(outputs, 'measurements'),
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)


def router_weight(num_examples: tf.Tensor, router: tf.Tensor) -> tf.Tensor:
  """Returns a client's weight (n_k, pi_k1 n_k, ..., pi_kC n_k), float32[C+1].

  Args:
    num_examples: Scalar >= 0, n_k or another weight of the client.
    router: pi_k, float[C].
  """
  n = tf.cast(num_examples, tf.float32)
  return tf.concat([n[None], n * tf.cast(router, tf.float32)], axis=0)


def _zip_parts(outputs, name: str):
  """Returns one part of several outputs as a structure@SERVER."""
  return tff.federated_zip(
      collections.OrderedDict(
          (key, getattr(output, name)) for key, output in outputs.items()
      )
  )


def _by_part(operation, value, weight):
  """Returns `operation(leaf, its weight)` for the leaves of `value`.

  Args:
    operation: `(x, y) -> tensor`, broadcasting.
    value: `<adaptors, base>`.
    weight: float32[C+1].
  """
  def base_leaf(x):
    return operation(x, tf.cast(weight[0], x.dtype))

  def adaptor_leaf(x):
    rows = tf.reshape(weight[1:], [-1] + [1] * (len(x.shape) - 1))
    return operation(x, tf.cast(rows, x.dtype))

  return collections.OrderedDict(
      adaptors=tf.nest.map_structure(adaptor_leaf, value['adaptors']),
      base=tf.nest.map_structure(base_leaf, value['base']),
  )


def _check_types(value_type: tff.Type, weight_type: tff.Type) -> None:
  """Raises the errors that `create` documents."""
  names = (
      tff.structure.name_list(value_type)
      if isinstance(value_type, tff.StructType)
      else []
  )
  leaves = tff.structure.flatten(value_type) if names else [value_type]
  if names != ['adaptors', 'base'] or not all(
      np.issubdtype(leaf.dtype, np.floating) for leaf in leaves
  ):
    raise TypeError(
        '`value_type` must be a structure <adaptors, base> of floats, found'
        f' {value_type}.'
    )
  is_vector = (
      isinstance(weight_type, tff.TensorType)
      and weight_type.dtype == np.float32
      and len(weight_type.shape) == 1
      and weight_type.shape[0]
  )
  if not is_vector:
    raise TypeError(
        '`weight_type` must be float32[C+1] for C >= 0 adaptors, found'
        f' {weight_type}.'
    )
  num_adaptors = weight_type.shape[0] - 1
  for leaf in tff.structure.flatten(value_type['adaptors']):
    if not leaf.shape or leaf.shape[0] != num_adaptors:
      raise TypeError(
          'Every leaf of `adaptors` must have one row per adaptor,'
          f' [{num_adaptors}, ...] by `weight_type`, found {leaf}.'
      )
