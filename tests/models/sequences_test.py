"""Models of tokens: sizes, padding, splits, gradients, sizes of other models.
"""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.config import traits
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors
from tff_pers.models import factorized
from tff_pers.models import layers
from tff_pers.models import mixtures
from tff_pers.models import sequences
from tff_pers.models import split_hyperparameters
from tff_pers.models import submodels
from tff_pers.models import tff_models
from tff_pers.models import zoo

SMALL = [name for name in sequences.MODELS if '_small' in name]
X = np.array([[9, 1, 2, 3, 4, 8], [9, 5, 8, 0, 0, 0], [9, 6, 7, 1, 8, 0]])
Y = np.array([[1, 2, 3, 4, 8, 10], [5, 8, 10, 0, 0, 0], [6, 7, 1, 8, 10, 0]])
NUM_TOKENS = 11  # Seven words.


def _model(name, length=6, num_tokens=NUM_TOKENS, **options):
  return zoo.build(
      name, tf.TensorSpec([None, length], tf.int32), num_tokens, **options
  )


def _batch(x=X, y=Y, mask=(True, True, True)):
  return client_data.Batch(
      tf.constant(x, tf.int32), tf.constant(y, tf.int32), tf.constant(mask),
      random.key(5),
  )


@pytest.mark.parametrize('name, length, num_tokens, num_parameters', [
    # 90 * 8; 4 * 256 * (8 + 256 + 1); 4 * 256 * (256 + 256 + 1); 257 * 90.
    ('char_lstm', 80, 90, 720 + 271_360 + 525_312 + 23_130),
    # 10,004 * 96; 4 * 670 * 767; 671 * 96; 97 * 10,004 (the published one).
    ('lstm_670', 20, 10_004, 4_050_748),
    ('transformer', 20, 10_004, 10_004 * 257 + 20 * 256 + 4 * 788_736),
    (
        'transformer_adapters', 20, 10_004,
        10_004 * 257 + 20 * 256 + 4 * 788_736 + 8 * (512 * 16 + 16 + 256),
    ),
])
def test_published_sizes(name, length, num_tokens, num_parameters):
  model = _model(name, length, num_tokens)
  assert sum(np.prod(weight.shape) for weight in model.layers) == num_parameters
  assert layers.describe(model) == model.layers  # Of the right shapes.


def test_all_sequence_models_are_known_to_have_one_width():
  assert sorted(traits.SEQUENCES) == sorted(sequences.MODELS)
  for name in SMALL:
    assert _model(name).slim is None
  with pytest.raises(ValueError, match='whose hidden layers can be made narrow'):
    submodels.Submodels(_model('lstm_small'), (1.0, 0.5))


@pytest.mark.parametrize('name, split, private', [
    ('transformer', 'input_layer', 788_736),
    ('transformer', 'output_layer', 788_736),
    ('transformer_adapters', 'adapter:norm', 71_808),
    ('char_lstm', 'input_layer', 271_360),
    ('char_lstm', 'output_layer', 23_130),
])
def test_splits_of_the_papers(name, split, private):
  """papers/partial_personalization.md 5.2."""
  parts = split_hyperparameters.SplitHyperparameters(split=split).partition(
      _model(name, 20, 90)
  )
  assert sum(
      np.prod(weight.shape)
      for weight, own in zip(parts.weights, parts.is_private) if own
  ) == private


def test_blocks_are_split_whole():
  names = {}
  for split in ('input_layer', 'output_layer'):
    parts = split_hyperparameters.SplitHyperparameters(split=split).partition(
        _model('transformer_small')
    )
    names[split] = {
        weight.name.split('/')[0]
        for weight, own in zip(parts.weights, parts.is_private) if own
    }
  assert names == {'input_layer': {'block_0'}, 'output_layer': {'block_1'}}


def test_adapters_of_the_model_need_no_others():
  model = _model('transformer_small_adapters')
  parts = split_hyperparameters.SplitHyperparameters(split='adapter').partition(
      model
  )
  assert parts.model is model
  assert _private_kinds(parts) == {'adaptor'}
  with pytest.raises(ValueError, match='`adaptor_rank` must be 0'):
    split_hyperparameters.SplitHyperparameters(
        split='adapter', adaptor_rank=2
    ).partition(model)
  added = split_hyperparameters.SplitHyperparameters(split='adapter').partition(
      _model('transformer_small')
  )
  assert added.model.num_parameters > _model('transformer_small').num_parameters


def _private_kinds(parts):
  return {w.kind for w, own in zip(parts.weights, parts.is_private) if own}


@pytest.mark.parametrize('name', SMALL)
def test_gradient_matches_finite_differences_in_float64(name):
  model = _model(name, dtype=tf.float64, l2=0.1)
  weights, batch = model.init(random.key(1)), _batch()
  # Away from the start, where the layers hardly differ.
  rng = np.random.default_rng(0)
  weights = tuple(w + 0.1 * rng.normal(size=w.shape) for w in weights)
  loss, gradient = model.loss_and_gradient(weights, batch)
  assert loss.dtype == tf.float64
  direction = [rng.normal(size=w.shape) for w in weights]
  slope = sum(np.sum(d * g) for d, g in zip(direction, gradient))
  step = 1e-7
  losses = [
      model.batch_loss(
          tuple(w + s * step * d for w, d in zip(weights, direction)), batch
      )
      for s in (1, -1)
  ]
  np.testing.assert_allclose(
      (losses[0] - losses[1]) / (2 * step), slope, rtol=1e-5
  )


@pytest.mark.parametrize('name', SMALL)
def test_a_later_token_changes_no_earlier_output(name):
  model = _model(name)
  weights = model.init(random.key(0))
  changed = X.copy()
  changed[:, 3] = 6
  before, after = (
      model.predict(weights, tf.constant(x, tf.int32), True, random.key(0))
      for x in (X, changed)
  )
  np.testing.assert_array_equal(before[:, :3], after[:, :3])
  assert np.abs(before[0, 3:] - after[0, 3:]).max(axis=-1).min() > 1e-6


@pytest.mark.parametrize('name', SMALL)
def test_padding_changes_no_loss(name):
  """Two columns more of padding; of a transformer, more positions."""
  short, long = _model(name), _model(name, length=8)
  weights = long.init(random.key(0))
  cut = tuple(
      w[:6] if weight.name == 'positions/table' else w
      for w, weight in zip(weights, long.layers)
  )
  padded = [np.pad(rows, [(0, 0), (0, 2)]) for rows in (X, Y)]
  np.testing.assert_allclose(
      short.batch_loss(cut, _batch()),
      long.batch_loss(weights, _batch(*padded)), rtol=1e-6,
  )


def test_loss_is_per_token_and_accuracy_per_word():
  model = _model('lstm_small')
  weights = model.init(random.key(0))
  batch = _batch(mask=(True, True, False))
  logits = model.predict(weights, batch.x, False, batch.seed)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch.y, logits)
  real = Y[:2] > 0
  np.testing.assert_allclose(
      model.batch_loss(weights, batch), losses.numpy()[:2][real].mean(),
      rtol=1e-6,
  )
  sums, units = model.metric_sums(weights, batch), model.metric_weights(batch)
  np.testing.assert_allclose(
      sums['loss'], losses.numpy()[:2][real].sum(), rtol=1e-6
  )
  # 8 is not in the vocabulary, 10 is the end.
  assert units == dict(loss=9.0, accuracy=5.0)
  hits = np.argmax(logits, axis=-1)[:2] == Y[:2]
  assert sums['accuracy'] == hits[(Y[:2] >= 1) & (Y[:2] <= 7)].sum()


def test_characters_count_the_end_but_no_padding():
  model = _model('char_lstm_small')
  assert model.metric_weights(_batch()) == dict(loss=14.0, accuracy=14.0)


@pytest.mark.parametrize('name', ['lstm_small', 'transformer_small'])
def test_wrappers_weight_tokens_as_the_model_does(name):
  model = _model(name)
  parts = split_hyperparameters.SplitHyperparameters().partition(model)
  wrapped = [
      adaptors.floral(model, 2).mixed([0.5, 0.5]),
      factorized.Factorization(model, 0.5, full_rank=()).model,
      mixtures.mixture(model, 2, 'probabilities'),
      parts.global_model(parts.initial_weights(0)[1]),
  ]
  for own in wrapped:
    assert own.metric_weights(_batch()) == dict(loss=14.0, accuracy=8.0)


@pytest.mark.parametrize('name', ['lstm_small', 'transformer_small'])
def test_factors_give_what_their_products_give(name):
  model = _model(name)
  adapted = adaptors.floral(model, 2)
  weights = adapted.mixed([0.3, 0.7]).init(random.key(0))
  weights = tf.nest.map_structure(lambda w: w + 0.05, weights)
  x = tf.constant(X, tf.int32)
  np.testing.assert_allclose(
      adapted.mixed([0.3, 0.7]).predict(weights, x, False, random.key(0)),
      model.predict(
          adapted.effective(weights['base'], weights['adaptors'], [0.3, 0.7]),
          x, False, random.key(0),
      ), atol=1e-4,
  )


def test_mixture_of_probabilities_is_by_token():
  model = _model('lstm_small', dtype=tf.float64)
  mixed = mixtures.mixture(model, 2, 'probabilities')
  models = [model.init(random.key(s)) for s in range(2)]
  table = tf.nest.map_structure(lambda *w: tf.stack(w), *models)
  weights = dict(mixing=tf.constant([0.3, 0.7], tf.float64), models=table)
  x = tf.constant(X, tf.int32)
  expected = sum(
      pi * tf.nn.softmax(model.predict(own, x, False, random.key(0)))
      for pi, own in zip((0.3, 0.7), models)
  )
  np.testing.assert_allclose(
      tf.exp(mixed.predict(weights, x, False, random.key(0))), expected, rtol=1e-10
  )


def test_tff_model_is_a_mean_over_tokens():
  model = _model('lstm_small')
  as_tff = tff_models.to_tff_functional_model(model)
  initial = as_tff.initial_weights
  logits = as_tff.predict_on_batch(
      initial, tf.constant(X, tf.int32), training=False
  )
  expected = model.batch_loss(initial[0], _batch(), training=False)
  np.testing.assert_allclose(
      as_tff.loss(logits, tf.constant(Y, tf.int32)), expected, rtol=1e-6
  )


def test_first_weights():
  lstm = _model('char_lstm_small')
  weights = dict(zip([w.name for w in lstm.layers], lstm.init(random.key(0))))
  rows = weights['lstm_0/recurrent_kernel'].numpy()
  np.testing.assert_allclose(rows @ rows.T, np.eye(32), atol=1e-5)
  np.testing.assert_array_equal(
      weights['lstm_0/bias'], [0.0] * 32 + [1.0] * 32 + [0.0] * 64
  )
  assert 0.03 < np.abs(weights['embedding/table']).max() <= 0.05
  net = _model('transformer_small_adapters')
  for weight, value in zip(net.layers, net.init(random.key(0))):
    if weight.name.endswith('/scale'):
      np.testing.assert_array_equal(value, np.ones(32))
    elif len(weight.shape) == 2:
      std = 0.01 if weight.kind == 'adaptor' else 0.02
      assert np.std(value) == pytest.approx(std, rel=0.3)
    else:
      assert not np.any(value)


@pytest.mark.parametrize('arguments, message', [
    (('lstm_small', tf.TensorSpec([None, 5]), 9), '`x` must be tokens, int32'),
    (
        ('lstm_small', tf.TensorSpec([None, 5, 2], tf.int32), 9),
        'must be tokens',
    ),
    (('lstm_small', tf.TensorSpec([None, 5], tf.int32), 4), 'must be > 4 for'),
])
def test_raises(arguments, message):
  with pytest.raises(ValueError, match=message):
    zoo.build(*arguments)
  with pytest.raises(ValueError, match='`width` must be 1 for lstm_small'):
    _model('lstm_small', width=0.5)
