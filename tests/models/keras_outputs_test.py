"""Keras models of several inputs and outputs, masks, and metrics with a state.

One local step and one evaluation are those of Keras.
"""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import ensemble
from baselines import fedavg
from baselines import fedem
from tests import problems
from tests import slow
from tests.conformance import agree
from tff_pers.data import client_data
from tff_pers.models import export
from tff_pers.models import keras
from tff_pers.models import tff_models

L = tf.keras.layers
M = tf.keras.metrics
_ROWS = 5
_RATE = 0.1
_SPARSE = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
_LABELS = tf.TensorSpec([None], tf.int32)
_TARGETS = tf.TensorSpec([None], tf.float32)
_SPECS = dict(kind=_LABELS, price=_TARGETS)
_LOSS = dict(kind=_SPARSE, price='mse')
_WEIGHTS = dict(kind=1.0, price=0.3)
CALLS = pytest.mark.parametrize('call', slow.beyond(
    1, [agree.on_fused, agree.on_native]
))


def _network(form=dict):
  """Two inputs, numbers and words, and two outputs."""
  tf.keras.utils.set_random_seed(0)
  numbers = tf.keras.Input([4], name='numbers')
  words = tf.keras.Input([3], dtype='int32', name='words')
  hidden = L.Concatenate()([
      L.Dense(5, 'tanh')(numbers),
      L.GlobalAveragePooling1D()(L.Embedding(7, 4)(words)),
  ])
  kind, price = L.Dense(3, name='kind')(hidden), L.Dense(1, name='price')(hidden)
  if form is list:
    return tf.keras.Model([numbers, words], [kind, price])
  return tf.keras.Model(
      dict(numbers=numbers, words=words), dict(kind=kind, price=price)
  )


class _Subclassed(tf.keras.Model):
  """Likewise, without names or input shapes."""

  def __init__(self):
    super().__init__()
    self.kind, self.price = L.Dense(3), L.Dense(1)

  def call(self, inputs):
    numbers, words = inputs
    hidden = tf.concat([numbers, tf.cast(words, tf.float32)], 1)
    return self.kind(hidden), self.price(hidden)


def _examples(form=dict):
  rng = np.random.default_rng(1)
  x = dict(
      numbers=rng.normal(size=[_ROWS, 4]).astype(np.float32),
      words=rng.integers(7, size=[_ROWS, 3]).astype(np.int32),
  )
  y = dict(
      kind=rng.integers(3, size=_ROWS).astype(np.int32),
      price=rng.normal(size=_ROWS).astype(np.float32),
  )
  return (x, y) if form is dict else (tuple(x.values()), tuple(y.values()))


def _check_as_keras(network, model, x, y, compiled, call=agree.on_fused):
  """Compares a step and an evaluation with those of Keras; returns the latter.

  Args:
    network: The Keras model.
    model: Made of it.
    x: Features.
    y: Labels.
    compiled: Arguments of Keras' `compile`.
    call: On which runtime.
  """
  process = fedavg.build_fedavg(model, fedavg.FedAvgHyperparameters(
      local_steps=1, batch_size=_ROWS + 3, learning_rate=_RATE,
  ))
  data = client_data.dense(0, x, y)
  state = call(process.next, process.initialize_seeded(0), [()], [data])['state']
  [found] = call(process.evaluate, state, [()], [dict(adapt=data, test=data)])
  network.compile(tf.keras.optimizers.SGD(_RATE), **compiled)
  x, y = (list(t) if isinstance(t, tuple) else t for t in (x, y))
  network.train_on_batch(x, y)
  pairs = zip(state['weights'], network.trainable_variables, strict=True)
  for ours, theirs in pairs:
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
  expected = network.test_on_batch(x, y, return_dict=True)
  assert set(found) == {*expected, 'num_examples'}
  for name, value in expected.items():
    np.testing.assert_allclose(
        found[name], value, rtol=1e-5, atol=1e-6, err_msg=name
    )
  return expected


@CALLS
@pytest.mark.parametrize('form', [dict, list])
def test_several_outputs_are_those_of_keras(form, call):
  network = _network(form)
  x, y = _examples(form)
  specs = _SPECS if form is dict else list(_SPECS.values())
  compiled = dict(
      loss=_LOSS, loss_weights=_WEIGHTS,
      metrics=dict(kind=['accuracy'], price=['mae', M.RootMeanSquaredError()]),
  )
  model = keras.from_keras(network, y_spec=specs, **compiled)
  _check_as_keras(network, model, x, y, compiled, call)


def test_a_subclassed_model_has_a_loss_for_each_output():
  tf.keras.utils.set_random_seed(0)
  network = _Subclassed()
  x, y = _examples(tuple)
  compiled = dict(
      loss=[_SPARSE, 'mse'], loss_weights=[0.5, 2.0],
      metrics=[['accuracy'], ['mae']],
  )
  model = keras.from_keras(
      network, **compiled, y_spec=(_LABELS, _TARGETS), x_spec=(
          tf.TensorSpec([None, 4]), tf.TensorSpec([None, 3], tf.int32)
      ),
  )
  expected = _check_as_keras(network, model, x, y, compiled)
  assert 'output_1_accuracy' in expected


def test_outputs_of_a_list_have_names():
  """Labels may be a dict by them, as in Keras."""
  network = _network(list)
  x, y = _examples()
  spec = lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype)
  model = keras.from_keras(
      network, _LOSS, y_spec=_SPECS, loss_weights=_WEIGHTS, metrics=(),
      x_spec={name: spec(rows) for name, rows in x.items()},
  )
  _check_as_keras(network, model, x, y, dict(
      loss=_LOSS, loss_weights=_WEIGHTS
  ))


def test_an_export_has_all_inputs_and_outputs(tmp_path):
  network = _network()
  x, _ = _examples()
  model = keras.from_keras(network, _LOSS, y_spec=_SPECS)
  weights = model.initial_weights(0)
  export.save_model(model, weights, str(tmp_path))
  loaded = tf.saved_model.load(str(tmp_path))
  served = loaded.signatures['serving_default'](
      **{f'x_{name}': tf.constant(rows) for name, rows in x.items()}
  )
  expected = network(x)
  for found in (
      loaded.predict(x), export.to_keras(model, weights)(x),
      {name: served[f'predictions_{name}'] for name in expected},
  ):
    for name, rows in expected.items():
      np.testing.assert_allclose(found[name], rows, rtol=1e-5, atol=1e-6)


def test_tff_trains_several_outputs():
  network = _network()
  x, y = _examples()
  model = keras.from_keras(
      network, _LOSS, y_spec=_SPECS, loss_weights=_WEIGHTS
  )
  process = tff.learning.algorithms.build_weighted_fed_avg(
      tff_models.to_tff_functional_model(model),
      client_optimizer_fn=tff.learning.optimizers.build_sgdm(_RATE),
  )
  rows = collections.OrderedDict(
      x=collections.OrderedDict(x), y=collections.OrderedDict(y)
  )
  dataset = tf.data.Dataset.from_tensor_slices(rows).batch(_ROWS)
  output = process.next(process.initialize(), [dataset])
  network.compile(
      tf.keras.optimizers.SGD(_RATE), _LOSS, loss_weights=_WEIGHTS
  )
  network.train_on_batch(x, y)
  weights = process.get_model_weights(output.state).trainable
  for ours, theirs in zip(weights, network.trainable_variables, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('arguments, message', [
    (dict(y_spec=_LABELS), '`y_spec` must have the form of the outputs'),
    (dict(y_spec=(_LABELS, _TARGETS)), 'found outputs: a dict with kind, price'),
    (dict(loss=dict(kind=_SPARSE)), '`loss` must have the names of the outputs'),
    (dict(loss=['mse']), '`loss` must have one for each of the 2 outputs'),
    (dict(loss_weights=dict(cost=1.0)), '`loss_weights` must have the names'),
])
def test_raises_on_outputs_of_another_form(arguments, message):
  with pytest.raises(ValueError, match=message):
    keras.from_keras(_network(), **{
        'loss': _LOSS, 'y_spec': _SPECS, **arguments,
    })


@pytest.mark.parametrize('x, message', [
    (dict(words=1), 'must be a dict with numbers, words.*one with words'),
    (np.zeros([5, 4]), '`x` of client 0 must be a dict.*found a ndarray'),
])
def test_raises_on_data_of_another_form(x, message):
  process = fedavg.build_fedavg(
      keras.from_keras(_network(), _LOSS, y_spec=_SPECS)
  )
  data = client_data.dense(0, *_examples())
  data['examples']['x'] = x
  with pytest.raises(TypeError, match=message):
    agree.on_fused(process.next, process.initialize_seeded(0), [()], [data])


def test_raises_where_outputs_are_no_distribution():
  model = keras.from_keras(_network(), _LOSS, y_spec=_SPECS)
  with pytest.raises(ValueError, match='one output with FedEM.* found 2 of'):
    fedem.build_fedem(model, num_models=2)
  with pytest.raises(ValueError, match='one output with mixtures of prob'):
    ensemble.build_ensemble(
        model, ensemble.EnsembleHyperparameters(mix='probabilities'),
        groups=np.array([0, 1]),
    )


def _tagger(**options):
  return tf.keras.Sequential([
      L.Embedding(7, 4, mask_zero=True, **options),
      L.LSTM(5, return_sequences=True), L.Dense(3),
  ])


def _padded():
  rng = np.random.default_rng(2)
  x = rng.integers(1, 7, size=[_ROWS, 6]).astype(np.int32)
  x[:, 4:], x[1, 2:] = 0, 0
  return x, rng.integers(3, size=[_ROWS, 6]).astype(np.int32)


@CALLS
def test_masked_steps_are_left_out_as_in_keras(call):
  """Texts differ in length: the mean is over the steps of all."""
  tf.keras.utils.set_random_seed(0)
  network = _tagger(input_length=6)
  x, y = _padded()
  compiled = dict(loss=_SPARSE, metrics=['accuracy', M.MeanIoU(
      3, sparse_y_pred=False, name='iou'
  )])
  model = keras.from_keras(
      network, y_spec=tf.TensorSpec([None, 6], tf.int32), **compiled
  )
  _check_as_keras(network, model, x, y, compiled, call)


def test_default_accuracy_leaves_masked_steps_out():
  tf.keras.utils.set_random_seed(0)
  network = _tagger()
  x, y = _padded()
  spec = tf.TensorSpec([None, None], tf.int32)
  model = keras.from_keras(network, _SPARSE, y_spec=spec, x_spec=spec)
  _check_as_keras(network, model, x, y, dict(
      loss=_SPARSE, metrics=['accuracy']
  ))


def test_a_loss_of_whole_examples_knows_its_padding():
  """Keras cannot mask one, and we leave it as it is."""
  network = _tagger(input_length=6)
  x, y = _padded()

  def first_step(y, predictions):
    return tf.keras.losses.sparse_categorical_crossentropy(
        y[:, 0], predictions[:, 0], from_logits=True
    )

  model = keras.from_keras(
      network, first_step, y_spec=tf.TensorSpec([None, 6], tf.int32),
      metrics=(),
  )
  batch = problems.batch(x, y)
  assert not model.weights_of
  np.testing.assert_allclose(
      model.batch_loss(model.initial_weights(0), batch),
      np.mean(first_step(y, network(x))), rtol=1e-5,
  )


def test_raises_on_masked_steps_for_tff():
  model = keras.from_keras(
      _tagger(input_length=6), _SPARSE,
      y_spec=tf.TensorSpec([None, 6], tf.int32),
  )
  with pytest.raises(ValueError, match='must mask no steps'):
    tff_models.to_tff_functional_model(model)


def _classifier(units, activation=None):
  tf.keras.utils.set_random_seed(0)
  return tf.keras.Sequential([L.InputLayer([4]), L.Dense(units, activation)])


@CALLS
@pytest.mark.parametrize('units, activation, loss, y, metrics, names', [
    (1, 'sigmoid', 'binary_crossentropy', [0, 1, 1, 0, 1],
     lambda: [M.AUC(name='auc'), M.Precision(name='precision'),
              M.BinaryIoU(name='iou')], None),
    (3, 'softmax', 'categorical_crossentropy', np.eye(3)[[0, 2, 2, 1, 0]],
     lambda: [M.F1Score('macro', name='f1')], None),
    # By the names that programs have for them, too.
    (1, None, 'mse', [0.3, -1.0, 2.0, 0.5, 0.1],
     lambda: [M.MeanAbsoluteError('mae'), M.RootMeanSquaredError('rmse'),
              M.R2Score(name='r2')], ['mae', 'rmse', 'r2']),
])
def test_metrics_with_a_state_are_those_of_keras(
    units, activation, loss, y, metrics, names, call
):
  network = _classifier(units, activation)
  x = _examples()[0]['numbers']
  y = np.array(y, np.int32 if isinstance(y[0], int) else np.float32)
  spec = tf.TensorSpec([None, *y.shape[1:]], y.dtype)
  model = keras.from_keras(
      network, loss, y_spec=spec, metrics=names or metrics()
  )
  _check_as_keras(
      network, model, x, y, dict(loss=loss, metrics=metrics()), call
  )


class _Excess(M.Metric):
  """A user's metric: how far predictions are above labels, where they are."""

  def __init__(self):
    super().__init__('excess')
    self.total = self.add_weight('total', initializer='zeros')
    self.count = self.add_weight('count', initializer='zeros')

  def update_state(self, y_true, y_pred, sample_weight=None):
    above = tf.nn.relu(y_pred - tf.cast(y_true, y_pred.dtype))
    weight = tf.ones_like(above)
    if sample_weight is not None:
      weight *= tf.reshape(tf.cast(sample_weight, above.dtype), [-1, 1])
    self.total.assign_add(tf.reduce_sum(weight * above))
    self.count.assign_add(tf.reduce_sum(weight * tf.sign(above)))

  def result(self):
    return tf.math.divide_no_nan(self.total, self.count)


def test_metrics_with_a_state_are_those_of_keras_on_all_rows_of_all_clients():
  """Of clients of unlike size, and of their rows together: no means of means.

  The largest client has more rows than are evaluated at a time.
  """
  tf.keras.utils.set_random_seed(0)
  inputs = tf.keras.Input([4])
  network = tf.keras.Model(inputs, dict(
      event=L.Dense(1, 'sigmoid', name='event')(inputs),
      kind=L.Dense(3, 'softmax', name='kind')(inputs),
  ))
  compiled = dict(
      loss=dict(
          event='binary_crossentropy', kind='sparse_categorical_crossentropy'
      ),
      metrics=dict(
          event=[M.AUC(name='auc'), M.Precision(name='precision'),
                 M.Recall(name='recall'), _Excess()],
          kind=[M.MeanIoU(3, sparse_y_pred=False, name='iou')],
      ),
  )
  model = keras.from_keras(
      network, y_spec=dict(event=_LABELS, kind=_LABELS), **compiled
  )
  process = fedavg.build_fedavg(model)
  rng = np.random.default_rng(0)
  clients = [
      client_data.dense(
          index, rng.normal(index, size=[size, 4]).astype(np.float32),
          {name: rng.integers(count, size=size).astype(np.int32)
           for name, count in (('event', 2), ('kind', 3))},
      ) for index, size in enumerate((7, 2, 600))
  ]
  pooled = client_data.pool(clients)
  state = process.initialize_seeded(0)
  found = agree.on_fused(
      process.evaluate, state, [()] * 3,
      [dict(adapt=data, test=data) for data in clients],
  )
  together = agree.on_fused(process.evaluate_global, state, pooled)['1']
  network.compile(**compiled)
  for data, ours in zip([*clients, pooled], [*found, together]):
    expected = network.test_on_batch(
        data['examples']['x'], dict(data['examples']['y']), return_dict=True
    )
    for name, value in expected.items():
      np.testing.assert_allclose(
          ours[name], value, rtol=1e-5, atol=1e-6, err_msg=name
      )


def test_names_of_programs_give_their_numbers():
  """RMSE, R2 and log loss, as `--metric` has them."""
  from sklearn import metrics as sklearn  # pylint: disable=g-import-not-at-top
  x, y = _examples()[0]['numbers'], _examples()[1]['price']
  network = _classifier(1)
  model = keras.from_keras(
      network, 'mse', y_spec=_TARGETS, metrics=['mae', 'rmse', 'r2']
  )
  process = fedavg.build_fedavg(model)
  data = client_data.dense(0, x, y)
  [found] = agree.on_fused(
      process.evaluate, process.initialize_seeded(0), [()],
      [dict(adapt=data, test=data)],
  )
  predicted = network(x).numpy()[:, 0]
  np.testing.assert_allclose(
      [found[name] for name in ('mae', 'rmse', 'r2')], [
          sklearn.mean_absolute_error(y, predicted),
          np.sqrt(sklearn.mean_squared_error(y, predicted)),
          sklearn.r2_score(y, predicted),
      ], rtol=1e-5,
  )


@CALLS
def test_tensors_are_compared_in_any_graph(call):
  """By `==` and `!=` of layers, losses and metrics; TFF's are legacy graphs."""
  tf.keras.utils.set_random_seed(0)
  inputs = tf.keras.Input([4])
  hidden = tf.cast(inputs == 0, tf.float32) + tf.cast(inputs != 1, tf.float32)
  hidden = L.Lambda(lambda t: t + tf.cast(t == 2, tf.float32))(hidden)
  network = tf.keras.Model(inputs, L.Dense(3)(hidden))
  x = np.array([[0, 1, 2, 0], [1, 0, 0, 0]] * 3, np.float32)[:_ROWS]
  y = np.array([0, 1, 1, 2, 0], np.int32)

  def hit(y, predictions):
    y = tf.cast(tf.reshape(y, [-1]), tf.int32)  # Keras has floats [n, 1].
    return tf.cast(tf.argmax(predictions, -1, tf.int32) == y, tf.float32)

  def loss(y, predictions):
    weight = 1.0 + tf.cast(tf.reshape(y, [-1]) != 1, tf.float32)
    return weight * tf.keras.losses.sparse_categorical_crossentropy(
        y, predictions, from_logits=True
    )

  compiled = dict(loss=loss, metrics=[hit])
  model = keras.from_keras(network, **compiled)
  _check_as_keras(network, model, x, y, compiled, call)


class _Largest(M.Metric):
  """No sum: the largest prediction."""

  def __init__(self):
    super().__init__('largest')
    self.value = self.add_weight('value', initializer='zeros')

  def update_state(self, y_true, y_pred, sample_weight=None):
    self.value.assign(tf.maximum(self.value, tf.reduce_max(y_pred)))

  def result(self):
    return self.value


@pytest.mark.parametrize('metric, message', [
    (_Largest, "numbers made of sums over examples.*found 'largest'"),
    ('auc', "found 'auc', which programs compute from all predictions"),
    (M.MeanIoU, 'objects where a class has arguments, found MeanIoU'),
    (M.Mean(), "take labels, predictions and `sample_weight`, found 'mean'"),
])
def test_raises_on_a_metric_that_is_no_sum(metric, message):
  with pytest.raises(ValueError, match=message):
    keras.from_keras(
        _classifier(1), 'mse', y_spec=_TARGETS, metrics=[metric]
    )
