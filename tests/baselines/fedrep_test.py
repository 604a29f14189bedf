"""FedRep (papers/baselines.md 6.4): an orthonormal representation."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedrep
from tests import problems
from tests.baselines import rounds
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import partition

_D, _K = 6, 2


def _parts(shape):
  """Returns x Theta w or x Theta^T w, linear without bias; w is private."""
  is_wide = shape[0] < shape[1]
  model = functional.FunctionalModel(
      init=lambda seed: (
          tf.random.stateless_normal(shape, seed, dtype=tf.float64),
          tf.ones([_K], tf.float64),
      ),
      predict=lambda weights, x, training, seed: tf.linalg.matvec(
          tf.matmul(x, weights[0], transpose_b=is_wide), weights[1]
      ),
      example_loss=lambda y, guess: tf.square(guess - y) / 2,
      x_spec=tf.TensorSpec([None, _D], tf.float64),
      y_spec=tf.TensorSpec([None], tf.float64),
  )
  return partition.Partition(model, (False, True))


def _trained(shape, **options):
  """Returns theta after each of three rounds."""
  rng = np.random.default_rng(0)
  clients = [
      client_data.dense(i, rng.normal(size=[8, _D]), rng.normal(size=8))
      for i in range(5)
  ]
  process = fedrep.build_fedrep(
      _parts(shape), fedrep.FedRepHyperparameters(learning_rate=0.01, **options)
  )
  states = rounds.train(process, clients=clients)[0]
  return [rounds.leaves(state['weights'])[0] for state in states]


@pytest.mark.parametrize('shape', [(_D, _K), (_K, _D)])
def test_the_representation_is_orthonormal_and_spans_what_was_averaged(shape):
  plain = _trained(shape)[0]
  trained = _trained(shape, orthonormal=True)
  assert np.abs(trained[1] - trained[0]).max() > 1e-4
  if shape[0] < shape[1]:
    plain, trained = plain.T, [theta.T for theta in trained]
  for theta in trained:
    np.testing.assert_allclose(theta.T @ theta, np.eye(_K), atol=1e-12)
  # The first round starts from the same theta with or without it.
  np.testing.assert_allclose(
      trained[0] @ trained[0].T, plain @ np.linalg.pinv(plain), atol=1e-10
  )


def test_columns_become_orthonormal_and_span_what_they_spanned():
  theta = np.random.default_rng(0).normal(size=[_D, _K])
  [found] = fedrep.orthonormalize((tf.constant(theta),))
  np.testing.assert_allclose(found.numpy().T @ found, np.eye(_K), atol=1e-12)
  np.testing.assert_allclose(
      found.numpy() @ found.numpy().T, theta @ np.linalg.pinv(theta), atol=1e-10
  )


def test_an_orthonormal_representation_stays_as_it_is():
  theta = np.linalg.qr(np.random.default_rng(0).normal(size=[_D, _K]))[0]
  rounds.assert_close(fedrep.orthonormalize((tf.constant(theta),)), (theta,))


def test_only_one_matrix_can_be_orthonormal():
  parts = partition.from_scheme(problems.tiny_model(), 'output_layer')
  with pytest.raises(ValueError, match='`orthonormal` must be false .* found'):
    fedrep.build_fedrep(parts, fedrep.FedRepHyperparameters(orthonormal=True))
