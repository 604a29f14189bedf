"""`fedavg_finetuned[select=validation]`: one number of epochs for all clients.

On least squares with one batch per epoch an epoch is a step of gradient
descent, so that NumPy follows every client.
"""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg_finetuned
from tests import problems
from tests.baselines import rounds
from tff_pers.data import client_data
from tff_pers.models import functional

_MAX, _RATE = 6, 0.35
_D = 3
_SIZES = (9, 4, 12, 10)  # A client of four examples holds out none.


def _model():
  return functional.FunctionalModel(
      init=lambda seed: (tf.constant([1.0, -1.0, 0.5], tf.float64),),
      predict=lambda weights, x, training, seed: tf.linalg.matvec(
          x, weights[0]
      ),
      example_loss=lambda y, guess: tf.square(guess - y) / 2,
      x_spec=tf.TensorSpec([None, _D], tf.float64),
      y_spec=tf.TensorSpec([None], tf.float64),
  )


def _clients():
  """Returns the training data, padded as those of a task are, and test data."""
  rng = np.random.default_rng(11)
  train, test = [], []
  for i, size in enumerate(_SIZES):
    own = np.array([1.0, -1.0, 0.5]) + 0.3 * rng.normal(size=_D)
    for made, rows in ((train, size), (test, 7)):
      x = rng.normal(size=[rows, _D])
      y = x @ own + 0.8 * rng.normal(size=rows)
      made.append(client_data.pad(client_data.dense(i, x, y), 12))
  return train, test


def _rows(data):
  n = data['num_examples']
  return data['examples']['x'][:n], data['examples']['y'][:n]


def _descend(x, y, w, epochs):
  """Returns w after 0, 1, ..., `epochs` steps of gradient descent."""
  found = [w]
  for _ in range(epochs):
    found.append(found[-1] - _RATE * x.T @ (x @ found[-1] - y) / len(y))
  return found


def _loss(data, w):
  x, y = _rows(data)
  return np.mean((x @ w - y) ** 2) / 2


def _process(**options):
  return fedavg_finetuned.build_fedavg_finetuned(
      _model(), fedavg_finetuned.FedAvgFinetunedHyperparameters(
          select='validation', max_epochs=_MAX, lr=_RATE, batch_size=12,
          **options
      ),
  )


def _evaluate(process, clients):
  train, test = clients
  return process.evaluate(
      process.initialize_seeded(0), [()] * len(train),
      [dict(adapt=a, test=t) for a, t in zip(train, test)],
  )


def test_clients_share_the_epochs_that_are_best_on_what_they_hold_out():
  """Baselines 2.2: one common epoch by the mean over clients, of training data."""
  train, test = _clients()
  w = np.array([1.0, -1.0, 0.5])
  curves = []
  for data in train:
    x, y = _rows(data)
    held = np.arange(len(y)) % 5 == 4
    if held.any():
      line = _descend(x[~held], y[~held], w, _MAX)
      curves.append([np.mean((x[held] @ v - y[held]) ** 2) / 2 for v in line])
  means = np.mean(curves, axis=0)
  best = int(np.argmin(means))
  # Neither end, no client's own choice for all, and no tie.
  assert 0 < best < _MAX and np.sort(means)[1] > means[best] * (1 + 1e-4)
  assert len({int(np.argmin(curve)) for curve in curves} | {best}) > 1
  by_test = np.mean(
      [[_loss(t, v) for v in _descend(*_rows(a), w, _MAX)]
       for a, t in zip(train, test)], axis=0
  )
  assert np.argmin(by_test) != best  # Test data would choose otherwise.
  found = _evaluate(_process(), (train, test))
  assert [int(one['finetuning_epochs']) for one in found] == [best] * 4
  # Then v is made with all training examples, by those without a say, too.
  expected = [
      _loss(t, _descend(*_rows(a), w, best)[-1]) for a, t in zip(train, test)
  ]
  np.testing.assert_allclose(
      [one['loss'] for one in found], expected, rtol=1e-12
  )


def test_without_examples_to_measure_on_the_global_model_stays():
  clients = [[part[1]] for part in _clients()]
  found, = _evaluate(_process(), clients)
  assert found['finetuning_epochs'] == 0
  np.testing.assert_allclose(
      found['loss'], _loss(clients[1][0], np.array([1.0, -1.0, 0.5])),
      rtol=1e-12,
  )


def test_every_fifth_example_is_held_out():
  data = client_data.pad(
      client_data.dense(0, np.arange(11.0)[:, None], np.arange(11)), 13
  )
  kept, held = fedavg_finetuned.hold_out(rounds.tensors(data))
  for part, expected in ((kept, [0, 1, 2, 3, 5, 6, 7, 8, 10]), (held, [4, 9])):
    assert part['num_examples'] == len(expected)
    for rows in part['examples'].values():
      np.testing.assert_array_equal(
          np.ravel(rows)[:len(expected)], expected
      )


def test_a_classifier_is_chosen_by_accuracy():
  """Of 20 examples 4 are held out; the first model's accuracy is NumPy's."""
  model = problems.tiny_model()
  weights = model.init(tf.constant([1, 2], tf.int64))
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=[20, 3]), rng.integers(2, size=20).astype(np.int32)
  data = rounds.tensors(client_data.dense(0, x, y))
  choosing = fedavg_finetuned.build_choosing(
      model, fedavg_finetuned.FedAvgFinetunedHyperparameters(
          select='validation', max_epochs=2, batch_size=2
      ),
  )
  scores = choosing.score(rounds.message(weights), (), data)
  assert scores.shape == [3] and np.all(np.isin(scores, np.arange(5) / 4))
  w1, b1, w2, b2 = (leaf.numpy() for leaf in weights)
  guess = np.argmax(np.tanh(x @ w1 + b1) @ w2 + b2, axis=1)
  expected = np.mean((guess == y)[4::5])
  assert scores[0] == expected != 0.5


@pytest.mark.parametrize('options, match', [
    (dict(steps=3), '`steps` must be left at 0 .* found 3 with select=validat'),
    (dict(max_epochs=0), '`max_epochs` must be an integer >= 1, found 0'),
])
def test_raises_on_what_does_not_go_together(options, match):
  with pytest.raises(ValueError, match=match):
    fedavg_finetuned.FedAvgFinetunedHyperparameters(
        select='validation', **options
    )
