"""Which kernels are held as factors: a rule from shapes and from the model."""

import dataclasses

import pytest
import tensorflow as tf

from tff_pers.client_works import kernel_factors
from tff_pers.models import zoo

# The first kernel is [16, 20], the second [20, 3].
MODEL = zoo.build('mlp_20', tf.TensorSpec([None, 4, 4]), 3)
STEPS = dict(batch_size=5, num_steps=3)


def _chosen(model=MODEL, max_examples=None, **budget):
  return kernel_factors.chosen(model, max_examples, **(budget or STEPS))


@pytest.mark.parametrize(
    'max_examples, budget, expected',
    [
        (None, dict(batch_size=5, num_steps=3), ((0,), True)),
        (None, dict(batch_size=4, num_steps=4), ((), True)),  # 16 of 16 rows.
        (15, dict(batch_size=4, num_steps=4), ((0,), False)),
        (14, dict(batch_size=5, num_steps=3), ((0,), False)),
        (90, dict(batch_size=5, num_steps=3), ((0,), True)),
        (15, dict(batch_size=5, num_epochs=9), ((0,), False)),
        (16, dict(batch_size=5, num_epochs=1), ((), False)),
        (None, dict(batch_size=5, num_epochs=1), ((), False)),
        # Whatever its size, the second kernel meets units and not the data.
        (2, dict(batch_size=2, num_epochs=1), ((0,), False)),
    ],
)
def test_rows_must_be_fewer_than_each_side(max_examples, budget, expected):
  assert _chosen(max_examples=max_examples, **budget) == expected


@pytest.mark.parametrize('budget', [
    dict(batch_size=0, num_steps=3), dict(batch_size=None, num_epochs=1),
    dict(batch_size=5, num_steps=tf.constant(3)),
])
def test_sizes_that_are_not_known_leave_it_dense(budget):
  assert not _chosen(**budget).positions


def _predicting(predict):
  return dataclasses.replace(MODEL, predict=predict)


def _scaled(weights, x, training, seed):
  return MODEL.predict(weights, 2 * x, training, seed)


def _turned(weights, x, training, seed):
  return MODEL.predict(
      weights, tf.transpose(x, [0, 2, 1]), training, seed
  )


def _twice(weights, x, training, seed):
  return MODEL.predict(weights, x, training, seed) + MODEL.predict(
      weights, x, training, seed
  )


@pytest.mark.parametrize('model', [
    _predicting(_scaled), _predicting(_turned), _predicting(_twice),
    dataclasses.replace(MODEL, takes_factors=False),
    dataclasses.replace(MODEL, layers=None),
    zoo.build('mlp_20', tf.TensorSpec([None, 4, 4]), 3, l2=0.1),
], ids=['scaled', 'turned', 'twice', 'no_factors', 'no_layers', 'l2'])
def test_what_plain_products_with_the_data_are_not_stays_dense(model):
  assert not _chosen(model).positions


def test_names_are_those_of_the_layers():
  assert kernel_factors.names(MODEL, _chosen()) == ['mlp_20/dense_0/kernel']
  assert not kernel_factors.names(MODEL, kernel_factors.Choice(()))


def test_a_model_may_hold_tensors_of_the_graph_around_it():
  """As the model of some of the weights does, whose others are fixed."""

  @tf.function
  def found(bias):
    model = _predicting(
        lambda weights, x, training, seed: bias + MODEL.predict(
            weights, x, training, seed
        )
    )
    assert _chosen(model).positions == (0,)
    return bias

  found(tf.zeros([3]))
