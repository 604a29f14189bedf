"""Flipped labels, and the scope that flips them."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.attacks import labels
from tff_pers.data import client_data


def test_classes_are_mirrored():
  y = tf.constant([0, 1, 9])
  np.testing.assert_array_equal(labels.flipped(y, 10), [9, 8, 0])
  assert labels.flipped(tf.constant([[3]], tf.int64), 4).dtype == tf.int64


def test_targets_change_their_sign():
  y = tf.constant([1.5, -2.0], tf.float64)
  np.testing.assert_array_equal(labels.flipped(y, 0), [-1.5, 2.0])


def test_classes_without_a_number_are_refused():
  with pytest.raises(ValueError, match='`num_classes` must be >= 1'):
    labels.flipped(tf.constant([0]), 0)


@pytest.mark.parametrize('flips', [True, False])
def test_the_rest_of_the_data_stays(flips):
  data = client_data.dense(4, np.ones([3, 2], np.float32), np.arange(3))
  found = labels.flipped_where(tf.constant(flips), data, 3)
  np.testing.assert_array_equal(
      found['examples']['y'], [2, 1, 0] if flips else [0, 1, 2]
  )
  np.testing.assert_array_equal(found['examples']['x'], np.ones([3, 2]))
  assert (found['index'], found['num_examples']) == (4, 3)
  assert list(found) == list(data)
