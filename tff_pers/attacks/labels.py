"""The data attack: an honest client on flipped labels.

The client's whole local procedure runs on flipped labels, including its
personal part.
"""

import collections
from typing import Any, Mapping

import tensorflow as tf


def flipped(y: tf.Tensor, num_classes: int) -> tf.Tensor:
  """Returns C - 1 - y for labels, -y for targets of a regression.

  Args:
    y: The labels of a client, int[n, ...] or float[n, ...].
    num_classes: C; 0: a regression.

  Raises:
    ValueError: If integer labels come without a number of classes.
  """
  y = tf.convert_to_tensor(y)
  if not y.dtype.is_integer:
    return -y
  if num_classes < 1:
    raise ValueError(
        '`num_classes` must be >= 1 with integer labels, which have to be'
        f' flipped, found {num_classes}.'
    )
  return tf.constant(num_classes - 1, y.dtype) - y


def flipped_where(
    flips: tf.Tensor, data: Mapping[str, Any], num_classes: int
) -> Any:
  """Returns dense client data, with flipped labels if `flips`, a bool.

  Raises:
    ValueError: If there are several outputs.
  """
  examples = data['examples']
  if tf.nest.is_nested(examples['y']):
    raise ValueError(
        'Labels can only be flipped for one output, found several. Tip: an'
        ' attack on messages.'
    )
  y = tf.cond(
      flips, lambda: flipped(examples['y'], num_classes), lambda: examples['y']
  )
  return collections.OrderedDict(
      data, examples=collections.OrderedDict(examples, y=y)
  )
