"""Tests of the registry, and of what every task must offer."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.data import tasks


def test_known_names():
  assert tasks.names() == [
      'cifar10', 'cifar100', 'csv', 'digits', 'emnist', 'fashion_mnist',
      'fed_heart', 'floral_label_shift', 'floral_linear', 'floral_mlp', 'gaussian_modes',
      'images', 'leaf', 'low_rank_regression', 'mnist', 'npz', 'overpersonalized',
      'overpersonalized_control', 'parquet', 'school', 'shakespeare', 'stackoverflow_nwp',
      'stackoverflow_tags', 'synthetic_groups', 'tfrecord',
  ]
  for name in tasks.names():
    family = tasks.get(name)
    assert family.name == name and family.summary
    family.options()  # Defaults are allowed values.


def test_raises_on_unknown_name():
  with pytest.raises(ValueError, match="must be one of cifar10.*digits.*'digit'"):
    tasks.get('digit')


def test_raises_on_second_registration():
  with pytest.raises(ValueError, match='found digits registered already'):
    tasks.register('digits', object, declares=tasks.get('digits').declares)(
        lambda request, options: None
    )


@pytest.mark.parametrize(
    'field,value,message',
    [
        ('num_clients', -1, '`num_clients` must be >= 0, found -1'),
        ('train_fraction', 1.5, r'`train_fraction` must be in \(0, 1\]'),
        ('train_fraction', float('nan'), '`train_fraction` must be in'),
    ],
)
def test_raises_on_bad_request(field, value, message):
  with pytest.raises(ValueError, match=message):
    tasks.TaskRequest(**{field: value})


@pytest.mark.parametrize('value', [True, False])
@pytest.mark.parametrize(
    'name', sorted(set(tasks.names()).difference(
        ('csv', 'images', 'leaf', 'npz', 'parquet', 'tfrecord')
    ))
)
def test_raises_on_standardize_where_features_have_a_scale(name, value):
  family = tasks.get(name)
  with pytest.raises(ValueError, match=f'`standardize` .* task {name}, found'):
    family.build(tasks.TaskRequest(standardize=value), family.options())


def _spec(array):
  return tf.TensorSpec(array.shape, array.dtype)


@pytest.mark.parametrize(
    'name', ['digits', 'floral_label_shift', 'synthetic_groups']
)
def test_embedded_task_is_consistent(name):
  family = tasks.get(name)
  task = family.build(tasks.TaskRequest(seed=1), family.options())
  assert task.name == name
  assert len(task.train) == len(task.test) == task.num_clients
  assert task.has_groups and task.groups.shape == (task.num_clients,)
  for index, (train, test) in enumerate(zip(task.train, task.test)):
    for data in (train, test):
      x, y = data['examples']['x'], data['examples']['y']
      assert data['index'] == index
      assert data['num_examples'] == len(x) == len(y) > 0
      assert task.model.x_spec.is_compatible_with(_spec(x))
      assert task.model.y_spec.is_compatible_with(_spec(y))
      assert 0 <= y.min() and y.max() < task.num_classes
    np.testing.assert_array_equal(
        np.bincount(train['examples']['y'], minlength=task.num_classes),
        task.class_counts[index],
    )
