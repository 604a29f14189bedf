"""Tools for methods that define their own `next` (while tracing)."""

import collections
from typing import Any, Callable, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.core import round_metrics
from tff_pers import tff


def stateless_client(state_type: tff.Type) -> tff.Computation:
  """Returns `initialize_client` for clients without a state."""
  return tff.tensorflow.computation(
      lambda state, index: (), state_type, np.int32
  )


def computed(function: Callable[..., Any], *values: Any) -> Any:
  """Returns `function(*values)`, a TensorFlow function.

  Args:
    function: Takes tensors, or structures of them.
    *values: All at the server, or all at the clients.
  """
  computation = tff.tensorflow.computation(function)
  return tff.federated_map(computation, values if values[1:] else values[0])


def fields_of(state: Any, *names: str) -> Any:
  """Returns some fields of S@SERVER, <...>@SERVER."""
  return tff.federated_zip(
      collections.OrderedDict((name, state[name]) for name in names)
  )


def advance(state: Any, **fields: Any) -> Any:
  """Returns the next S@SERVER: new fields, one round on.

  Args:
    state: S@SERVER.
    **fields: Values@SERVER that replace those of `state`.
  """
  names = tff.structure.name_list(state.type_signature.member)
  values = tff.federated_zip(
      collections.OrderedDict(
          (name, fields.get(name, state[name])) for name in names
      )
  )

  @tff.tensorflow.computation(values.type_signature.member)
  def one_round_on(values):
    return collections.OrderedDict(values, round=values['round'] + 1)

  return tff.federated_map(one_round_on, values)


def of_reports(data: Mapping[str, Any], reports: Any) -> Any:
  """Returns the metrics of a client with several reports in a round.

  That is `round_metrics.client_metrics`.

  Args:
    data: Dense client data.
    reports: One after another, each `<loss, weight, finite, bytes_down,
      bytes_up>`; the losses are averaged by their weights.
  """
  total = lambda name: sum(report[name] for report in reports)
  # A loss of weight 0 may be NaN.
  loss = sum(
      tf.math.multiply_no_nan(report['loss'], report['weight'])
      for report in reports
  )
  return round_metrics.client_metrics(
      data, tf.math.divide_no_nan(loss, total('weight')),
      tf.reduce_all([report['finite'] for report in reports]),
      bytes_down=total('bytes_down'), bytes_up=total('bytes_up'),
      weight=total('weight'),
  )
