"""LoRA's use of FLoRAL: a frozen base, from Keras and back to Keras."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import local_adaptor
from examples import lora_transformer
from tests import problems
from tests.baselines import rounds
from tff_pers import models
from tff_pers.algorithms.floral import floral
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors


@pytest.fixture(scope='module', name='trained')
def _trained():
  """A frozen Transformer after three rounds of FLoRAL."""
  tf.keras.utils.set_random_seed(0)
  rng = np.random.default_rng(0)
  keras_model = lora_transformer.transformer()
  keras_model.trainable = False
  adapted = adaptors.floral(
      models.from_keras(keras_model, lora_transformer.LOSS), 2, rank=2
  )
  data = [
      client_data.dense(i, *lora_transformer.sequences(rng, 20, i))
      for i in range(2)
  ]
  results = list(lora_transformer.train(adapted, data))
  return keras_model, adapted, results


def test_frozen_transformer_trains_adaptors_of_its_projections(trained):
  keras_model, adapted, results = trained
  weights, _, _ = results[-1]
  assert len(results) == 3
  assert results[-1][2] < results[0][2]  # The loss falls.
  assert not tf.nest.flatten(weights['base'])
  start = adapted.initial_adaptors(0)
  layers = [e.weight.layer for e in adapted.plan if e.adaptor is not None]
  moved = {
      layer for layer, old, new in zip(layers, start, weights['adaptors'])
      if isinstance(old, dict) and np.any(new['u'])
  }
  assert moved == {
      'query', 'key', 'value', 'attention_output',
      *(x.name for x in keras_model.layers
        if isinstance(x, tf.keras.layers.Dense)),
  }


def test_merged_transformer_is_the_adapted_one(trained):
  """Outputs to 1e-6, with the variables of the frozen model put back."""
  keras_model, adapted, results = trained
  weights, routers, _ = results[-1]
  x, _ = lora_transformer.sequences(np.random.default_rng(1), 50)
  before = keras_model(x).numpy()
  model, frozen = adapted.as_model(), keras_model.get_weights()
  for router in routers:
    expected = model.predict(
        dict(weights, router=router), tf.constant(x), False, random.key(0)
    )
    assert np.abs(expected - before).max() > 0.01
    keras_model.set_weights(adapted.merge(weights, router))
    np.testing.assert_allclose(keras_model(x), expected, rtol=0, atol=1e-6)
    keras_model.set_weights(frozen)
    np.testing.assert_array_equal(keras_model(x), before)


_FROZEN = dict(
    learning_rate=0.0, adaptor_learning_rate=0.1, local_steps=5, batch_size=2,
    # What would move a base that is not left out of the step.
    weight_decay=0.1, momentum=0.5,
)


_METHODS = [
    (floral.build_floral, floral_hp.FloralHyperparameters),
    (local_adaptor.build_local_adaptor,
     local_adaptor.LocalAdaptorHyperparameters),
]


def _adapted(num_adaptors):
  return adaptors.floral(problems.tiny_model(), num_adaptors, rank=1)


def test_rate_zero_freezes_the_base_of_floral():
  process = floral.build_floral(
      _adapted(2), floral_hp.FloralHyperparameters(**_FROZEN)
  )
  start = process.initialize_seeded(rounds.SEED)['weights']
  end = rounds.train(process)[0][-1]['weights']
  rounds.assert_identical(end['base'], start['base'])
  for old, new in zip(*map(tf.nest.flatten, (
      start['adaptors'], end['adaptors']
  ))):
    assert np.abs(new - old).max() > 1e-5


@pytest.mark.parametrize('build, kind', _METHODS)
def test_client_deploys_all_weights_of_a_model_with_frozen_ones(build, kind):
  layers = tf.keras.layers
  keras_model = tf.keras.Sequential([
      layers.InputLayer([3]), layers.Dense(4, 'tanh', trainable=False),
      layers.Dense(2),
  ])
  base = models.from_keras(keras_model, lora_transformer.LOSS)
  process = build(
      adaptors.floral(base, 1, rank=1), kind(local_steps=2, batch_size=5)
  )
  rng = np.random.default_rng(0)
  x = rng.standard_normal((10, 3)).astype(np.float32)
  data = client_data.dense(0, x, rng.integers(2, size=10).astype(np.int32))
  state = process.initialize_seeded(0)
  output = process.next(state, [process.initialize_client(state, 0)], [data])
  deployed = process.client_model(
      output['state'], output['client_states'][0], 0
  )
  result = process.evaluate(
      output['state'], output['client_states'],
      [dict(adapt=data, test=data)],
  )[0]
  assert [w.shape for w in deployed] == [
      w.shape for w in keras_model.get_weights()
  ]
  keras_model.set_weights(deployed)
  np.testing.assert_allclose(
      result['loss'],
      lora_transformer.LOSS(data['examples']['y'], keras_model(x)), rtol=1e-5,
  )


@pytest.mark.parametrize('is_all_frozen', [True, False])
@pytest.mark.parametrize('build, kind', _METHODS)
def test_raises_on_a_rule_for_a_frozen_base(build, kind, is_all_frozen):
  """Robust rules are for the base: adaptors have their weighted mean."""
  keras_model = tf.keras.Sequential(
      [tf.keras.layers.InputLayer([3]), tf.keras.layers.Dense(2)]
  )
  keras_model.trainable = not is_all_frozen
  adapted = adaptors.floral(
      models.from_keras(keras_model, lora_transformer.LOSS), 1, rank=1
  )
  options = dict(adaptor_learning_rate=0.1, aggregator='median')
  if not is_all_frozen:
    options['learning_rate'] = 0.0
  with pytest.raises(ValueError, match='`aggregator` must be mean if the'):
    build(adapted, kind(**options))


@pytest.mark.parametrize('options, message', [
    (dict(), '`adaptor_learning_rate` must be a number with learning_rate=0'),
    (dict(adaptor_learning_rate=0.1, center=True), '`center` must be false'),
])
def test_raises_on_options_that_do_not_go_with_a_frozen_base(options, message):
  with pytest.raises(ValueError, match=message):
    floral_hp.FloralHyperparameters(learning_rate=0.0, **options)
