"""Evaluation, personalization and reconstruction of tff.learning."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tests.conformance import cases
from tests.conformance import problems

agree = agree_lib.agree
algorithms = tff.learning.algorithms
SGD = tff.learning.optimizers.build_sgdm(0.1)


@pytest.mark.parametrize(
    'functional', [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_fed_eval(functional):
  model = problems.functional_model() if functional else problems.model_fn
  clients = (
      problems.functional_clients() if functional else problems.clients()
  )
  process = algorithms.build_fed_eval(model)
  state = agree(process.initialize)
  metrics = agree(process.next, state, clients).metrics
  assert metrics['client_work']['eval']['current_round_metrics']
  problems.assert_margin(metrics)


SUMS = {
    'plain': tff.aggregators.SumFactory,
    'secure': tff.learning.metrics.SecureSumFactory,
}


@pytest.mark.parametrize('name', cases.cases(SUMS, fast=['plain']))
def test_metrics_over_rounds(name):
  """Those of the round, and of all rounds."""
  with tf.Graph().as_default():
    finalizers = problems.model_fn().metric_finalizers()

  @tff.tensorflow.computation
  def unfinalized():
    model = problems.model_fn()
    return model.report_local_unfinalized_metrics()

  factory = tff.learning.metrics.SumThenFinalizeFactory(
      finalizers, inner_summation_factory=SUMS[name]()
  )
  process = algorithms.build_fed_eval(
      problems.model_fn,
      metrics_aggregation_process=factory.create(
          unfinalized.type_signature.result
      ),
  )
  state = agree(process.initialize)
  for _ in range(2):
    output = agree(process.next, state, problems.clients())
    state = output.state
    problems.assert_margin(output.metrics)


def _finetune():
  @tf.function
  def evaluate(model, data):
    loss = data.batch(4).reduce(
        (0.0, 0.0),
        lambda s, b: (
            s[0] + model.forward_pass(b, training=False).loss, s[1] + 1
        ),
    )
    return collections.OrderedDict(loss=loss[0], num_batches=loss[1])

  @tf.function
  def personalize(model, train, test, context=None):
    del context  # Unused.
    for batch in train.repeat(2).batch(4):
      with tf.GradientTape() as tape:
        loss = model.forward_pass(batch).loss
      for variable, gradient in zip(
          model.trainable_variables,
          tape.gradient(loss, model.trainable_variables),
      ):
        variable.assign_sub(0.1 * gradient)
    return evaluate(model, test)

  return evaluate, personalize


def test_personalization_eval():
  """All clients are in the sample; their order is that of the cohort."""
  evaluate, personalize = _finetune()
  computation = algorithms.build_personalization_eval_computation(
      problems.model_fn,
      collections.OrderedDict(
          sgd=lambda: personalize, again=lambda: personalize
      ),
      evaluate,
  )
  with tf.Graph().as_default():
    weights = tff.learning.models.ModelWeights.from_model(problems.model_fn())
    types = [v.shape for v in weights.trainable]
  weights = tff.learning.models.ModelWeights(
      [np.array(problems.initial(shape)) for shape in types], []
  )
  data = [
      collections.OrderedDict(
          train_data=tf.data.Dataset.from_tensor_slices(
              problems.examples(n, seed)
          ),
          test_data=tf.data.Dataset.from_tensor_slices(
              problems.examples(n + 2, seed + 10)
          ),
      )
      for seed, n in enumerate((6, 3, 0))
  ]
  native = agree_lib.on_native(computation, weights, data)
  fused = agree_lib.on_fused(computation, weights, data)
  # The reservoir puts its sample in an order of its own.
  agree_lib.assert_equal(_sorted(fused), _sorted(native))
  assert len(native['baseline_metrics']['loss']) == 3


def _sorted(metrics):
  """Returns the metrics with clients in order of the baseline's loss."""
  order = np.argsort(metrics['baseline_metrics']['loss'])
  return tf.nest.map_structure(lambda leaf: np.asarray(leaf)[order], metrics)


def reconstruction_model():
  """A shared layer, and a bias that stays with the client."""
  keras_model = tf.keras.Sequential([
      tf.keras.layers.InputLayer([problems.NUM_FEATURES]),
      tf.keras.layers.Dense(
          problems.NUM_CLASSES, kernel_initializer=problems.initial,
          use_bias=False,
      ),
      _Bias(),
  ])
  return (
      tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
          keras_model=keras_model,
          global_layers=keras_model.layers[:1],
          local_layers=keras_model.layers[1:],
          input_spec=problems.INPUT_SPEC,
      )
  )


class _Bias(tf.keras.layers.Layer):

  def build(self, input_shape):
    self.bias = self.add_weight('bias', input_shape[1:], initializer='zeros')

  def call(self, inputs):
    return inputs + self.bias


def _metrics():
  return [
      tf.keras.metrics.SparseCategoricalAccuracy('accuracy'),
      problems.NumClose(),
  ]


SPLITS = {
    'default': None,
    'epochs': (
        tff.learning.models.ReconstructionModel.build_dataset_split_fn(
            recon_epochs=2, recon_steps_max=3, post_recon_steps_max=2,
            split_dataset=True,
        )
    ),
}


@pytest.mark.parametrize('split', cases.cases(SPLITS, fast=['epochs']))
def test_fed_recon(split):
  process = algorithms.build_fed_recon(
      reconstruction_model, loss_fn=problems.loss, metrics_fn=_metrics,
      client_optimizer_fn=SGD, reconstruction_optimizer_fn=SGD,
      dataset_split_fn=SPLITS[split],
  )
  state = agree(process.initialize)
  for _ in range(2):
    output = agree(process.next, state, problems.clients())
    state = output.state
    problems.assert_margin(output.metrics)


@pytest.mark.slow
def test_fed_recon_eval():
  process = algorithms.build_fed_recon_eval(
      reconstruction_model, loss_fn=problems.loss, metrics_fn=_metrics,
      reconstruction_optimizer_fn=SGD,
  )
  state = agree(process.initialize)
  output = agree(process.next, state, problems.clients())
  problems.assert_margin(output.metrics)
