"""Means of models, some of which hold factors instead of kernels.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021.
    https://arxiv.org/abs/2111.14655
"""

import collections
from typing import Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import mapped
from tff_pers.numerics import factorization
from tff_pers.numerics import low_rank
from tff_pers import tff


class LowRankMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """Averages products of factors, never factors: sum_p a_p v_p u_p / sum_p a_p.

  A value is `<factors, weights>`, with one entry of `factors` per leaf of the
  weights: `()`, or the factors `<v, u>`, of any rank, of the kernel. Either the
  kernel has 0 rows, or the factors have rank 0 beside a complete kernel
  (`factorization.either`). So clients of all ranks send one type,

      <factors=<<>, <v=float32[n,?], u=float32[?,m]>>,
       weights=<float32[m], float32[?,m]>>

  and the factors are what is sent. A product has to be formed before summing:
  in simulation clients do it, in a deployment the server.

  `next`: <S@SERVER, {V}@CLIENTS, {float32}@CLIENTS> -> <state=S, result=R,
  measurements=M>@SERVER with R = `<weights>` of full shape, S and M those of
  the inner mean.

  With `head`, a value has a third field `owned` float32[C], 1 for the classes
  that a client has and 0 for others, and the leaves of the output layer are
  averaged class by class over their owners, with weights renormalised to one:

      row_c = sum_p a_p owned_pc row_pc / sum_p a_p owned_pc

  R then also has a field `owned` float32[C], the weight of the owners; if it is
  0, the row is 0.
  """

  def __init__(
      self,
      mean_factory: Optional[
          tff.aggregators.WeightedAggregationFactory
      ] = None,
      *,
      head: Sequence[int] = (),
  ):
    """Initializes the factory.

    Args:
      mean_factory: Averages the full weights. None: TFF's mean, zeros if all
        weights are 0.
      head: Positions of the leaves whose last axis are the classes; if empty,
        clients do not report the classes that they own.
    """
    self._mean_factory = mean_factory or tff.aggregators.MeanFactory(
        no_nan_division=True
    )
    self._head = tuple(head)

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type of what a client sends, see the class.
      weight_type: TFF type of its weight.

    Raises:
      TypeError: If `value_type` does not have the form described above.
    """
    form = self.build_form(value_type)
    return mapped.map_first(
        form, self.of_formed.create(form.type_signature.result, weight_type)
    )

  def build_form(self, value_type: tff.Type) -> tff.Computation:
    """Returns (value -> whole), which multiplies out one client's factors.

    The server works on these products, and attacks act on them.

    Args:
      value_type: See `create`.

    Raises:
      TypeError: If `value_type` does not have the form described above.
    """
    _check_type(value_type, bool(self._head))
    head = self._head

    @tff.tensorflow.computation(value_type)
    def as_sent(value):
      leaves = _whole(value, value_type)
      fields = collections.OrderedDict()
      if head:
        owned = fields['owned'] = value['owned']
        for position in head:
          leaves[position] *= tf.cast(owned, leaves[position].dtype)
      fields['weights'] = tf.nest.pack_sequence_as(value['weights'], leaves)
      return fields

    return as_sent

  @property
  def of_formed(self) -> tff.aggregators.WeightedAggregationFactory:
    """The factory for results of `build_form`."""
    if not self._head:
      return self._mean_factory
    return _HeadMeanFactory(self._mean_factory, self._head)


class _HeadMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """Averages `<owned, weights>`, the rows of classes over their owners."""

  def __init__(self, mean_factory, head):
    self._mean_factory = mean_factory
    self._head = head

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process."""
    mean = self._mean_factory.create(value_type, weight_type)
    head = self._head

    @tff.federated_computation(
        mean.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      output = mean.next(state, value, weight)
      result = tff.federated_map(
          _build_renormalise(output.result.type_signature.member, head),
          output.result,
      )
      return tff.templates.MeasuredProcessOutput(
          output.state, result, output.measurements
      )

    return tff.templates.AggregationProcess(mean.initialize, next_fn)


def _build_renormalise(result_type, head) -> tff.Computation:
  """Divides the means of the rows of classes by those of their owners."""

  @tff.tensorflow.computation(result_type)
  def renormalise(result):
    leaves, owned = tf.nest.flatten(result['weights']), result['owned']
    for position in head:
      leaf = leaves[position]
      leaves[position] = tf.math.divide_no_nan(leaf, tf.cast(owned, leaf.dtype))
    return collections.OrderedDict(
        owned=owned,
        weights=tf.nest.pack_sequence_as(result['weights'], leaves),
    )

  return renormalise


def _whole(value, value_type) -> list:
  """Returns the leaves of the weights, factors multiplied out."""
  tensors = iter(tf.nest.flatten(value['factors']))
  leaves = []
  for leaf, own in zip(
      tf.nest.flatten(value['weights']), value_type['factors']
  ):
    if len(own):
      factors = low_rank.Factors(next(tensors), next(tensors))
      leaf = factorization.either(leaf, factors)
    leaves.append(leaf)
  return leaves


def _check_type(value_type: tff.Type, has_head: bool) -> None:
  """Raises the errors that `create` documents."""
  names = (
      tff.structure.name_list(value_type)
      if isinstance(value_type, tff.StructType) else []
  )
  expected = ['factors', *(['owned'] if has_head else []), 'weights']
  if sorted(names) != expected:
    raise TypeError(
        f'`value_type` must be a structure <{", ".join(expected)}>, found'
        f' {value_type}.'
    )
  leaves = tff.structure.flatten(value_type['weights'])
  entries = [
      tff.structure.flatten(entry) for entry in value_type['factors']
  ]
  fits = len(entries) == len(leaves) and all(
      np.issubdtype(leaf.dtype, np.floating)
      and (not entry or _are_factors(leaf, entry))
      for leaf, entry in zip(leaves, entries)
  )
  if not fits:
    raise TypeError(
        '`factors` must have an entry for each leaf of `weights`, () or <v, u>'
        ' of a kernel [n, m] or [height, width, in, out] of floats, found'
        f' {value_type}.'
    )


def _are_factors(kernel, factors) -> bool:
  """Returns whether types are those of a kernel and its factors."""
  if len(factors) != 2 or len(kernel.shape) not in (2, 4):
    return False
  v, u = (list(factor.shape) for factor in factors)
  if len(v) != len(kernel.shape) or len(u) != len(kernel.shape):
    return False
  return v[-1] == u[-2] and list(kernel.shape)[1:] == (
      u[1:] if len(u) == 2 else [u[1], v[2], u[3]]
  )
