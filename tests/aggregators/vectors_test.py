"""Messages as vectors."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import vectors


def test_a_message_is_a_vector_and_comes_back():
  """Floats in the widest dtype, in order; what is no float stays as it is."""
  a, b = np.float64([[1.5], [-2.5]]), np.float32([0.25, 7.0])
  message = collections.OrderedDict(a=(a, np.int32([3, 4, 5])), b=b)
  message = tf.nest.map_structure(tf.constant, message)
  message_type = tff.to_type(collections.OrderedDict(
      a=((np.float64, [2, 1]), (np.int32, [3])), b=(np.float32, [2]),
  ))
  wide = vectors.dtype(message_type)
  assert (wide, vectors.width(message_type)) == (tf.float64, 4)
  vector = vectors.flatten(message, wide)
  np.testing.assert_array_equal(vector, np.concatenate([a.ravel(), b]))
  found = vectors.unflatten(2 * vector, message)
  np.testing.assert_array_equal(found['a'][0], 2 * a)
  np.testing.assert_array_equal(found['a'][1], [3, 4, 5])
  np.testing.assert_array_equal(found['b'], 2 * b)
  of_floats = tff.to_type(collections.OrderedDict(
      a=((np.float64, [2, 1]),), b=(np.float32, [2]),
  ))
  typed = vectors.of_type(vector, of_floats)
  np.testing.assert_array_equal(typed['a'][0], a)
  np.testing.assert_array_equal(typed['b'], b)
  assert (typed['b'].dtype, found['b'].dtype) == (tf.float32, tf.float32)
  assert vectors.width(tff.to_type((np.float32, [None]))) is None
