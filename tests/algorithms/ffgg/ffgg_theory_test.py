"""Proposition 1 and Examples 2 and 3, on what clients of FFGG send.

Clients have f(theta, w) = 1/2 z^T M z + sum log cosh(R z - y), z = (theta, w).
"""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.algorithms.ffgg import ffgg
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import partition

_THETA, _OWN, _ROWS = 4, 3, 6


def _model():
  """Returns the model; the only example of a client is [M, 0; R, y]."""
  size = _THETA + _OWN

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    z = tf.concat(weights, axis=0)
    matrix, rows, y = x[:, :size, :size], x[:, size:, :size], x[:, size:, size]
    residual = tf.abs(tf.linalg.matvec(rows, z) - y)
    # log cosh, without overflow.
    smooth = residual + tf.math.log1p(tf.exp(-2 * residual)) - np.log(2.0)
    quadratic = 0.5 * tf.einsum('i,bij,j->b', z, matrix, z)
    return quadratic + tf.reduce_sum(smooth, axis=1)

  return functional.FunctionalModel(
      init=lambda seed: tuple(
          tf.zeros([n], tf.float64) for n in (_THETA, _OWN)
      ),
      predict=predict,
      example_loss=lambda y, predictions: predictions,
      x_spec=tf.TensorSpec([None, size + _ROWS, size + 1], tf.float64),
      y_spec=tf.TensorSpec([None], tf.int32),
  )


def _client(matrix, rows=None, y=None):
  x = np.zeros([_THETA + _OWN + _ROWS, _THETA + _OWN + 1])
  x[:_THETA + _OWN, :-1] = matrix
  if rows is not None:
    x[_THETA + _OWN:, :-1], x[_THETA + _OWN:, -1] = rows, y
  return client_data.dense(0, x[None], np.zeros([1], np.int32))


@pytest.fixture(scope='module', name='sent')
def _sent():
  """Returns `(theta, clients) -> F_m(theta)`, [N, d_theta]."""
  # Curvatures in w are between 0.3 and 1 below: 80 steps of 1 leave 1e-12.
  process = ffgg.build_ffgg(
      partition.Partition(_model(), (False, True)),
      ffgg_hp.FFGGHyperparameters(
          private_init='zeros', local_steps=80, local_epochs=0,
          learning_rate=1.0,
      ),
  )

  def sent(theta, clients):
    state = process.initialize_seeded(0)
    state['weights'] = (np.asarray(theta, np.float64),)
    messages = process.parts.dispatch(state, list(range(len(clients))))
    outputs = process.parts.work(messages, [()] * len(clients), clients)
    return np.stack([output['update']['weights'][0] for output in outputs])

  return sent


def _rows(rows):
  """Returns R of these rows, and others that are 0."""
  return np.concatenate([rows, np.zeros([_ROWS - len(rows), rows.shape[1]])])


def _orthogonal(rng, rows, columns):
  return np.linalg.qr(rng.normal(size=[rows, rows]))[0][:, :columns]


def _coupled(rng, strength):
  """Returns M, eigenvalues 1 to 3 in theta, of coupling C1 C2 = `strength`.

  w pulls at the direction of theta with the eigenvalue 1, the first axis.
  """
  own = _orthogonal(rng, _OWN, _OWN)
  in_own = own @ np.diag(rng.uniform(0.5, 1, _OWN)) @ own.T
  cross = np.outer(np.eye(_THETA)[0], own[:, 0])
  response = np.linalg.solve(in_own, cross.T)
  size = np.linalg.norm(cross, 2) * np.linalg.norm(response, 2)
  cross = cross * np.sqrt(strength / size)
  in_theta = np.diag(np.linspace(1, 3, _THETA))
  return np.block([[in_theta, cross], [cross.T, in_own]])


def _quotients(sent, clients, pairs):
  """Returns <dF, d> / |d|^2 and <dF, d> / |dF|^2, [pairs, N]."""
  slopes, moduli = [], []
  for a, b in pairs:
    change = sent(a, clients) - sent(b, clients)
    product = change @ (a - b)
    slopes.append(product / np.sum((a - b) ** 2))
    moduli.append(product / np.sum(change ** 2, axis=1))
  return np.array(slopes), np.array(moduli)


def test_example_2_needs_weak_coupling(sent):
  """mu = 1; log cosh of theta adds 1 to the curvature at 0: L = 4."""
  rng = np.random.default_rng(0)
  rows = _rows(np.eye(_THETA, _THETA + _OWN))
  clients = [
      _client(_coupled(rng, strength), rows, np.zeros(_ROWS))
      for strength in (0.5, 2.0)
  ]
  weak, top = np.eye(_THETA)[0], np.eye(_THETA)[-1]
  pairs = [(9 * weak, 8 * weak), (1e-3 * top, 0 * top)]
  pairs += [3 * rng.normal(size=(2, _THETA)) for _ in range(6)]
  slopes, moduli = _quotients(sent, clients, pairs)
  assert slopes[:, 0].min() >= 0.5 * (1 - 1e-9)  # mu / 2.
  # As printed it is mu / (4 L^2); here it is 1 / L.
  assert moduli[:, 0].min() >= 1 / 64
  np.testing.assert_allclose(moduli[:, 0].min(), 1 / 4, rtol=1e-5)
  # Coupled four times as much, it is not even monotone.
  np.testing.assert_allclose(slopes[:, 1].min(), 1 - 2, rtol=1e-5)


def test_example_3_lacks_the_norm_of_a(sent):
  """L_phi + L_psi |A|^2, where the paper has L_phi + L_psi."""
  rng = np.random.default_rng(1)
  h = rng.normal(size=[_THETA, _THETA]) / 2
  matrix = np.zeros([_THETA + _OWN] * 2)
  matrix[:_THETA, :_THETA] = h.T @ h
  a = 3 * _orthogonal(rng, _ROWS, _THETA)
  b = _orthogonal(rng, _ROWS, _OWN)
  # With w at its best the curvature at 0 is H^T H + A^T (I - B B^T) A.
  values, axes = np.linalg.eigh(h.T @ h + a.T @ (a - b @ (b.T @ a)))
  clients = [
      _client(matrix, np.concatenate([a, b], axis=1), y)
      for y in (np.zeros(_ROWS), 0.2 * rng.normal(size=_ROWS))
  ]
  pairs = [(1e-3 * axes[:, -1], np.zeros(_THETA))]
  pairs += [0.1 * rng.normal(size=(2, _THETA)) for _ in range(6)]
  moduli = _quotients(sent, clients, pairs)[1]
  phi = np.linalg.norm(h, 2) ** 2
  np.testing.assert_allclose(moduli[0, 0], 1 / values[-1], rtol=1e-4)
  assert moduli.min() >= 1 / (phi + 9)
  np.testing.assert_allclose(moduli.min() * (phi + 1), 0.199, rtol=0.01)


def test_proposition_1_all_private_suits_everybody(sent):
  """Two clients, log cosh(u + v - y) + log cosh(v) with y = 1 or -1.

  With u in theta the best theta for both is 0, and suits neither: v = y / 2
  leaves tanh(1 / 2) = 0.4621. With u and v in w any theta does.
  """
  nothing, axes = np.zeros([_THETA + _OWN] * 2), np.eye(_THETA + _OWN)
  found = []
  for u in (_THETA - 1, _THETA):
    rows = _rows(np.stack([axes[u] + axes[u + 1], axes[u + 1]]))
    clients = [
        _client(nothing, rows, sign * np.eye(_ROWS)[0]) for sign in (1, -1)
    ]
    found.append([sent(theta, clients) for theta in (
        np.zeros(_THETA), np.arange(_THETA)
    )])
  np.testing.assert_allclose(found[0][0][:, -1], [-0.4621, 0.4621], atol=1e-4)
  np.testing.assert_array_equal(found[1], 0)
