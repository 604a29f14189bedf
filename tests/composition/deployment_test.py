"""Tests of `deployment`."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.composition import deployment
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import zoo

_MODEL = zoo.build('mlp_small', tf.TensorSpec([None, 3]), 2)


@pytest.mark.parametrize('size, expected', [
    (0, []), (5, [32]), (33, [64]), (300, [256, 256]),
])
def test_the_batches_of_a_small_client_are_small(size, expected, monkeypatch):
  rng = np.random.default_rng(0)
  data = tf.nest.map_structure(tf.constant, client_data.dense(
      0, rng.random([size, 3], np.float32), rng.integers(0, 2, size, np.int32)
  ))
  rows = []

  def predict(weights, x, training, seed):
    rows.append(x.shape[0])
    return _MODEL.predict(weights, x, training, seed)

  found = {}
  for multiple in (256, 32):
    monkeypatch.setattr(deployment, '_ROWS', multiple)
    rows.clear()
    found[multiple] = deployment.deployed_metrics(
        dataclasses.replace(_MODEL, predict=predict),
        _MODEL.init(functional.init_key(0)), data,
    )
  assert rows == [1, *expected]  # First the row that shows the metrics' names.
  for own, other in zip(found[256].values(), found[32].values()):
    assert own.numpy().tobytes() == other.numpy().tobytes()
