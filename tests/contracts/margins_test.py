"""What counts as too close to call."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.testing import margins


@pytest.mark.parametrize('logits, expected', [
    ([[1.0, 3.0, 2.9], [0.0, 0.0, 9.0]], [0, 0]),
    ([[3.0, 1.0, 2.9999], [np.nan, 0.0, 9.0]], [1, 1]),
    ([[5.0, 5.0, 5.0], [5.0, 5.0, 4.0]], [1, 1]),
    ([[0.2], [-0.2], [1e-4], [-1e-4]], [0, 0, 1, 1]),
])
def test_two_largest_logits_are_compared(logits, expected):
  found = margins.is_close(tf.constant(logits, tf.float32), 1e-3)
  np.testing.assert_array_equal(found, expected)
