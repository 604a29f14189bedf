"""Messages of any structure as vectors, on which rules and attacks operate.

The floating leaves of a message are concatenated into one vector of their
widest dtype; other leaves are not changed.
"""

from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tff_pers import tff


def width(message_type: tff.Type) -> Optional[int]:
  """Returns d, the length of the vector; None if it is unknown."""
  shapes = [leaf.shape for leaf in _floats(message_type)]
  if any(shape is None or None in list(shape) for shape in shapes):
    return None
  return sum(int(np.prod(list(shape), dtype=np.int64)) for shape in shapes)


def dtype(message_type: tff.Type) -> Optional[tf.DType]:
  """Returns the widest dtype of the leaves; None without a floating leaf."""
  found = [tf.as_dtype(leaf.dtype) for leaf in _floats(message_type)]
  return max(found, key=lambda t: t.size) if found else None


def check_known(message_type: tff.Type) -> None:
  """Refuses messages that are not floating tensors of known shapes.

  Raises:
    TypeError: Names the first leaf that is not.
  """
  for leaf in _leaves(message_type):
    is_floating = np.issubdtype(leaf.dtype, np.floating)
    if not is_floating or leaf.shape is None or None in list(leaf.shape):
      raise TypeError(
          'A robust rule must have messages of floating tensors of known'
          f' shapes, found {leaf}.'
      )


def flatten(message: Any, wide: tf.DType) -> tf.Tensor:
  """Returns the vector, float[d] of the dtype `wide`."""
  return tf.concat(
      [
          tf.cast(tf.reshape(leaf, [-1]), wide)
          for leaf in tf.nest.flatten(message) if leaf.dtype.is_floating
      ],
      axis=0,
  )


def unflatten(vector: tf.Tensor, message: Any) -> Any:
  """Returns `vector` in the structure and shapes of `message`."""
  leaves, start = [], 0
  for leaf in tf.nest.flatten(message):
    if leaf.dtype.is_floating:
      part = vector[start : start + tf.size(leaf)]
      start += tf.size(leaf)
      leaf = tf.cast(tf.reshape(part, tf.shape(leaf)), leaf.dtype)
    leaves.append(leaf)
  return tf.nest.pack_sequence_as(message, leaves)


def of_type(vector: tf.Tensor, message_type: tff.Type) -> Any:
  """Returns `vector` as a value of the type, whose leaves are floating."""
  shapes = tff.types.structure_from_tensor_type_tree(
      lambda t: tf.TensorSpec(list(t.shape), t.dtype), message_type
  )
  leaves, start = [], 0
  # In the order of `flatten`, not of the type, because `tf.nest` sorts the
  # fields of a dictionary.
  for leaf in tf.nest.flatten(shapes):
    size = leaf.shape.num_elements()
    part = vector[start : start + size]
    start += size
    leaves.append(tf.cast(tf.reshape(part, leaf.shape), leaf.dtype))
  return tf.nest.pack_sequence_as(shapes, leaves)


def _floats(message_type: tff.Type) -> list[tff.TensorType]:
  return [
      leaf for leaf in _leaves(message_type)
      if np.issubdtype(leaf.dtype, np.floating)
  ]


def _leaves(message_type: tff.Type) -> list[tff.TensorType]:
  if isinstance(message_type, tff.TensorType):
    return [message_type]
  return tff.structure.flatten(message_type)
