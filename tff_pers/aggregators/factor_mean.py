"""The weighted mean of updates that hold some matrices as factors."""

import collections
from typing import Any, Sequence

import numpy as np
import tensorflow as tf

from tff_pers import tff


class FactorMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """Averages updates in which some matrices are given as factors.

    sum_i q_i V_i^T U_i / sum_i q_i   for each factored matrix,
    sum_i q_i d_i / sum_i q_i         for every other tensor

  Each client's V^T U is added directly to the sum; no other matrix of its size
  is formed.

  `next`: <S@SERVER, {V}@CLIENTS, {weight}@CLIENTS> -> <state=S, result=R,
  measurements=M>@SERVER with

    V = <dense: the other tensors in order,
         factors: <u: [rows, m], v: [rows, n]> of each matrix [n, m]>

  R has the structure that the factory was made for, and S and M are those of
  `tff.aggregators.MeanFactory(no_nan_division=True)`: weights that sum to 0
  give zeros.
  """

  def __init__(self, spec: Any, positions: Sequence[int]):
    """Initializes the factory.

    Args:
      spec: The structure of `tf.TensorSpec`s of the result.
      positions: Positions of its tensors given as factors, ascending.
    """
    self._spec, self._positions = spec, tuple(positions)

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process.

    Raises:
      TypeError: If `value_type` is not V.
    """
    self._check(value_type)

    @tff.tensorflow.computation(value_type, weight_type)
    def weighted(value, weight):
      scaled = lambda leaf: leaf * tf.cast(weight, leaf.dtype)
      return collections.OrderedDict(
          dense=tf.nest.map_structure(scaled, value['dense']),
          # Scale only one factor: q (V^T U) = V^T (q U).
          factors=[
              collections.OrderedDict(u=scaled(pair['u']), v=pair['v'])
              for pair in value['factors']
          ],
      )

    @tff.tensorflow.computation
    def zero():
      return tf.nest.map_structure(
          lambda spec: tf.zeros(spec.shape, spec.dtype),
          tf.nest.flatten(self._spec),
      )

    @tff.tensorflow.computation(
        zero.type_signature.result, weighted.type_signature.result
    )
    def accumulate(total, value):
      return [a + b for a, b in zip(total, self._terms(value))]

    @tff.tensorflow.computation(
        zero.type_signature.result, zero.type_signature.result
    )
    def merge(total, other):
      return [a + b for a, b in zip(total, other)]

    @tff.tensorflow.computation(zero.type_signature.result)
    def report(total):
      return tf.nest.pack_sequence_as(self._spec, total)

    mean = tff.aggregators.MeanFactory(no_nan_division=True).create(
        report.type_signature.result, weight_type
    )

    @tff.tensorflow.computation(report.type_signature.result, weight_type)
    def divided(total, weight):
      return tf.nest.map_structure(
          lambda leaf: tf.math.divide_no_nan(leaf, tf.cast(weight, leaf.dtype)),
          total,
      )

    @tff.tensorflow.computation
    def measured():
      return collections.OrderedDict(mean_value=(), mean_weight=())

    @tff.federated_computation(
        mean.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      total = tff.federated_aggregate(
          tff.federated_map(weighted, (value, weight)), zero(), accumulate,
          merge, report,
      )
      result = tff.federated_map(divided, (total, tff.federated_sum(weight)))
      return tff.templates.MeasuredProcessOutput(
          state, result, tff.federated_eval(measured, tff.SERVER)
      )

    return tff.templates.AggregationProcess(mean.initialize, next_fn)

  def _terms(self, value):
    """Returns the terms that a weighted value adds to each tensor, in order."""
    dense, factors = iter(value['dense']), iter(value['factors'])
    for position in range(len(tf.nest.flatten(self._spec))):
      if position in self._positions:
        pair = next(factors)
        yield tf.matmul(pair['v'], pair['u'], transpose_a=True)
      else:
        yield next(dense)

  def _check(self, value_type) -> None:
    """Raises a TypeError if a value does not have the expected form."""
    leaves = tf.nest.flatten(self._spec)
    expected = tff.to_type(collections.OrderedDict(
        dense=[
            tff.TensorType(leaf.dtype.as_numpy_dtype, leaf.shape)
            for position, leaf in enumerate(leaves)
            if position not in self._positions
        ],
        factors=[
            collections.OrderedDict(
                u=_rows_type(leaf.dtype, leaf.shape[1]),
                v=_rows_type(leaf.dtype, leaf.shape[0]),
            )
            for leaf in (leaves[position] for position in self._positions)
        ],
    ))
    if not expected.is_assignable_from(value_type):
      raise TypeError(
          f'`value_type` must be {expected.compact_representation()}, found'
          f' {value_type.compact_representation()}.'
      )


def fits(value: Any) -> bool:
  """Returns whether each pair of factors has a finite product.

  Args:
    value: A client's message, arrays of finite numbers of the form above.
  """
  for pair in value['factors']:
    u, v = (np.asarray(pair[name]) for name in ('u', 'v'))
    if len(u) != len(v):
      return False
    # An upper bound on the entries of the product.
    bound = np.prod([np.linalg.norm(a.astype(np.float64)) for a in (u, v)])
    if bound > np.finfo(u.dtype).max:
      return False
  return True


def _rows_type(dtype: tf.DType, width: int) -> tff.TensorType:
  return tff.TensorType(dtype.as_numpy_dtype, [None, width])
