"""No flag is without effect: each changes a tiny run, or is refused.

Walks the registry: a method is here by its registration, its variants by the
`choices` of its hyperparameters. Every hyperparameter changes a run of some
variant of the first method that inherits it from the same class, up to its
first changed number and in eager TensorFlow (see `eager`), in a moment.
Of PERM's family, whose `next` is its own, the fast tests see that what no line
reads is refused, and nothing else. Slow: its effects; every hyperparameter of every method; what
no line of a variant reads is refused; a sample of other variants. Two equally
typed hyperparameters that a builder swaps both have an effect: recorded values
see that (`golden`), if their defaults differ.
"""

import copy
import dataclasses
import functools
import itertools
import re
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from tests.contracts import eager
from tff_pers import composition
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.config import registry
from tff_pers.models import keras
from tff_pers.models import zoo
from tff_pers.runtime import native
from tff_pers.testing import tiny

NUM_ROUNDS = 3
# Beside those that differ from the default by one choice; '' is for all methods
# that have these hyperparameters.
FURTHER_VARIANTS = {
    '': [
        dict(local_steps=0, local_epochs=1),
        dict(learning_rate_schedule='exponential', learning_rate_rounds='2'),
        dict(learning_rate_schedule='steps', learning_rate_rounds='1:2'),
        dict(split='adapter'),
    ],
    'fedprox': [dict(epochs_range='1:3')],
    'ffgg': [dict(pretrain_rounds=2)],
    'floral': [dict(router='oracle', objective='mfl')],
    'l2gd': [dict(smoothness=2.0)],
    'local_ffgg': [
        dict(pretrain_rounds=2), dict(private_steps=2, private_epochs=0)
    ],
    'local_update': [dict(theta='0:1:0.5')],
    'maml': [dict(alpha=0.5)],
    'perm': [
        dict(variant='two_stage', solver='projected_gradient'),
        {'lambda': 1.0, 'variant': 'two_stage'},
        dict(tiers='1:0.33', vc=0.01),  # Of 20 units 6.6.
    ],
    'reptile': [dict(outer_final=0.5, outer_rounds=2)],
}
# Of tests of all methods.
FAST = ('fedavg',)
REPEATED = (
    'ditto', 'fedadam', 'fedavg', 'fedhm', 'floral', 'local_ffgg', 'scaffold',
)
# Not composed, so that only TFF runs them.
OWN_NEXT = tuple(n for n in methods.names() if not methods.get(n).travels)
_SAMPLE = 6  # Hyperparameters of a method, each in a variant of its own.
# Values of hyperparameters that are texts.
TEXTS = {
    'aggregator': ['median', 'trimmed_mean[f=1]'],
    'budgets': ['2:1', '3:2'],
    'epochs_range': ['1:1', '2:3'],
    'full_rank': ['none', 'dense_0'],
    'learning_rate_rounds': ['1', '2', '1:3'],
    'split': ['input_layer', 'bias', 'adapter'],
    'tau': ['1', '0.1'],
    'theta': ['last', '1:0:2'],
    'tiers': ['1:0.5', 'all_smallest'],
}
SMALL = {
    '': dict(local_steps=2),  # Momentum acts in the second.
    # Of three messages the third has staleness 2, or 1 if two are a version.
    'fedasync': dict(hinge_start=1),
    'fedbuff': dict(buffer_size=2, hinge_start=0),
    # The coins of seed 3 else give no client two local steps in a row.
    'l2gd': dict(local_steps=40),
    'fedrep': dict(private_epochs=1, final_epochs=1),
    'floral': dict(adapt_epochs=1, router_warmup_steps=1),
    'fedrolex': dict(tiers='1:0.37'),
    'fjord': dict(tiers='1:0.37'),
    # Either limit ends the reconstruction at some client.
    'fedrecon': dict(private_epochs=2, private_steps=3),
    # Of more models a client would receive all that there are.
    'fedfomo': dict(num_models=2),
    'fedavg_finetuned': dict(max_epochs=1),
    # Clients have 5 to 12 examples, so that more neighbours are all of them.
    'knn_per': dict(k=2),
    # Each ratio is a branch, which takes time.
    'fedhm': dict(tiers='1:0.125'),
    # Of 20 units 7.4.
    'heterofl': dict(tiers='1:0.37'),
    'splitmix': dict(tiers='1:0.37'),
    # The second round has visits, of rows with several hosts each.
    'perm': dict(warmup_rounds=1, stage1_rounds=1, lambda_scale=10.0),
}


@pytest.fixture(autouse=True)
def _native_runtime(request):
  """Processes run once or twice, which does not pay for fusing them.

  Aggregators of `eager` run often, and are fused.
  """
  if request.node.get_closest_marker('slow'):
    with native.use():
      yield
  else:
    yield


_ELSEWHERE = {
    # No rule is defined for the statistics of normalizations.
    'fedbn': ('aggregator',),
    # For clients that come after the run, whom no round meets:
    # tests/algorithms/perm/perm_new_clients_test.py sees what it does for them.
    'perm': ('adapt_epochs',),
}


# Refused in every variant; another method of the same class takes them.
_NEVER = {
    # A message of the first stage could arrive in the second.
    'async_ffgg': (
        'pretrain_rounds', 'pretrain_learning_rate',
        'pretrain_server_learning_rate',
    ),
}


def specs(method):
  """Returns the hyperparameters of a method's rounds by flag name."""
  fields = dataclasses.fields(methods.get(method).hyperparameters)
  later = _ELSEWHERE.get(method, ())
  return {
      hp.flag_name(spec.name): spec for spec in fields if spec.name not in later
  }


@functools.lru_cache(maxsize=None)
def variants(method):
  """Returns the variants: values by name, the default variant first."""
  known, found = specs(method), [{}]
  for name, spec in known.items():
    choices = spec.metadata['choices'] or ()
    if isinstance(spec.default, bool):
      choices = (False, True)
    found += [{name: x} for x in choices if x != spec.default]
  found += FURTHER_VARIANTS[''] + FURTHER_VARIANTS.get(method, [])
  return [
      variant for variant in found
      if variant.keys() <= known.keys()
      and not _refusal(lambda v=variant: _hyperparameters(method, v))
  ]


def _refusal(make):
  """Returns the sentence with which `make()` is refused, '' if it is not."""
  try:
    make()
  except ValueError as error:
    return str(error)
  return ''


def candidates(spec, value):
  """Returns other allowed values of a hyperparameter, likely ones first."""
  if spec.metadata['choices'] is not None:
    found = spec.metadata['choices']
  elif isinstance(value, bool):
    found = [not value]
  elif spec.name in TEXTS:
    found = TEXTS[spec.name]
  elif isinstance(value, str):  # `auto` beside a number.
    found = [0.37, 3.7]
  elif isinstance(spec.default, int):
    # 0 may mean as many as there are groups, which are two.
    found = [value + 1, value + 2, value - 1, value + 3]
  else:
    found = [value / 2, value + 0.37, value / 100, 1000 * value + 1]
    found += [value + 0.001]  # E.g. a bound that only small values reach.
  return [x for x in found if x != value and hp.is_allowed(spec, x)]


@functools.lru_cache(maxsize=None)
def _task(name):
  """Returns a tiny task; its first client has one class only.

  The layers of `convolutional` are of all kinds but `lookup`'s;
  `representation` is linear, and its hidden layer one matrix.
  """
  task = tiny.task()
  task.train[0]['examples']['y'][:] = 1
  if name == 'plain':
    return task
  tf.keras.utils.set_random_seed(0)
  if name == 'normalized':
    return dataclasses.replace(
        task, model=zoo.build('mlp_bn', task.model.x_spec, 2)
    )
  if name == 'representation':
    return dataclasses.replace(task, model=keras.from_keras(
        tf.keras.Sequential([
            tf.keras.layers.Input([3]),
            tf.keras.layers.Dense(2, use_bias=False),
            tf.keras.layers.Dense(2),
        ]),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ))
  if name == 'lookup':
    return dataclasses.replace(task, model=keras.from_keras(
        tf.keras.Sequential([
            tf.keras.layers.Input([3]),
            tf.keras.layers.Lambda(lambda x: tf.cast(x > 0, tf.int32)),
            tf.keras.layers.Embedding(2, 2),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(2),
        ]),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ))
  model = keras.from_keras(
      tf.keras.Sequential([
          tf.keras.layers.Input([3]),
          tf.keras.layers.Reshape([3, 1, 1]),
          tf.keras.layers.Conv2D(3, [2, 1]),
          tf.keras.layers.LayerNormalization(),
          tf.keras.layers.Flatten(),
          tf.keras.layers.Dense(2),
      ]),
      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  )
  return dataclasses.replace(task, model=model)


def _hyperparameters(method, given):
  """Returns small hyperparameters, with those given."""
  known = specs(method)
  small = {**tiny.SMALL, **SMALL[''], **SMALL.get(method, {})}
  small = {name: value for name, value in small.items() if name in known}
  kind = methods.get(method).hyperparameters
  return hp.replace(kind(), **hp.without_idle(kind, small, given), **given)


def _build(method, task_name, given):
  """Returns a process, or what it is composed of, if it is composed."""
  with mock.patch.object(composition, 'compose', eager.Composed):
    return methods.get(method).build(
        _task(task_name), _hyperparameters(method, given)
    )


def _bits(structure):
  """Returns shapes and bits of all arrays of a structure."""
  arrays = [
      np.asarray(leaf) for leaf in tf.nest.flatten(structure)
      if leaf is not None
  ]
  return [(array.shape, array.tobytes()) for array in arrays]


def _run(process, task):
  """Yields the bits of what is computed, see `eager`; else of each round."""
  if isinstance(process, eager.Composed):
    yield from map(_bits, process.numbers(task))
    return
  clients = list(range(task.num_clients))
  state = process.initialize_seeded(3)
  states = [process.initialize_client(state, i) for i in clients]
  for _ in range(NUM_ROUNDS):
    output = process.next(state, states, task.train)
    state, states = output['state'], output['client_states']
    yield _bits((state, states, output['metrics']))
  yield _bits([process.client_model(state, states[i], i) for i in clients])
  train, test = list(task.train), list(task.test)
  if process.parts is not None:  # Not a table with one model per client.
    unseen = len(clients)  # A client that never trained.
    states = [*states, process.initialize_client(state, unseen)]
    train.append(dict(train[0], index=np.int32(unseen)))
    test.append(dict(test[0], index=np.int32(unseen)))
  yield _bits(process.evaluate(
      state, states, [dict(adapt=a, test=t) for a, t in zip(train, test)]
  ))


class _Kept:
  """The values of a generator, each made when it is first needed."""

  def __init__(self, values):
    self._values, self._made = values, []

  def __iter__(self):
    for place in itertools.count():
      if place == len(self._made):
        self._made += itertools.islice(self._values, 1)
      if place == len(self._made):
        return
      yield self._made[place]


@functools.lru_cache(maxsize=None)
def _base_run(method, task_name, variant):
  """Returns all bits of a variant, whose values are given as items."""
  process = _build(method, task_name, dict(variant))
  return _Kept(_run(process, _task(task_name)))


def _acts(method, task_name, variant, name, value):
  """Returns whether another value of a hyperparameter changes the run."""
  process = _build(method, task_name, {**variant, name: value})
  expected = _base_run(method, task_name, tuple(variant.items()))
  found = _run(process, _task(task_name))
  return any(a != b for a, b in itertools.zip_longest(found, expected))


def verdict(method, task_name, variant, name):
  """Returns `acts`, `refused`, or what is wrong.

  A hyperparameter acts if some other value changes the run; it is refused if
  every other value is, in a sentence that names it.
  """
  value = hp.as_dict(_hyperparameters(method, variant))[name]
  accepted, sentences = [], []
  for other in candidates(specs(method)[name], value):
    try:
      if _acts(method, task_name, variant, name, other):
        return 'acts'
      accepted.append(other)
    except ValueError as error:
      sentences.append(str(error))
  if accepted or not sentences:
    return f'{name} changes nothing: {value!r} or {accepted}'
  unnamed = [x for x in sentences if not re.search(rf'\b{name}\b', x)]
  if unnamed and is_possible(method, task_name, variant):
    return f'{name} is refused without its name: {unnamed}'
  return 'refused'


def is_possible(method, task_name, variant):
  """Returns whether the method takes the variant on this task.

  E.g. adaptors of layers that the model lacks are refused.
  """
  return not _refusal(lambda: _build(method, task_name, variant))


def _simplest(method):
  """Returns the name of the first task that the method can take."""
  needs_norm = 'batch_norm' in methods.get(method).needs
  return 'normalized' if needs_norm else 'plain'


def unread(method, hyperparameters):
  """Returns the names of the hyperparameters that no line of it reads."""
  read = set()

  class Watched(type(hyperparameters)):

    def __getattribute__(self, name):
      read.add(hp.flag_name(name))
      return super().__getattribute__(name)

  watched = copy.copy(hyperparameters)
  object.__setattr__(watched, '__class__', Watched)
  read.clear()
  methods.get(method).build(_task(_simplest(method)), watched)
  return [name for name in specs(method) if name not in read]


def _first_verdict(method, name):
  """Returns the `verdict` of the first variant that does not refuse it."""
  found = 'refused'
  for task_name, variant in itertools.product(
      ('plain', 'convolutional', 'representation', 'lookup', 'normalized'),
      variants(method),
  ):
    if found != 'refused':
      break
    found = verdict(method, task_name, variant, name)
  return found


def _inherited():
  """Returns {class.name: methods} of all hyperparameters."""
  found = {}
  for method in methods.names():
    kind = methods.get(method).hyperparameters
    for name, spec in specs(method).items():
      owner = next(
          base for base in kind.__mro__
          if spec.name in vars(base).get('__annotations__', {})
      )
      found.setdefault(f'{owner.__name__}.{name}', []).append(method)
  return found


INHERITED = _inherited()


@pytest.mark.parametrize('owned', [
    pytest.param(owned, marks=[pytest.mark.slow] * (names[0] in OWN_NEXT))
    for owned, names in INHERITED.items()
])
def test_another_value_changes_a_run(owned):
  """The first method that does not refuse it decides."""
  found, name = 'refused', owned.partition('.')[2]
  for method in INHERITED[owned]:
    if found != 'refused':
      break
    found = _first_verdict(method, name)
  assert found == 'acts'


@pytest.mark.slow
@pytest.mark.parametrize('method', methods.names())
def test_another_value_changes_a_run_of_every_method(method):
  never = _NEVER.get(method, ())
  wrong = {name: _first_verdict(method, name) for name in specs(method)}
  for name in specs(method):
    if wrong[name] == ('refused' if name in never else 'acts'):
      del wrong[name]
  assert not wrong


@pytest.mark.parametrize('method', ['fedavg', 'floral', 'scaffold'])
def test_eager_rounds_are_those_of_the_process(method):
  task = _task('plain')
  first, *_ = list(_build(method, 'plain', {}).numbers(task))
  process = methods.get(method).build(task, _hyperparameters(method, {}))
  state = process.initialize_seeded(eager.SEED)
  states = [
      process.initialize_client(state, i) for i in range(eager.NUM_CLIENTS)
  ]
  for _ in range(eager.NUM_ROUNDS):
    output = process.next(state, states, task.train[:eager.NUM_CLIENTS])
    state, states = output['state'], output['client_states']
  # The state is one dictionary, which now is that after the last round.
  found, expected = (
      tf.nest.flatten(each['weights']) for each in (first, state)
  )
  assert len(found) == len(expected)
  for one, other in zip(found, expected):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('method', [
    pytest.param(method, marks=[pytest.mark.slow] * (method not in REPEATED))
    for method in methods.names() if method not in OWN_NEXT
])
def test_equal_values_give_equal_numbers(method):
  """Else every hyperparameter would seem to act."""
  assert not _acts(method, _simplest(method), {}, 'batch_size', 4)


@pytest.mark.parametrize('method', [
    pytest.param(method, marks=[pytest.mark.slow] * (method not in FAST))
    for method in methods.names()
])
def test_what_no_line_reads_is_refused(method):
  for variant in variants(method):
    if variant not in FURTHER_VARIANTS['']:
      _check_unread(method, variant)


@pytest.mark.parametrize('method', OWN_NEXT)
def test_what_no_line_reads_is_refused_by_default(method):
  _check_unread(method, {})


def _check_unread(method, variant):
  hyperparameters = _hyperparameters(method, variant)
  try:
    idle = unread(method, hyperparameters)
  except ValueError:  # E.g. adaptors of layers that the model lacks.
    assert variant, method  # What is there by default must build.
    return
  values = hp.as_dict(hyperparameters)
  for name in idle:
    for value in candidates(specs(method)[name], values[name]):
      with pytest.raises(ValueError, match=rf'\b{name}\b'):
        _hyperparameters(method, {**variant, name: value})


@pytest.mark.slow
@pytest.mark.parametrize('method', methods.names())
def test_another_value_changes_a_run_of_other_variants(method):
  """A sample: all of them, of all methods, take ten hours."""
  wrong, pairs = {}, [
      (task_name, variant)
      for task_name in ('plain', 'convolutional', 'normalized')
      for variant in variants(method) if is_possible(method, task_name, variant)
  ]
  rng = np.random.default_rng(len(pairs))
  for name in rng.permutation(list(specs(method)))[:_SAMPLE]:
    task_name, variant = pairs[rng.integers(len(pairs))]
    if (name, task_name) == ('rank_base', 'convolutional'):
      continue  # The one convolution is so small that all bases give rank 1.
    found = verdict(method, task_name, variant, name)
    if found not in ('acts', 'refused'):
      wrong[f'{task_name}, {variant}'] = found
  assert not wrong


@dataclasses.dataclass(frozen=True)
class _WithFlagsThatDoNothing(fedavg.FedAvgHyperparameters):
  """One that is never read, and one that is read and multiplied by zero."""

  forgotten: int = hp.field(1, 'Never read.', minimum=1)
  fruitless: float = hp.field(0.5, 'Read without effect.', above=0.0)


def test_flags_that_do_nothing_are_found(monkeypatch):
  monkeypatch.setattr(methods, '_METHODS', registry.Registry('algo'))

  @methods.register('probe', _WithFlagsThatDoNothing)
  def _build_probe(task, hyperparameters):  # pylint: disable=unused-variable
    work = local_sgd.build_local_sgd(task.model, hyperparameters, 'examples')
    def update(*arguments):
      output = work.update(*arguments)
      nothing = 0.0 * tf.constant(hyperparameters.fruitless)
      return output._replace(loss=output.loss + nothing)
    return fedavg.build_averaging(task.model, client_work.ClientWork(update))

  idle = unread('probe', _hyperparameters('probe', {}))
  assert 'forgotten' in idle and 'fruitless' not in idle
  assert verdict('probe', 'plain', {}, 'fruitless').startswith('fruitless')
