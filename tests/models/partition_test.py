"""Which weights are private, by scheme and by name; both parts as models."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedavg_finetuned
from tests import problems
from tff_pers.config import traits
from tff_pers.core import random
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import keras
from tff_pers.models import layers
from tff_pers.models import partition
from tff_pers.models import resnet
from tff_pers.models import split_hyperparameters
from tff_pers.models import zoo

L = tf.keras.layers
IMAGE = tf.TensorSpec([None, 32, 32, 1], tf.float32)
# `resnet_test` and `sequences_test` say what the weights of the others are.
ZOO = sorted({*zoo.names()}.difference(
    resnet.BLOCKS, traits.SEQUENCES, traits.BATCH_NORM
))


def _zoo(name, **options):
  num_classes = 0 if name == 'linear_regression' else 10
  return zoo.build(name, IMAGE, num_classes, **options)


def _private(parts) -> list[str]:
  return [w.name for w, p in zip(parts.weights, parts.is_private) if p]


def _of(layer):
  return [f'{layer}/kernel', f'{layer}/bias']


def test_models_of_one_layer_are_known():
  shallow = [name for name in ZOO if len(_zoo(name).layers) == 2]
  assert shallow == sorted(traits.ONE_LAYER)


@pytest.mark.parametrize('name', ZOO)
def test_zoo_models_say_what_their_weights_are(name):
  model = _zoo(name)
  assert layers.describe(model) == model.layers  # Of the right shapes.
  for number, (kernel, bias) in enumerate(
      zip(model.layers[::2], model.layers[1::2], strict=True)
  ):
    assert [kernel.name, bias.name] == _of(f'{kernel.kind}_{number}')
    assert kernel.kind in ('conv', 'dense') and bias.kind == 'bias'


@pytest.mark.parametrize('name', ZOO)
def test_adaptors_of_the_zoo_are_private_and_the_base_is_global(name):
  model = _zoo(name)
  parts = split_hyperparameters.SplitHyperparameters(
      split='adapter'
  ).partition(model)
  base, own = parts.initial_weights(3)
  tf.nest.map_structure(
      np.testing.assert_array_equal, base, model.initial_weights(3)
  )
  # Two factors, and one for the bias.
  assert len(own) == 3 * len(model.layers) / 2
  assert all(w.startswith('adaptors/') for w in _private(parts))
  assert sum(parts.num_parameters()) == parts.model.num_parameters
  assert parts.num_parameters()[0] == model.num_parameters


def test_raises_where_the_only_layer_would_be_private():
  model = _zoo('linear_regression')
  with pytest.raises(ValueError, match='linear_regression a global weight'):
    partition.from_scheme(model, 'output_layer')


def _vision():
  return tf.keras.Sequential([
      L.InputLayer([8, 8, 3]),
      L.DepthwiseConv2D(3, name='stem'),
      L.GroupNormalization(3, name='stem_norm'),
      L.Conv2D(4, 3, name='middle'),
      L.GroupNormalization(2, name='middle_norm'),
      L.PReLU(name='slope'),
      L.Flatten(),
      L.Dense(3, name='head'),
      L.LayerNormalization(name='last_norm'),
  ])


def _text():
  return tf.keras.Sequential([
      L.InputLayer([6], dtype=tf.int32),
      L.Embedding(20, 5, name='table'),
      L.LayerNormalization(name='table_norm'),
      L.GRU(3, name='memory'),
      L.Dense(4, name='head', use_bias=False),
  ])


@pytest.mark.parametrize('make, split, expected', [
    # As in papers/partial_personalization.md 5.2: a first layer and its norm.
    (_vision, 'input_layer', [
        'stem/depthwise_kernel', 'stem/bias', 'stem_norm/gamma',
        'stem_norm/beta',
    ]),
    (_vision, 'output_layer', ['head/kernel', 'head/bias']),
    (_vision, 'norm', [
        'stem_norm/gamma', 'stem_norm/beta', 'middle_norm/gamma',
        'middle_norm/beta', 'last_norm/gamma', 'last_norm/beta',
    ]),
    (_vision, 'bias', ['stem/bias', 'middle/bias', 'head/bias']),
    (_vision, 'slope/*', ['slope/alpha']),
    (_vision, 'head/*: middle_norm/beta', [
        'middle_norm/beta', 'head/kernel', 'head/bias',
    ]),
    # As there: an embedding table is no input layer.
    (_text, 'input_layer', [
        'gru_cell/kernel', 'gru_cell/recurrent_kernel', 'gru_cell/bias',
    ]),
    (_text, 'output_layer', ['head/kernel']),
    (_text, 'norm', ['table_norm/gamma', 'table_norm/beta']),
    (_text, 'bias', ['gru_cell/bias']),
    (_text, 'table/*:bias', ['table/embeddings', 'gru_cell/bias']),
])
def test_splits_of_keras_models(make, split, expected):
  tf.keras.backend.clear_session()  # Numbers of layers without a name.
  model = keras.from_keras(make, 'sparse_categorical_crossentropy')
  parts = partition.from_scheme(model, split)
  assert _private(parts) == expected
  theta, own = parts.initial_weights(0)
  assert len(theta) + len(own) == len(model.layers)
  assert [tuple(leaf.shape) for leaf in own] == [
      w.shape for w in model.layers if w.name in expected
  ]


def _nested(seed):
  """Weights in which neither part is a run of leaves."""
  del seed  # Always the same.
  return {
      'a': [tf.constant([1.0]), tf.constant([2.0, 2.5])],
      'b': {'bias': tf.constant([3.0]), 'kernel': tf.constant([[4.0]])},
      'c': (tf.constant([5.0]),),
  }


def _nested_parts(is_private):
  model = dataclasses.replace(problems.tiny_model(), init=_nested)
  return partition.Partition(model, is_private)


def test_merge_undoes_split_and_keeps_the_order():
  parts = _nested_parts((True, False, False, True, True))
  weights = _nested(None)
  theta, own = parts.split(weights)
  assert [leaf.numpy().ravel()[0] for leaf in theta] == [2.0, 3.0]
  assert [leaf.numpy().ravel()[0] for leaf in own] == [1.0, 4.0, 5.0]
  merged = parts.merge(theta, own)
  tf.nest.assert_same_structure(merged, weights)
  tf.nest.map_structure(np.testing.assert_array_equal, merged, weights)


def _types(parts):
  models = parts.global_model(()), parts.private_model(())
  return [model.weights_type for model in models]


def test_types_of_the_parts_have_no_names():
  """Names would have to be sorted wherever a part passes through a sequence."""
  parts = _nested_parts((True, False, False, True, True))
  types = _types(parts)
  assert str(types[0]) == '<float32[2],float32[1]>'
  assert str(types[1]) == '<float32[1],float32[1,1],float32[1]>'

  @tff.tensorflow.computation(*types)
  def merge(theta, own):
    return parts.merge(theta, own)

  assert merge.type_signature.result == parts.model.weights_type


@pytest.mark.parametrize('private', [False, True])
def test_an_empty_and_a_total_split_can_be_built(private):
  model = _zoo('mlp_small')
  parts = partition.by_predicate(model, lambda weight: private)
  both = parts.initial_weights(1)
  assert not both[not private]
  tf.nest.map_structure(
      np.testing.assert_array_equal, both[private], model.initial_weights(1)
  )
  types = _types(parts)
  assert types[not private] == tff.to_type(())
  assert types[private] == model.weights_type


def test_each_part_is_a_model_with_the_other_held_constant():
  model = dataclasses.replace(
      problems.tiny_model(),
      penalty=lambda w: tf.add_n([tf.nn.l2_loss(leaf) for leaf in w]),
  )
  parts = partition.Partition(model, (False, True, True, False))
  data = problems.tiny_clients()[4]['examples']
  batch = problems.batch(data['x'], data['y'])
  weights = model.initial_weights(0)
  theta, own = parts.split(weights)
  loss, gradient = model.loss_and_gradient(weights, batch)
  expected = parts.split(gradient)
  views = [parts.global_model(own), parts.private_model(theta)]
  for view, part, slope in zip(views, (theta, own), expected):
    actual_loss, actual = view.loss_and_gradient(part, batch)
    np.testing.assert_allclose(actual_loss, loss, rtol=1e-12)
    for a, e in zip(actual, slope):
      np.testing.assert_allclose(a, e, rtol=1e-10)
      assert np.abs(e).max() > 1e-3
    assert len(actual) == len(slope) == 2
    tf.nest.map_structure(
        np.testing.assert_array_equal, view.initial_weights(0), part
    )
  assert [w.name for w in layers.describe(views[1])] == [
      'dense_0/bias', 'dense_2/kernel',
  ]


def test_a_part_of_a_model_without_penalty_has_none():
  parts = partition.from_scheme(_zoo('mlp_small'), 'output_layer')
  assert parts.private_model(()).penalty is functional.no_penalty


def test_summary_lists_every_weight_with_its_side_and_totals():
  parts = partition.from_scheme(_zoo('mlp_small'), 'output_layer')
  lines = [' '.join(line.split()) for line in parts.summary().split('\n')]
  assert lines == [
      'weight kind shape parameters side',
      'dense_0/kernel dense 1024 x 64 65536 global',
      'dense_0/bias bias 64 64 global',
      'dense_1/kernel dense 64 x 10 640 private',
      'dense_1/bias bias 10 10 private',
      # 65,600 and 650 of 66,250.
      'mlp_small: 66250 parameters; 65600 global (99.02%), 650 private (0.98%).',
  ]


def test_a_factor_is_not_taken_for_a_dense_layer():
  """A search for kernels in an adapted model finds those of its base."""
  adapted = adaptors.floral(_zoo('mlp_small'), 1, rank=2).mixed([1.0])
  again = adaptors.floral(adapted, 1, rank=2)
  assert [entry.weight.name for entry in again.plan if entry.adaptor] == [
      'dense_0/kernel', 'dense_0/bias', 'dense_1/kernel', 'dense_1/bias',
  ]
  head = partition.from_scheme(adapted, 'output_layer')
  assert _private(head) == _of('dense_1')


def test_adaptors_of_the_wanted_rank_beside_other_private_weights():
  parts = split_hyperparameters.SplitHyperparameters(
      split='bias : adapter', adaptor_rank=3
  ).partition(_zoo('mlp_small'))
  assert _private(parts) == [
      'adaptors/dense_0/kernel/u', 'adaptors/dense_0/kernel/v',
      'adaptors/dense_0/bias/delta', 'adaptors/dense_1/kernel/u',
      'adaptors/dense_1/kernel/v', 'adaptors/dense_1/bias/delta',
      'dense_0/bias', 'dense_1/bias',
  ]
  assert parts.weights[0].shape == (1, 3, 64)


def test_private_adaptors_act_with_their_whole_weight():
  """One adaptor is no share of a mixture: u^T v is added as it is."""
  base = _zoo('linear_regression')
  parts = split_hyperparameters.SplitHyperparameters(
      split='adapter', adaptor_rank=1
  ).partition(base)
  theta, own = parts.initial_weights(0)
  own = [tf.ones_like(leaf) for leaf in own]
  x = tf.ones([1, 32, 32, 1])
  predicted = parts.private_model(theta).predict(own, x, False, random.key(0))
  # The base is zero; 1024 entries of u v^T = 1, and the bias.
  np.testing.assert_allclose(predicted, [[1025.0]])


@pytest.mark.parametrize('split, message', [
    ('*', r"must leave mlp_small a global weight, found '\*', which .* local_o"),
    ('*/kernel:bias', 'must leave mlp_small a global weight'),
    ('input:bias', r"input_layer, .* \(dense_0/kernel, .*found 'input', which"),
    ('conv_*', r"found 'conv_\*', which matches none.$"),
    ('', "found '', which matches none"),
    ('adapter', 'which matches none. Tip: adapt the model first, see adaptors.fl'),
])
def test_raises_on_a_split_that_leaves_a_part_empty(split, message):
  with pytest.raises(ValueError, match=message):
    partition.from_scheme(_zoo('mlp_small'), split)


def test_raises_on_what_does_not_go_together():
  model = _zoo('mlp_small')
  options = split_hyperparameters.SplitHyperparameters(adaptor_rank=2)
  with pytest.raises(ValueError, match='`adaptor_rank` must be 0 .*, found 2'):
    options.partition(model)
  with pytest.raises(ValueError, match='for each of the 4 weights .* found 3'):
    partition.Partition(model, (True, False, False))


@pytest.mark.parametrize('scheme', sorted({*partition.SCHEMES} - {'adapter'}))
def test_raises_on_schemes_where_the_layers_are_unknown(scheme):
  model = problems.q6().model
  with pytest.raises(ValueError, match=(
      r'because quadratic does not say what unknown_0/weight of shape \(5,\) is'
  )):
    partition.from_scheme(model, scheme)


def test_order_of_layers_is_not_guessed_from_keys():
  model = dataclasses.replace(
      problems.tiny_model(),
      init=lambda seed: {'head': tf.zeros([4, 2]), 'hidden': tf.zeros([3, 4])},
  )
  with pytest.raises(ValueError, match='in which order its layers are applied'):
    partition.from_scheme(model, 'output_layer')
  told = dataclasses.replace(model, layers=layers.describe(model))
  assert _private(partition.from_scheme(told, 'output_layer')) == [
      'dense_1/kernel'
  ]


class _HeadFirst(tf.keras.Model):
  """Holds its layers in another order than it applies them."""

  def __init__(self):
    super().__init__()
    self.head = L.Dense(3, name='head')
    self.hidden = L.Dense(8, 'relu', name='hidden')

  def call(self, x, training=None):
    if not self.head.built:
      self.head.build([None, 8])
    scale = tf.norm(self.head.kernel)  # This read does not apply the layer.
    return self.head(self.hidden(x)) / scale


def test_layers_of_a_subclassed_model_come_as_they_are_applied():
  model = keras.from_keras(
      _HeadFirst, tf.keras.losses.SparseCategoricalCrossentropy(True),
      x_spec=tf.TensorSpec([None, 4]),
  )
  private = lambda scheme: _private(partition.from_scheme(model, scheme))
  assert private('output_layer') == ['head/kernel', 'head/bias']
  assert private('input_layer') == ['hidden/kernel', 'hidden/bias']
  last = (True, True, False, False)
  assert partition.last_layers(model, 1).is_private == last
  assert fedavg_finetuned.fine_tuned_part(model, 'last').is_private == last


def test_the_last_layer_of_several_outputs_is_not_guessed():
  x = L.Input([4])
  network = tf.keras.Model(x, [L.Dense(3)(x), L.Dense(1)(x)])
  model = keras.from_keras(network, ['mse', 'mse'], y_spec=[
      tf.TensorSpec([None, size]) for size in (3, 1)
  ])
  with pytest.raises(ValueError, match='which layers end in which of its out'):
    partition.from_scheme(model, 'output_layer')
