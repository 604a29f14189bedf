"""Runs FedJAX's FedAvg on a workload, for comparison.

Started like `cell`, by the Python that `--fedjax_python` names. This project
need not be installed there: of it, only `lines` is imported.
"""

import sys

import fedjax
import jax
from jax import numpy as jnp
import numpy as np

from binaries.speed import lines

_LEARNING_RATE = 0.05


def main() -> None:
  name, device = sys.argv[1:]
  jax.config.update('jax_platforms', 'cpu' if device == 'cpu' else None)
  platform = jax.default_backend()
  # JAX falls back to the CPU without an error.
  if device.startswith('gpu') and platform != 'gpu':
    raise SystemExit('JAX sees no GPU')
  lines.serve(_rounds(name), platform)


def _rounds(name):
  """Returns a function that runs a round."""
  build_model, examples, batch_size = {
      'W1': (_mlp, _images, 20),
      'W2': (fedjax.models.emnist.create_conv_model, _images, 20),
      'W3': (_mlp, _images, 20),
      'W4': (
          lambda: fedjax.models.stackoverflow.create_lstm_model(
              expected_length=20.0
          ), _sentences, 16,
      ),
      'W5': (_tag_regression, _tagged, 100),
  }[name]
  model, generator = build_model(), np.random.default_rng(0)

  def loss(params, batch, rng):
    predictions = model.apply_for_train(params, batch, rng)
    return jnp.mean(model.train_loss(batch, predictions))

  algorithm = fedjax.algorithms.fed_avg.federated_averaging(
      jax.grad(loss), fedjax.optimizers.sgd(_LEARNING_RATE),
      fedjax.optimizers.sgd(1.0),
      fedjax.ShuffleRepeatBatchHParams(batch_size=batch_size),
  )
  state = algorithm.init(model.init(jax.random.PRNGKey(0)))
  clients = [
      fedjax.ClientDataset(examples(generator))
      for _ in range(100 if name == 'W3' else 10)
  ]
  keys = jax.random.split(jax.random.PRNGKey(1), len(clients))

  def play():
    nonlocal state
    cohort = [(i, c, keys[i]) for i, c in enumerate(clients)]
    state, _ = algorithm.apply(state, cohort)
    # JAX returns before the result is computed.
    jax.block_until_ready(state.params)

  return play


def _images(generator):
  return dict(
      x=generator.random((100, 28, 28, 1), np.float32),
      y=generator.integers(0, 62, 100).astype(np.int32),
  )


def _sentences(generator):
  words = generator.integers(1, 10004, (64, 21)).astype(np.int32)
  return dict(x=words[:, :-1], y=words[:, 1:])


def _tagged(generator):
  return dict(
      x=generator.random((100, 10000), np.float32),
      y=(generator.random((100, 500)) < 0.01).astype(np.float32),
  )


def _mlp():
  """MLP 784-200-62."""

  def init(rng):
    first, second = jax.random.split(rng)
    return [
        (0.05 * jax.random.normal(first, (784, 200)), jnp.zeros(200)),
        (0.05 * jax.random.normal(second, (200, 62)), jnp.zeros(62)),
    ]

  def predict(params, batch):
    (a, b), (c, d) = params
    x = jnp.reshape(batch['x'], (-1, 784))
    return jax.nn.relu(x @ a + b) @ c + d

  def loss(batch, logits):
    return fedjax.metrics.unreduced_cross_entropy_loss(batch['y'], logits)

  return _model(init, predict, loss)


def _tag_regression():
  """One logistic regression per tag."""

  def loss(batch, logits):
    y = batch['y']
    losses = jnp.maximum(logits, 0) - logits * y + jnp.log1p(
        jnp.exp(-jnp.abs(logits))
    )
    return jnp.mean(losses, axis=-1)

  return _model(
      lambda rng: (jnp.zeros((10000, 500)), jnp.zeros(500)),
      lambda params, batch: batch['x'] @ params[0] + params[1], loss,
  )


def _model(init, predict, loss):
  return fedjax.Model(
      init=init, apply_for_train=lambda params, batch, rng: predict(
          params, batch
      ),
      apply_for_eval=predict, train_loss=loss, eval_metrics={},
  )


if __name__ == '__main__':
  main()
