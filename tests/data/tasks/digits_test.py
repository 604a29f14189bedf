"""Tests of the task `digits`."""

import numpy as np
import pytest

from tests import built
from tff_pers.data import tasks
from tff_pers.data.tasks import digits


def _build(center='none', **request):
  return built.task('digits', options=dict(center=center), **request)


def _images(task):
  """Returns all (image, label) of all clients, sorted."""
  rows = [
      np.column_stack([data['examples']['x'], data['examples']['y']])
      for part in (task.train, task.test) for data in part
  ]
  rows = np.concatenate(rows)
  return rows[np.lexsort(rows.T)]


def test_default_is_few_examples_in_clusters():
  task = _build()
  np.testing.assert_array_equal(task.groups, np.repeat(np.arange(4), 5))
  assert {int(data['num_examples']) for data in task.train} <= {44, 45}
  assert {int(data['num_examples']) for data in task.test} == {45}
  assert task.partition == (
      'label_shift_clusters[clusters=4,order=blocks]'
  )
  x = task.train[0]['examples']['x']
  assert x.shape == (45, 64) and x.dtype == np.float32


def test_pixels_are_between_0_and_1():
  x, _ = digits.load()
  assert x.shape == (1797, 8, 8) and x.dtype == np.float32
  assert x.min() == 0 and x.max() == 1
  np.testing.assert_array_equal(16 * x, np.round(16 * x))


@pytest.mark.parametrize(
    'partition', ['label_shift_clusters', 'rotated_clusters']
)
def test_clients_subtract_the_mean_of_what_they_train_on(partition):
  """Test images, too, and whatever other clients have."""
  raw, centered = (
      _build(center, partition=partition) for center in ('none', 'client')
  )
  assert tasks.get('digits').options().center == 'client'
  pairs = zip(raw.train, raw.test, centered.train, centered.test)
  means = []
  for train, test, centered_train, centered_test in pairs:
    x = train['examples']['x']
    means.append(x.mean(axis=0))
    np.testing.assert_allclose(
        centered_train['examples']['x'], x - means[-1], atol=1e-6
    )
    np.testing.assert_allclose(
        centered_test['examples']['x'], test['examples']['x'] - means[-1],
        atol=1e-6,
    )
  assert np.ptp(means, axis=0).max() > 0.1  # Else any client's mean would do.


def test_default_shifts_labels_by_cluster():
  """Undoing the shift gives back every digit of the data set, once."""
  task = _build(seed=2)
  for data, shift in zip([*task.train, *task.test], [*task.groups] * 2):
    data['examples']['y'] = (data['examples']['y'] - shift) % 10
  np.testing.assert_array_equal(_images(task), _images(_build(partition='iid')))
  x, y = digits.load()
  rows = np.column_stack([x.reshape(-1, 64), y])
  np.testing.assert_array_equal(_images(task), rows[np.lexsort(rows.T)])


def test_rotated_clusters_turn_the_pixels():
  task = _build(partition='rotated_clusters', num_clients=4)
  x, _ = digits.load()
  known = {image.tobytes() for image in x}
  for data, turns in zip(task.train, task.groups):
    images = data['examples']['x'].reshape(-1, 8, 8)
    back = np.ascontiguousarray(np.rot90(images, -turns, axes=(1, 2)))
    assert {image.tobytes() for image in back} <= known


@pytest.mark.parametrize(
    'partition,num_classes',
    [('iid', None), ('one_class', 1), ('shards[classes=2]', 2)],
)
def test_heat_map_partitions(partition, num_classes):
  """perm check 12: 50 clients of ~36, all but one of them to train on."""
  task = _build(partition=partition, num_clients=50, train_fraction=1.0)
  assert sum(int(d['num_examples']) for d in task.train) == 1797 - 50
  assert {int(d['num_examples']) for d in task.test} == {1}
  # Two slices of a tenth of 174..183 examples, less one: 33..37.
  sizes = {int(d['num_examples']) for d in task.train}
  assert sizes <= set(range(33, 38))
  if num_classes:
    assert (np.count_nonzero(task.class_counts, axis=1) <= num_classes).all()
    assert task.has_groups


def test_raises_on_what_does_not_fit():
  with pytest.raises(ValueError, match='`data_dir` must not be given for task'):
    _build(data_dir='x')
  with pytest.raises(ValueError, match='^digits: client 897 must have'):
    _build(partition='iid', num_clients=900)
