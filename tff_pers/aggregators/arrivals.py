"""Sums messages that arrive together, and reports their version.

In asynchronous training a client starts from some version of the server's
weights, and the server has a later version when the message arrives. Messages
contain their version; the difference is the staleness.
"""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import absence
from tff_pers import tff

_LATEST = np.iinfo(np.int32).max


class ArrivalsFactory(tff.aggregators.WeightedAggregationFactory):
  """Sums messages `<..., version=int32>`; clients of weight 0 are absent.

  `next`: <()@SERVER, {V}@CLIENTS, {weight}@CLIENTS> -> <state=(), result=<
  sum=V', weight=float32, count=int32, version=int32>, measurements=()>@SERVER,
  V' being V without `version`.

    sum: sum_i q_i x_i over the clients that are present, with weights q_i.
    weight: sum_i q_i.
    count: Number of clients that are present.
    version: The oldest version among them; an asynchronous driver passes one
      message at a time, all messages of a round have one version. If no client
      is present: 2^31 - 1.
  """

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process.

    Raises:
      TypeError: If the messages have no field `version`.
    """
    names = (
        tff.structure.name_list(value_type)
        if isinstance(value_type, tff.StructType) else []
    )
    if 'version' not in names:
      raise TypeError(
          f'`value_type` must have a field `version`, found {value_type}.'
      )
    is_present = absence.build_is_present(weight_type)

    @tff.tensorflow.computation(value_type, weight_type)
    def weighed(value, weight):
      present = is_present(weight)
      return collections.OrderedDict(
          sum=collections.OrderedDict(
              (name, tf.nest.map_structure(
                  lambda x: x * tf.cast(weight, x.dtype), value[name]
              )) for name in names if name != 'version'
          ),
          weight=tf.cast(weight, tf.float32), count=present,
          version=tf.where(present > 0, value['version'], _LATEST),
      )

    @tff.tensorflow.computation
    def latest():
      return tf.constant(_LATEST, tf.int32)

    @tff.tensorflow.computation(np.int32, np.int32)
    def older(a, b):
      return tf.minimum(a, b)

    @tff.tensorflow.computation(np.int32)
    def as_it_is(version):
      return version

    @tff.federated_computation
    def init_fn():
      return tff.federated_eval(tff.tensorflow.computation(lambda: ()),
                                tff.SERVER)

    @tff.federated_computation(
        init_fn.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      own = tff.federated_map(weighed, (value, weight))
      result = tff.federated_zip(collections.OrderedDict(
          sum=tff.federated_sum(own.sum), weight=tff.federated_sum(own.weight),
          count=tff.federated_sum(own.count),
          version=tff.federated_aggregate(
              own.version, latest(), older, older, as_it_is
          ),
      ))
      return tff.templates.MeasuredProcessOutput(
          state, result,
          tff.federated_eval(tff.tensorflow.computation(lambda: ()),
                             tff.SERVER),
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)
