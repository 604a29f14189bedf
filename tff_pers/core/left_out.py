"""Leaves clients out of the training metrics."""

import contextlib
from typing import ContextManager, Optional

import numpy as np
import tensorflow as tf

from tff_pers.core import interception


class _LeftOut(interception.Change):
  """See `leaving_out`."""

  def __init__(self, clients: np.ndarray):
    self._clients = clients

  def is_reported(self, is_reported, data):
    left_out = tf.gather(tf.constant(self._clients, tf.bool), data['index'])
    return tf.logical_and(is_reported, tf.logical_not(left_out))


def leaving_out(clients: Optional[np.ndarray]) -> ContextManager[None]:
  """Leaves `clients` out of the training metrics of what is built inside.

  They train like all others; their loss and own metrics have weight 0 in the
  means of a round. A program builds the method inside, since only the program
  knows who is Byzantine: no method has to pass the mask on.

      with left_out.leaving_out(task.byzantine):
        process = method.build(task, hyperparameters)

  Args:
    clients: bool[N], or None: all are reported, and nothing is traced.
  """
  if clients is None:
    return contextlib.nullcontext()
  return interception.changing(_LeftOut(clients))
