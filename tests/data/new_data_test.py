"""Labels of tables that come after training."""

import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import new_data
from tff_pers.data import tables


def _table(y, classes=None):
  size = len(y)
  return tables.Table(
      'later.csv', np.zeros([size, 1]), np.array(y), np.zeros(size, int),
      np.array(['ann']), None, classes=classes,
  )


@pytest.mark.parametrize('y, classes, expected', [
    ([1, -1, 1], ('-1', '1'), [1, 0, 1]),
    # Spelled otherwise, they are the same numbers.
    ([1.0, 0.0], ('False', 'True'), [1, 0]), ([900, 3], ('3', '900'), [1, 0]),
    ([10, 9, 2], ('10', '2', '9'), [0, 2, 1]), ([1, 0], None, [1, 0]),
])
def test_labels_are_those_of_training(y, classes, expected):
  found = new_data.labels(_table(y), len(classes or '01'), classes)
  assert found.tolist() == expected and found.dtype == np.int32


def test_names_are_found_by_name():
  table = _table([0, 1], classes=('b', 'a'))
  assert new_data.labels(table, 2, ('a', 'b')).tolist() == [1, 0]


@pytest.mark.parametrize('table, classes, sentence', [
    (_table([1, 2]), ('-1', '1'), 'one of -1, 1, .* found 2 in row 1 of'),
    (_table([1]), ('no', 'yes'), 'names of classes as in the training data'),
    (_table([0], ('a',)), None, 'numbers as in the training data'),
    (_table([0], ('c',)), ('a', 'b'), "one of a, b, .* found 'c'"),
])
def test_other_labels_are_refused(table, classes, sentence):
  with pytest.raises(errors.DataError, match=sentence):
    new_data.labels(table, 2, classes)
