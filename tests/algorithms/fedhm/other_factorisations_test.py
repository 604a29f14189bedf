"""FedHM's factors of kernels beside Tucker and CP decompositions."""

import numpy as np
import sklearn.datasets
import tensorflow as tf

from tff_pers.client_works import local_sgd
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import zoo
from tff_pers.numerics import factorization


def _separable(kernel, num_parameters):
  """Returns FedHM's approximation: r k (m + n) parameters."""
  size, _, m, n = kernel.shape
  rank = num_parameters // (size * (m + n))
  factors = factorization.factorize(tf.constant(kernel), rank)
  return factorization.recover(factors).numpy()


def _tucker(kernel, num_parameters):
  """Returns that of q (m + n) + q^2 k^2: a core between two 1 x 1 kernels."""
  size, _, m, n = kernel.shape
  q = max(
      q for q in range(1, m + 1)
      if q * (m + n) + q ** 2 * size ** 2 <= num_parameters
  )
  leading = lambda x: np.linalg.svd(x, full_matrices=False)[0][:, :q]
  x = kernel.transpose(2, 3, 0, 1)
  a = leading(x.reshape(m, -1))
  for _ in range(10):  # Orthogonal iteration.
    b = leading(np.einsum('ia,iokl->oakl', a, x).reshape(n, -1))
    a = leading(np.einsum('ob,iokl->ibkl', b, x).reshape(m, -1))
  return np.einsum('ij,op,jpkl->klio', a @ a.T, b @ b.T, x)


def _cp(kernel, num_parameters):
  """Returns that of R (m + n + 2 k), by alternating least squares."""
  rng, axes = np.random.default_rng(0), 'abcd'
  rank = num_parameters // sum(kernel.shape)
  factors = [rng.normal(size=(size, rank)) for size in kernel.shape]
  for sweep in range(4 * 60):
    turn = sweep % 4
    others = [i for i in range(4) if i != turn]
    gram = np.prod([factors[i].T @ factors[i] for i in others], axis=0)
    pulls = np.einsum(
        'abcd,' + ','.join(f'{axes[i]}r' for i in others) + f'->r{axes[turn]}',
        kernel, *(factors[i] for i in others), optimize=True,
    )
    factors[turn] = np.linalg.lstsq(gram, pulls, rcond=1e-10)[0].T
  return np.einsum('ar,br,cr,dr->abcd', *factors, optimize=True)


def test_tucker_and_cp_keep_more_of_a_kernel_of_the_same_size():
  """FedHM's text has them less accurate; here they are cut and not trained.

  A small network on the digits: relative errors of its second kernel with 1/16
  and 1/32 of the parameters, and accuracies with these kernels.
  """
  digits = sklearn.datasets.load_digits()
  order = np.random.default_rng(0).permutation(len(digits.target))
  x = (digits.images[order] / 16).astype(np.float32)[..., None]
  y = digits.target[order].astype(np.int32)
  model = zoo.build('emnist_cnn', tf.TensorSpec([None, 8, 8, 1]), 10)
  data = tf.nest.map_structure(
      tf.constant, client_data.dense(0, x[:1400], y[:1400])
  )
  weights = tf.function(lambda: local_sgd.train(
      model, model.initial_weights(1), data, learning_rate=0.1,
      seed=random.key(0), batch_size=50, num_steps=150,
  )[0])()
  kernel = weights[2].numpy()
  errors, accuracies = [], []
  for form in (_separable, _tucker, _cp):
    kernels = [
        form(kernel.astype(np.float64), kernel.size // share)
        for share in (16, 32)
    ]
    errors.append([
        np.linalg.norm(cut - kernel) / np.linalg.norm(kernel)
        for cut in kernels
    ])
    logits = [
        model.predict(
            (*weights[:2], tf.constant(cut, tf.float32), *weights[3:]),
            tf.constant(x[1400:]), False, random.key(0),
        ) for cut in kernels
    ]
    accuracies.append(np.mean(np.argmax(logits, axis=-1) == y[1400:]))
  np.testing.assert_allclose(
      errors, [[0.906, 0.944], [0.896, 0.930], [0.894, 0.933]], atol=2e-3
  )
  np.testing.assert_allclose(accuracies, [0.81, 0.89, 0.89], atol=0.03)
