"""Every option of every rule and attack, and every flag of programs, acts.

Walks the registries: what is registered is here. Another value of an option
changes what the rule or the attack makes of fixed messages, in eager TensorFlow
and in a moment. Every flag arrives at the body of its program, all of them at
once; each shared flag of `train` changes what it would run, or is refused.
"""

# pylint: disable=protected-access
import dataclasses
import importlib
import pkgutil
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import binaries
from tff_pers import attacks
from tff_pers.aggregators import robust
from tff_pers.aggregators.robust import factory
from tff_pers.aggregators.robust import naming
from tff_pers.aggregators.robust import preparations
from tff_pers.attacks import attack as attack_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.core import interception
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.experiments import runner
from tff_pers.simulation import program

KEY = tf.constant([3, 4], tf.int64)
# The last two of nine are far away.
MESSAGES = tf.constant(
    np.random.default_rng(0).normal(size=[9, 5])
    + 8.0 * (np.arange(9)[:, None] > 6)
)
# Values of options that are texts.
TEXTS = dict(first='sign_flip', second='sign_flip', radius='1.5', z=0.37)
# Forms of rules to which some option matters in a composition alone.
FORMS = {
    # A mean is over all messages, however many are assumed to be Byzantine.
    'mean': 'norm_clipping[radius=arc](mean[%s])',
}


def others(spec):
  """Returns other allowed values of an option."""
  value = spec.default
  if isinstance(value, str):
    found = [TEXTS[spec.name]]
  elif isinstance(value, int):
    found = [value + 1, value + 2, value + 3, 5]
  else:
    found = [value + 0.37, 0.37, 2 * value]
  return [x for x in found if x != value and hp.is_allowed(spec, x)]


def _bits(structure):
  return [np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(structure)]


def _combined(name, **options):
  """Returns what the server makes of the messages, with f = 1 if not given."""
  given = ','.join(f'{k}={v}' for k, v in {'f': 1, **options}.items())
  form = FORMS.get(name, f'{name}[%s]')
  if issubclass(naming._KINDS.get(name), preparations.Preparation):
    form += '(trimmed_mean)'
  return _bits(factory._combine(
      robust.build_factory(form % given)._rule, MESSAGES,
      dict(seed=KEY, round=tf.constant(0)),
  ))


@pytest.mark.parametrize('name, spec', [
    pytest.param(name, spec, id=f'{name}-{spec.name}')
    for name in robust.names()
    for spec in dataclasses.fields(naming._KINDS.get(name))
])
def test_an_option_of_a_rule_changes_its_result(name, spec):
  results = [_combined(name, **{spec.name: value}) for value in others(spec)]
  assert any(result != _combined(name) for result in results)


def _sent(text):
  """Returns what four attackers do in three rounds."""
  attack, found = attacks.parse(text), []
  honest, own = MESSAGES[:5], MESSAGES[5:]
  memory = attack.start(5, tf.float64)
  for t in range(3):
    seen = attack_lib.Seen(
        honest * (1.0 + t) + t, tf.range(5), own, robust.parse('median')
    )
    memory, plan = attack.plan(memory, seen, KEY + t)
    for k in range(4):
      sender = attack_lib.Sender(
          tf.constant(5 + k), tf.constant((k + 0.5) / 4, tf.float64)
      )
      found.append((
          attack.flips(sender), attack.is_absent(sender),
          attack.message(own[k], plan, KEY + k, sender),
      ))
  return _bits(found)


@pytest.mark.parametrize('name, spec', [
    pytest.param(name, spec, id=f'{name}-{spec.name}')
    for name in attacks.names()
    for spec in dataclasses.fields(attacks.parse(name))
])
def test_an_option_of_an_attack_changes_what_is_sent(name, spec):
  assert any(
      _sent(f'{name}[{spec.name}={value}]') != _sent(name)
      for value in others(spec)
  )


def _programs():
  """Returns the programs of the package by name."""
  found = {}
  for info in pkgutil.iter_modules(binaries.__path__):
    if not info.ispkg:
      module = importlib.import_module(f'binaries.{info.name}')
      if isinstance(getattr(module, 'main', None), flags.Program):
        found[info.name] = module.main
  return found


PROGRAMS = _programs()
# Flags that take effect before the body of a program.
BEFORE_THE_BODY = (
    'compile_cache', 'config', 'quiet', 'import', 'output_dir',
)


def _other_text(name, spec):
  """Returns another value of a flag, as users write it."""
  if name in FLAG_TEXTS:
    return FLAG_TEXTS[name]
  if spec.metadata['choices']:
    return next(x for x in spec.metadata['choices'] if x != spec.default)
  if isinstance(spec.default, bool):
    return str(not spec.default).lower()
  if isinstance(spec.default, str) and not spec.metadata['auto']:
    return 'other'
  return str(next(
      x for x in (spec.default + 1 if not isinstance(spec.default, str) else 1,
                  0.37, 2 * spec.default)
      if x != spec.default and hp.is_allowed(spec, x)
  ))


@pytest.mark.parametrize('name', PROGRAMS)
def test_every_flag_arrives_at_the_body_of_its_program(name, monkeypatch):
  main, arrived = PROGRAMS[name], {}
  given = {
      flag: _other_text(flag, spec.spec)
      for flag, spec in main.flag_table().items()
      if spec.kind == 'shared' and flag not in BEFORE_THE_BODY
  }
  monkeypatch.setattr(
      main, '_body', lambda values, table=None: arrived.update(values)
  )
  assert main([name, *flags.as_words(given)]) == 0
  table = main.flag_table()
  for flag, text in given.items():
    value = arrived[flag]
    if flag in flags._PATHS:
      text = flags.resolve_path(text)
    assert str(value).lower() == text.lower() and (
        value != table[flag].spec.default
    ), flag


# Values of flags that cannot be any.
FLAG_TEXTS = dict(
    num_clients='7', driver='events',
    task='synthetic_groups', partition='dirichlet[alpha=0.3]', metric='loss',
    finetune_steps='1,2', delays='pareto[shape=1.5,slow=10]',
    network_delays='pareto[shape=1.5,slow=10]', attack='sign_flip',
    device='cpu', workers='host:1', model='mlp', algo='fedprox',
    validation_fraction='0.3', dp_target_delta='0.01',
)
# What else is given, for a flag that acts with others alone.
WITH = {
    **dict.fromkeys(('patience', 'max_rounds', 'metric'), dict(rounds='auto')),
    **dict.fromkeys(
        ('workers', 'connect_seconds', 'round_seconds', 'tls_cert', 'tls_key',
         'tls_ca'), dict(runtime='remote'),
    ),
    **dict.fromkeys(('in_flight', 'redispatch'), dict(algo='fedasync')),
    **dict.fromkeys(
        ('dp_clip', 'dp_target_delta'), dict(dp_noise_multiplier=1.0)
    ),
    'attack': dict(num_byzantine=1),
    'finetune_learning_rate': dict(finetune_steps='1'),
    'network_delays': dict(delays='exponential[slow=2]'),
    'tier_assignment': dict(algo='heterofl'),
}
# Flags whose effect is on files or on what is printed.
ELSEWHERE = {
    **dict.fromkeys(
        ('compile_cache', 'config', 'quiet', 'import'), 'Before the body.'
    ),
    'resume': 'With a run in --output_dir: tests/binaries/train_test.py.',
    'fork': 'With a run: tests/binaries/after_training_test.py.',
    'standardize': 'Of own data: tests/binaries/own_data_test.py.',
}
# Digits need no files.
REFUSED = ('data_dir',)


def _spelled(value, depth=0):
  """Returns a text of all numbers and texts in a value; no function."""
  if isinstance(value, (np.ndarray, np.generic, tf.Tensor)):
    array = np.asarray(value)
    return f'{array.shape} {array.tobytes()}'
  if value is None or isinstance(value, (bool, int, float, str)):
    return repr(value)
  if isinstance(value, dict):
    value = [(str(key), value[key]) for key in value]
  elif not isinstance(value, (list, tuple)):
    if depth > 6 or type(value).__module__.split('.')[0] not in (
        'tff_pers', 'baselines'
    ):
      return type(value).__name__
    value = [type(value).__name__, *getattr(value, '__dict__', {}).items()]
  return f'[{",".join(_spelled(each, depth + 1) for each in value)}]'


def _what_runs(**given):
  """Returns what `train` would run, in words, up to TFF."""
  calls = mock.Mock()
  seen = []

  def build(task, hyperparameters):
    seen.append([hyperparameters, task.client_weighting, [
        vars(change) for change in interception._CHANGES.get()
    ]])
    return mock.Mock()

  with mock.patch.object(runner, 'execute', calls.execute):
    runner._run({'algo': 'fedavg', 'task': 'digits', 'num_clients': 6, **given},
               PROGRAMS['train'].flag_table())
  (experiment, folder), options = calls.execute.call_args
  for field in dataclasses.fields(experiment):
    if field.name not in ('config', 'method'):
      seen.append(getattr(experiment, field.name))
  with mock.patch.object(runner.runtime, 'use', calls.use):
    runner.use_runtime(experiment.flag, None)
  seen += [folder, options, calls.use.call_args[0], calls.use.call_args[1]]
  processes.build(dataclasses.replace(
      experiment,
      method=dataclasses.replace(experiment.method, build=build),
  ))
  with mock.patch.object(program, 'TrainingProgram', calls.trainer), (
      mock.patch.object(
          runner.asynchrony_program, 'AsynchronousProgram', calls.trainer
      )
  ):
    runner.open_trainer(experiment, None, None)
  seen += [calls.trainer.call_args[0], calls.trainer.call_args[1]]
  steps = runner.finetune_steps(experiment.flag('finetune_steps'))
  seen += [steps, runner._finetune_rate(experiment) if steps else None]
  return _spelled(seen)


@pytest.mark.parametrize('name', [
    name for name, flag in PROGRAMS['train'].flag_table().items()
    if flag.kind == 'shared' and name not in ELSEWHERE
])
def test_a_flag_of_train_changes_what_runs(name):
  table, given = PROGRAMS['train'].flag_table(), WITH.get(name, {})
  value = flags._value(name, table[name], _other_text(name, table[name].spec))
  try:
    found = _what_runs(**{**given, name: value})
  except flags.UsageError as error:
    assert name in REFUSED and f'`--{name}`' in str(error), error
    return
  assert found != _what_runs(**given)
