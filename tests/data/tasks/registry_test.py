"""Tests of the registry, and of what every task must offer."""

import dataclasses

import numpy as np
import pytest

from tests import built
from tff_pers.data import task as task_lib
from tff_pers.data import tasks


def test_raises_on_unknown_name():
  with pytest.raises(ValueError, match="must be one of cifar10.*digits.*'digit'"):
    tasks.get('digit')


def test_raises_on_second_registration():
  with pytest.raises(ValueError, match='found digits registered already'):
    family = tasks.get('digits')
    tasks.register('digits', family.options, declares=family.declares)(
        family.build
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
  with pytest.raises(ValueError, match=f'`standardize` .* task {name}, found'):
    built.task(name, standardize=value)


_DRAWN = (
    'floral_label_shift', 'floral_linear', 'floral_mlp', 'overpersonalized',
    'overpersonalized_control', 'synthetic_groups',
)


@pytest.mark.parametrize('field, value', [
    ('partition', 'iid'), ('data_dir', 'x'), ('train_fraction', 0.5),
])
@pytest.mark.parametrize('name', _DRAWN)
def test_raises_on_what_is_asked_of_data_that_are_drawn(name, field, value):
  with pytest.raises(ValueError, match=f'`{field}` must not be given'):
    built.task(name, **{field: value})


@pytest.mark.parametrize('name', _DRAWN)
def test_the_seed_decides(name):
  """Of others: the contract of tasks."""
  first, again, other = (built.task(name, seed=seed) for seed in (4, 4, 5))
  for part in ('x', 'y'):
    a, b, c = (
        task.train[1]['examples'][part] for task in (first, again, other)
    )
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize('change, message', [
    (dict(groups=[0, 1]), '`groups` .* each of the 4 clients .*found 2'),
    (dict(client_names=['a'] * 5), '`client_names` .* found 5'),
    (dict(client_names=['a', 'b', 'b', 'c']), "distinct, found 'b' twice"),
    (dict(eval_every=0), '`eval_every` .* at least 1, found 0'),
])
def test_parts_of_a_task_must_fit_together(change, message):
  task = dataclasses.replace(built.task('digits', num_clients=4), **change)
  with pytest.raises(ValueError, match=message):
    task_lib.check(task)
