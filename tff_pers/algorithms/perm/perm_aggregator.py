"""The mean in line (a) of PERM, which w descends, or a rule in its place.

See `perm` for the rounds around it.
"""

import collections
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tff_pers.aggregators import choice
from tff_pers.aggregators import partial
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.core import interception


def build_aggregator(
    devices: perm_devices.Devices, data_type: tff.Type,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> tff.templates.AggregationProcess:
  """Returns the mean of line (a), or the robust rule in its place.

  Where clients have parts of the model it is a mean in each coordinate, over
  the clients that have it.

  Args:
    devices: What the clients' devices hold.
    data_type: D, dense client data.
    hyperparameters: `PermHyperparameters`.
  """
  sent_type = tff.tensorflow.computation(
      lambda update, data: interception.changed(
          'update', devices.sent(update, data['index']), data
      ), devices.model.weights_type, data_type,
  ).type_signature.result
  factory = choice.chosen(hyperparameters) or tff.aggregators.MeanFactory(
      no_nan_division=True
  )
  if devices.parts is not None:
    factory = partial.PartialMeanFactory(factory)
  return interception.changed('aggregator', factory).create(
      sent_type, tff.TensorType(np.float32)
  )


def measurements(mean: Any) -> list[Any]:
  """Returns [<aggregator>@SERVER], or [] if the rule measures nothing.

  Args:
    mean: What `next` of the aggregator returned.
  """
  if not tff.structure.flatten(mean.measurements.type_signature.member):
    return []
  return [
      tff.federated_zip(collections.OrderedDict(aggregator=mean.measurements))
  ]
