"""Every builder of a method says what it takes, in one sentence."""

import inspect
import re

import pytest
import tensorflow as tf
import tensorflow_federated as tff

import baselines
from tff_pers import algorithms
from tff_pers import composition
from tff_pers.composition import builders
from tff_pers.core import process as process_lib
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import partition
from tff_pers.models import zoo

MODEL = zoo.build('logistic_regression', tf.TensorSpec([None, 3]), 2)
# What builders take instead of a model, or the model itself.
_MLP = zoo.build('mlp', tf.TensorSpec([None, 3]), 2)
_MADE = {
    functional.FunctionalModel: MODEL,
    adaptors.AdaptedModel: adaptors.floral(_MLP, 2, rank=1),
    partition.Partition: partition.from_scheme(_MLP, 'output_layer'),
}
# By name; those of `baselines` and of `algorithms` that make a process.
BUILDERS = {
    name: build
    for package in (algorithms, baselines)
    for name, build in vars(package).items()
    if name.startswith('build_') and inspect.signature(
        build
    ).return_annotation is process_lib.PersonalizedProcess
}


def _given(build, **replaced):
  """Returns arguments that builders do not look at, but for the model."""
  parameters = inspect.signature(build).parameters
  given = {
      name: _MADE.get(p.annotation)
      for name, p in parameters.items()
      if p.default is inspect.Parameter.empty
  }
  known = {'num_clients': 3} if 'num_clients' in given else {}
  return {**given, **known, **replaced}


def _taking(name):
  return [
      key for key, build in BUILDERS.items()
      if name in inspect.signature(build).parameters
  ]


def test_they_are_all_here():
  assert {'build_perm', 'build_fedavg', 'build_floral'} <= set(BUILDERS)
  assert len(BUILDERS) > 40


@pytest.mark.parametrize('name', _taking('model'))
def test_raises_on_a_raw_keras_model(name):
  keras_model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
  with pytest.raises(
      TypeError, match='found a Keras model. Tip: models.from_keras'
  ):
    BUILDERS[name](**_given(BUILDERS[name], model=keras_model))


@pytest.mark.parametrize('name', [
    name for name, build in BUILDERS.items()
    if {adaptors.AdaptedModel, partition.Partition} & {
        p.annotation for p in inspect.signature(build).parameters.values()
    }
])
def test_raises_on_a_model_of_which_nothing_is_made_yet(name):
  first = next(iter(inspect.signature(BUILDERS[name]).parameters))
  with pytest.raises(TypeError, match='found a FunctionalModel. Tip: models.'):
    BUILDERS[name](**_given(BUILDERS[name], **{first: MODEL}))


def test_annotations_may_be_texts():

  @builders.checked
  def build(
      model: 'functional.FunctionalModel',
      hyperparameters: 'algorithms.PermHyperparameters',
  ):
    del model, hyperparameters

  with pytest.raises(TypeError, match='Tip: models.from_keras'):
    build(tf.keras.Sequential(), None)
  with pytest.raises(TypeError, match='must be PermHyperparameters, found None'):
    build(MODEL, None)


@pytest.mark.parametrize('name', _taking('hyperparameters'))
def test_raises_on_no_hyperparameters(name):
  with pytest.raises(
      TypeError, match='Hyperparameters, found None. Tip: leave it out for'
  ):
    BUILDERS[name](**_given(BUILDERS[name], hyperparameters=None))


@pytest.mark.parametrize('name', _taking('num_clients'))
def test_raises_on_no_clients(name):
  build = BUILDERS[name]
  with pytest.raises(ValueError, match='`num_clients` must be >= 1, .*found 0'):
    build(**_given(build, num_clients=0))


@pytest.mark.parametrize('model, found', [
    (tff.learning.models.FunctionalModel(
        initial_weights=((), ()), predict_on_batch_fn=tf.function(lambda: 0),
        loss_fn=tf.function(lambda: 0),
        input_spec=(tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32)),
    ), 'a tff.learning.models.FunctionalModel. Tip: models.from_tff_functional'),
    (None, 'a NoneType.$'),
    (lambda: None, 'a function. Tip: .*where keras_model may be a function.'),
], ids=['tff', 'none', 'constructor'])
def test_raises_on_other_models(model, found):
  with pytest.raises(TypeError, match=f'FunctionalModel, found {found}'):
    builders.check_model(model)


def test_composing_looks_at_the_model_too():
  with pytest.raises(TypeError, match='found a Keras model'):
    composition.compose(
        tf.keras.Sequential(), init=None, send=None, work=None, finalize=None,
        deploy=None, client_model=None,
    )


def test_raises_on_a_dictionary():
  with pytest.raises(TypeError, match=r'Tip: FedAvgHyperp.*\(\*\*values\).'):
    baselines.build_fedavg(MODEL, dict(learning_rate=1.0))


def test_an_unknown_argument_is_refused_with_those_that_are_known():
  with pytest.raises(TypeError, match='^build_perm: .*num_clients, hyper'):
    algorithms.build_perm(None, 5, aggregator=None)


def test_raises_on_a_fraction_of_clients():
  with pytest.raises(TypeError, match='must be an integer, found 2.5'):
    algorithms.build_perm(MODEL, 2.5)


def test_a_process_knows_its_clients():
  """Those of a table; `inputs_test` has what it refuses."""
  process = baselines.build_scaffold(MODEL, num_clients=3)
  state = process.initialize()
  with pytest.raises(ValueError, match='must be in 0..2'):
    process.next(state, [process.initialize_client(state, 0)], [
        dict(index=5, num_examples=0, examples=dict(
            x=tf.zeros([0, 3]), y=tf.zeros([0], tf.int32)
        ))
    ])


@pytest.mark.parametrize('name', sorted(BUILDERS))
def test_help_says_what_it_returns_and_raises(name):
  text = inspect.getdoc(BUILDERS[name])
  arguments, returns, end = re.split('\\n(?:Returns|Raises):\\n', text)
  assert 'Args:' in arguments and returns.strip()
  assert end.count('TypeError:') == 1
  needs_clients = 'num_clients' in inspect.signature(BUILDERS[name]).parameters
  assert ('`num_clients` is below 1' in end) == needs_clients
