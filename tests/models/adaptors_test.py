"""Adapted models: floral checks 1, 2, 3, 6 (the model), 7, 11."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.core import random
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import loss_functions
from tff_pers.models import zoo

C = 3


def _all_kinds() -> functional.FunctionalModel:
  """A small float64 model with a weight of every kind, and one unknown."""
  kinds = [
      ('embed/table', 'embed', 'embedding', (9, 4)),
      ('conv/kernel', 'conv', 'conv', (2, 3, 2, 3)),
      ('conv/bias', 'conv', 'bias', (3,)),
      ('norm/scale', 'norm', 'norm', (3,)),
      ('norm/offset', 'norm', 'norm', (3,)),
      ('dense/kernel', 'dense', 'dense', (12, 2)),
      ('dense/bias', 'dense', 'bias', (2,)),
      ('gain', 'gain', 'Gain', (2,)),
  ]

  def init(seed):
    return tuple(
        tf.random.stateless_normal(
            shape, random.fold_in(seed, i), dtype=tf.float64
        )
        for i, (*_, shape) in enumerate(kinds)
    )

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    table, conv, conv_bias, scale, offset, dense, bias, gain = weights
    x = tf.reshape(tf.gather(table, x), [-1, 4, 3, 2])
    x = tf.nn.conv2d(x, conv, (2, 1), 'SAME')[:, :, 1:]
    x = tf.tanh(scale * (x + conv_bias) + offset)
    return gain * (tf.matmul(tf.reshape(x, [-1, 12]), dense) + bias)

  return functional.FunctionalModel(
      init, predict, loss_functions.sparse_categorical_crossentropy,
      x_spec=tf.TensorSpec([None, 6], tf.int32),
      y_spec=tf.TensorSpec([None], tf.int32), name='all_kinds',
      layers=tuple(functional.LayerWeight(*kind) for kind in kinds),
      penalty=lambda w: 0.01 * tf.add_n([tf.nn.l2_loss(x) for x in w]),
  )


def _batch(model, seed=0, num_rows=5):
  rng = np.random.default_rng(seed)
  shape = [num_rows, *model.x_spec.shape[1:]]
  if model.x_spec.dtype.is_integer:
    x = rng.integers(9, size=shape)
  else:
    x = rng.standard_normal(shape)
  return problems.batch(
      tf.constant(x, model.x_spec.dtype),
      rng.integers(2, size=num_rows).astype(np.int32),
      [True] * (num_rows - 1) + [False], seed,
  )


def _adapted(**options) -> adaptors.AdaptedModel:
  options = {
      'rank': 2, 'adapt_norm': True, 'adapt_embedding': True, **options,
  }
  return adaptors.floral(_all_kinds(), C, **options)


def _trained(adapted, seed=0):
  """Returns weights <adaptors, base, router> far from their start."""
  rng = np.random.default_rng(seed)
  weights = adapted.as_model().initial_weights(seed)
  return tf.nest.map_structure(
      lambda w: w + rng.normal(0, 0.3, w.shape).astype(w.dtype.as_numpy_dtype),
      weights,
  )


def _allclose(one, two, **tolerance):
  tf.nest.assert_same_structure(one, two)
  for x, y in zip(tf.nest.flatten(one), tf.nest.flatten(two)):
    np.testing.assert_allclose(x, y, **tolerance)


def _dense(dtype=tf.float64):
  spec = tf.TensorSpec([None, 4], dtype)
  return zoo.build('mlp_20', spec, 2, dtype=dtype)


@pytest.mark.parametrize('zero_factor', ['output', 'input'])
def test_adaptors_change_nothing_at_first(zero_factor):
  """floral check 1: any router; no router gradient; U moves, V does not."""
  adapted = _adapted(zero_factor=zero_factor)
  model, base = adapted.as_model(), adapted.base
  weights, batch = model.initial_weights(0), _batch(base)
  weights['router'] = tf.constant([0.3, -2.0, 5.0], tf.float64)
  np.testing.assert_allclose(
      model.predict(weights, batch.x, False, batch.seed),
      base.predict(weights['base'], batch.x, False, batch.seed), rtol=1e-10,
  )
  _, gradient = model.loss_and_gradient(weights, batch)
  np.testing.assert_array_equal(gradient['router'], np.zeros(C))
  moving, still = ('u', 'v') if zero_factor == 'output' else ('v', 'u')
  factors = [
      pair for pair in zip(weights['adaptors'], gradient['adaptors'])
      if isinstance(pair[0], dict)
  ]
  assert len(factors) == 3  # Table, convolution, matrix.
  for own, slope in factors:
    np.testing.assert_array_equal(own[moving], np.zeros(own[moving].shape))
    np.testing.assert_array_equal(slope[still], np.zeros(own[still].shape))
    assert np.abs(slope[moving]).max() > 1e-5


def test_adaptors_start_apart_and_follow_the_seed():
  """Trap 6: alike, the router would never move."""
  adapted = _adapted()
  first, again, other = (adapted.initial_adaptors(s) for s in (0, 0, 1))
  _allclose(first, again, rtol=0)
  drawn = [own['v'] for own in first if isinstance(own, dict)]
  elsewhere = [own['v'] for own in other if isinstance(own, dict)]
  for v, w in zip(drawn, elsewhere):
    assert v.shape[0] == C
    assert np.abs(v[0] - v[1]).max() > 0.1 and np.abs(v - w).max() > 0.1
  # Of the convolution (3 x 2 entries per rank) and the matrix (12).
  assert np.abs(drawn[1]).max() <= np.sqrt(6 / 6)
  assert 0.5 < np.abs(drawn[2]).max() <= np.sqrt(6 / 12)
  assert np.abs(drawn[0]).max() > 1.5  # A table is normal: 54 draws.
  wrapped = adapted.as_model().initial_weights(0)
  _allclose(wrapped['adaptors'], first, rtol=0)
  _allclose(wrapped['base'], adapted.base.initial_weights(0), rtol=0)


def test_effective_weights_mix_products():
  """floral check 2, trap 1: kernels by hand, a vector, and what is left."""
  adapted = _adapted(predicate=lambda w: w.kind in ('dense', 'norm'))
  weights = _trained(adapted)
  mix = np.array([0.2, 0.5, 0.3])
  scale, offset, dense, bias = weights['adaptors']
  effective = adapted.effective(weights['base'], weights['adaptors'], mix)
  delta = [new - old for new, old in zip(effective, weights['base'])]
  products = np.einsum('crn,crm->cnm', dense['v'], dense['u'])
  np.testing.assert_allclose(
      delta[5], np.einsum('c,cnm->nm', mix, products), atol=1e-12
  )
  of_means = np.einsum('c,crn->rn', mix, dense['v']).T @ np.einsum(
      'c,crm->rm', mix, dense['u']
  )
  assert np.abs(delta[5] - of_means).max() > 0.01
  for leaf, own in ((3, scale), (4, offset), (6, bias)):
    np.testing.assert_allclose(delta[leaf], mix @ own.numpy(), atol=1e-12)
  for leaf in (0, 1, 2, 7):
    np.testing.assert_array_equal(delta[leaf], np.zeros_like(delta[leaf]))


def test_factorised_forward_is_the_merged_one():
  """floral check 2: outputs, and gradients of U, V, biases, base, theta."""
  adapted = adaptors.floral(_dense(), C, rank=2)
  assert adapted.base.takes_factors
  merged = dataclasses.replace(
      adapted, base=dataclasses.replace(adapted.base, takes_factors=False)
  )
  weights, batch = _trained(adapted), _batch(adapted.base)
  _allclose(
      adapted.as_model().loss_and_gradient(weights, batch),
      merged.as_model().loss_and_gradient(weights, batch),
      rtol=1e-9, atol=1e-12,
  )


def _base_gradient(adapted, weights, batch):
  """Returns G: the base model's gradient at the merged weights."""
  plain = adapted.merge(weights, weights['router'])
  return adapted.base.loss_and_gradient(plain, batch)


def test_gradients_are_those_of_the_sheet():
  """floral section 2.1: g_W = G, g_U = pi G V, g_V = pi G^T U, g_b = pi g."""
  adapted = _adapted()
  weights, batch = _trained(adapted), _batch(adapted.base)
  loss, gradient = adapted.as_model().loss_and_gradient(weights, batch)
  plain_loss, slope = _base_gradient(adapted, weights, batch)
  np.testing.assert_allclose(loss, plain_loss, rtol=1e-10)
  _allclose(gradient['base'], slope, rtol=1e-9, atol=1e-12)
  pi = tf.nn.softmax(weights['router']).numpy()
  dense, bias = (weights['adaptors'][i] for i in (5, 6))
  g_dense, g_bias = (gradient['adaptors'][i] for i in (5, 6))
  _allclose(
      g_dense, collections.OrderedDict(
          u=np.einsum('c,nm,crn->crm', pi, slope[5], dense['v']),
          v=np.einsum('c,nm,crm->crn', pi, slope[5], dense['u']),
      ), rtol=1e-9, atol=1e-12,
  )
  np.testing.assert_allclose(
      g_bias, pi[:, None] * slope[6], rtol=1e-9, atol=1e-12
  )
  assert bias.shape == [C, 2]


def test_router_gradient_is_the_inner_product_with_the_deviation():
  """floral check 3: pi_c <grad, w_c - w_hat>, sum zero, shift invariance."""
  adapted = _adapted()
  weights, batch = _trained(adapted), _batch(adapted.base)
  _, gradient = adapted.as_model().loss_and_gradient(weights, batch)
  _, slope = _base_gradient(adapted, weights, batch)
  pi = tf.nn.softmax(weights['router']).numpy()
  mixed = adapted.merge(weights, weights['router'])
  expected = []
  for c, one_hot in enumerate(np.eye(C)):
    own = adapted.effective(weights['base'], weights['adaptors'], one_hot)
    inner = sum(np.sum(g * (w - m)) for g, w, m in zip(slope, own, mixed))
    expected.append(pi[c] * inner)
  np.testing.assert_allclose(gradient['router'], expected, rtol=1e-9)
  assert abs(np.sum(gradient['router'])) < 1e-12
  shifted = collections.OrderedDict(weights, router=weights['router'] + 7)
  _, moved = adapted.as_model().loss_and_gradient(shifted, batch)
  _allclose(moved, gradient, rtol=1e-9, atol=1e-12)


def test_penalty_is_that_of_the_merged_weights():
  """Without one there is none, so that TFF's models can be made of it."""
  adapted = _adapted()
  weights = _trained(adapted)
  np.testing.assert_allclose(
      adapted.as_model().penalty(weights),
      adapted.base.penalty(adapted.merge(weights, weights['router'])),
      rtol=1e-10,
  )
  plain = adaptors.floral(_dense(), 2).as_model()
  assert plain.penalty is functional.no_penalty


@pytest.mark.parametrize('num_adaptors', [0, 2])
def test_no_adaptors_or_frozen_ones_are_the_base_model(num_adaptors):
  """floral check 6: bit for bit, over several steps in float32."""
  base = _dense(dtype=tf.float32)
  adapted = adaptors.floral(base, num_adaptors)
  model = adapted.as_model()
  weights = model.initial_weights(0)
  plain = base.initial_weights(0)
  for seed in range(3):
    batch = _batch(base, seed)
    loss, gradient = model.loss_and_gradient(weights, batch)
    plain_loss, plain_gradient = base.loss_and_gradient(plain, batch)
    np.testing.assert_array_equal(loss, plain_loss)
    descend = lambda w, g: w - 0.1 * g
    weights['base'] = tf.nest.map_structure(
        descend, weights['base'], gradient['base']
    )
    plain = tf.nest.map_structure(descend, plain, plain_gradient)
    _allclose(weights['base'], plain, rtol=0)
  _allclose(adapted.merge(weights, weights['router']), plain, rtol=0)


def test_full_adaptors_with_one_hot_routers_are_separate_models():
  """floral check 6: adaptor c sees the gradient of its own model alone."""
  adapted = adaptors.full(_all_kinds(), C)
  assert adapted.relative_budget == 1
  weights, batch = _trained(adapted), _batch(adapted.base)
  one_hot = tf.constant([0, 1, 0], tf.float64)
  own = tuple(w + a[1] for w, a in zip(weights['base'], weights['adaptors']))
  _, expected = adapted.base.loss_and_gradient(own, batch)
  weights = collections.OrderedDict(
      adaptors=weights['adaptors'], base=weights['base']
  )
  _, found = adapted.mixed(one_hot).loss_and_gradient(weights, batch)
  for slope, gradient in zip(expected, found['adaptors']):
    np.testing.assert_allclose(gradient[1], slope, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(gradient[0], np.zeros_like(slope))
    np.testing.assert_array_equal(gradient[2], np.zeros_like(slope))


@pytest.mark.parametrize('conv_norm', ['spatial', 'matrix'])
def test_each_factor_is_preconditioned_by_the_other(conv_norm):
  """floral section 2.4, trap 9: which Gram, at the old factors; vectors not."""
  adapted = _adapted()
  own = _trained(adapted, seed=1)['adaptors']
  gradient = _trained(adapted, seed=2)['adaptors']
  new = adapted.precondition(own, gradient, eps=0.1, conv_norm=conv_norm)
  for leaf in (0, 5):  # Table and matrix.
    for name, other in (('u', 'v'), ('v', 'u')):
      f = own[leaf][other].numpy()
      gram = np.einsum('crn,cqn->crq', f, f) + 0.1 * np.eye(2)
      np.testing.assert_allclose(
          new[leaf][name], np.linalg.inv(gram) @ gradient[leaf][name],
          rtol=1e-9, atol=1e-12,
      )
  einsum = 'crsn,cqsn->crqs' if conv_norm == 'spatial' else 'crsn,cqsn->crq'
  for name, other in (('u', 'v'), ('v', 'u')):  # Of the convolution.
    f = own[1][other].numpy()
    gram = np.einsum(einsum, f, f).reshape(C, -1)
    norm = np.linalg.norm(gram, axis=1)[:, None, None, None]
    np.testing.assert_allclose(
        new[1][name], gradient[1][name] / (norm + 0.1), rtol=1e-9
    )
  for leaf in (2, 3, 4, 6):
    np.testing.assert_array_equal(new[leaf], gradient[leaf])


def test_preconditioner_is_by_default_that_of_the_sheet():
  """floral section 2.4: eps = 1e-5, positions of a window kept apart."""
  adapted = _adapted()
  own, gradient = (
      _trained(adapted, seed=seed)['adaptors'] for seed in (1, 2)
  )
  own = tf.nest.map_structure(lambda leaf: 0.01 * leaf, own)  # So eps counts.
  default = adapted.precondition(own, gradient)
  stated = adapted.precondition(own, gradient, eps=1e-5, conv_norm='spatial')
  tf.nest.map_structure(np.testing.assert_array_equal, default, stated)
  for other in (dict(eps=1e-3), dict(conv_norm='matrix')):
    changed = adapted.precondition(own, gradient, **other)[1]['u']
    assert np.abs(changed - default[1]['u']).max() > 1e-2 * np.abs(
        default[1]['u']
    ).max()


def test_reshaped_linear_is_preconditioned_as_a_matrix():
  adapted = _adapted(conv_form='reshaped_linear')
  own = _trained(adapted, seed=1)['adaptors'][1]
  gradient = _trained(adapted, seed=2)['adaptors']
  new = adapted.precondition(
      _trained(adapted, seed=1)['adaptors'], gradient, eps=0.1
  )[1]
  f = own['u'].numpy().reshape(C, 2, -1)
  gram = np.einsum('crn,cqn->crq', f, f) + 0.1 * np.eye(2)
  np.testing.assert_allclose(
      new['v'], np.linalg.inv(gram) @ gradient[1]['v'], rtol=1e-9
  )


def test_centering_moves_the_mean_of_vectors_exactly():
  """floral check 11: (5; 4, 6) -> (10; -1, 1)."""
  base = zoo.build('linear_regression', tf.TensorSpec([None, 1]), 0)
  adapted = adaptors.floral(base, 2, bias_only=True)
  weights = collections.OrderedDict(
      adaptors=(tf.constant([[4.0], [6.0]]),),
      base=(tf.constant([[1.0]]), tf.constant([5.0])),
  )
  centered = adapted.center(weights, [0.5, 0.5])
  _allclose(
      centered, collections.OrderedDict(
          adaptors=(tf.constant([[-1.0], [1.0]]),),
          base=(tf.constant([[1.0]]), tf.constant([10.0])),
      ), rtol=0,
  )


def test_centering_keeps_the_function_where_nothing_is_truncated():
  """floral check 11: lossless with one V for all adaptors, else not."""
  adapted = _adapted(rank=1)
  lossy = _trained(adapted)
  lossless = collections.OrderedDict(lossy, adaptors=tuple(
      collections.OrderedDict(u=own['u'], v=tf.repeat(own['v'][:1], C, axis=0))
      if isinstance(own, dict) else own for own in lossy['adaptors']
  ))
  p = [0.5, 0.3, 0.2]
  router = tf.constant([0.3, -1.0, 0.5], tf.float64)
  after = adapted.center(lossless, p)
  _allclose(
      adapted.merge(after, router), adapted.merge(lossless, router),
      rtol=1e-9, atol=1e-12,
  )
  # The mean has moved: with the router p, the base alone is the model.
  _allclose(
      after['base'],
      adapted.effective(lossless['base'], lossless['adaptors'], p),
      rtol=1e-9, atol=1e-12,
  )
  before, changed = (
      adapted.merge(w, router) for w in (lossy, adapted.center(lossy, p))
  )
  for leaf, is_exact in enumerate([0, 0, 1, 1, 1, 0, 1, 1]):
    difference = np.abs(before[leaf] - changed[leaf]).max()
    assert difference < 1e-12 if is_exact else difference > 1e-3


@pytest.mark.parametrize(
    'options, adapted_leaves',
    [
        ({}, [1, 2, 5, 6]),
        ({'adapt_bias': False}, [1, 5]),
        ({'adapt_norm': True}, [1, 2, 3, 4, 5, 6]),
        ({'adapt_embedding': True}, [0, 1, 2, 5, 6]),
        ({'bias_only': True}, [2, 6]),
        # Biases go with their kernels: trap 10, Table 5.
        ({'predicate': lambda w: w.kind == 'conv'}, [1, 2]),
        ({'predicate': lambda w: w.layer != 'conv'}, [5, 6]),
        ({'predicate': lambda w: False}, []),
        ({'bias_only': True, 'predicate': lambda w: w.layer == 'conv'}, [2]),
    ],
)
def test_choice_of_weights(options, adapted_leaves):
  adapted = adaptors.floral(_all_kinds(), C, **options)
  found = [i for i, entry in enumerate(adapted.plan) if entry.adaptor]
  assert found == adapted_leaves
  assert len(adapted.initial_adaptors(0)) == len(adapted_leaves)


def test_summary_lists_every_weight():
  adapted = adaptors.floral(_all_kinds(), C, rank=1)
  # Convolution (3 * 2 + 2 * 3), its bias, matrix (12 + 2), its bias.
  assert adapted.parameters_per_adaptor == 12 + 3 + 14 + 2
  lines = [' '.join(line.split()) for line in adapted.summary().split('\n')]
  assert lines == [
      'weight kind shape rank parameters budget',
      'embed/table embedding 9 x 4 - 0 left alone: adapt_embedding=False',
      'conv/kernel conv 2 x 3 x 2 x 3 1 12 33.33%',
      'conv/bias bias 3 - 3 100.00%',
      'norm/scale norm 3 - 0 left alone: adapt_norm=False',
      'norm/offset norm 3 - 0 left alone: adapt_norm=False',
      'dense/kernel dense 12 x 2 1 14 58.33%',
      'dense/bias bias 2 - 2 100.00%',
      'gain Gain 2 - 0 left alone: no adaptor for Gain',
      # 36 + 36 + 3 + 6 + 24 + 2 + 2 of the base.
      'all_kinds: 109 parameters; 3 adaptors of 31 (28.44% each): 93 extra.',
  ]


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(num_adaptors=2.5), '`num_adaptors` must be an integer >= 0, found'),
        (dict(budget=0.0), '`budget` must be > 0 and finite, found 0.0'),
        (dict(budget=np.nan), '`budget` must be > 0 and finite, found nan'),
        (dict(rank=0), '`rank` must be an integer >= 1, found 0'),
        (dict(rank=8, budget=0.1), '`rank` must be None with a `budget`'),
        (dict(conv_form='wide'), '`conv_form` must be one of bal.*, found \'w'),
        (dict(zero_factor='u'), '`zero_factor` must be one of output, input'),
        (dict(rank_rule='mine'), '`rank_rule` must be one of paper, release'),
        (dict(bias_only=True, adapt_bias=False), '`bias_only` must be False'),
    ],
)
def test_raises_on_wrong_argument(options, message):
  with pytest.raises(ValueError, match=message):
    adaptors.floral(_dense(), **options)


def test_raises_on_wrong_use():
  adapted = adaptors.floral(_dense(), 2)
  start = adapted.initial_adaptors(0)
  with pytest.raises(ValueError, match='`conv_norm` must be one of spatial, m'):
    adapted.precondition(start, start, conv_norm='channel')
  with pytest.raises(ValueError, match='must be an integer >= 0, found -2'):
    adaptors.full(_dense(), -2)
  unknown = dataclasses.replace(_all_kinds(), layers=tuple(
      weight._replace(kind='Own') for weight in _all_kinds().layers
  ))
  with pytest.raises(ValueError, match='found no adaptor for Own. Tip: descri'):
    adaptors.floral(unknown)
