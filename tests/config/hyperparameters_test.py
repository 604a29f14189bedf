"""Hyperparameters: parsing, ranges, records, messages."""

import dataclasses
import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.data import client_data


@dataclasses.dataclass(frozen=True)
class Example:
  """One field of each kind."""

  rate: float = hp.field(0.1, 'Step size.', above=0.0, maximum=2.0)
  steps: int = hp.field(3, 'Steps.', minimum=1)
  nesterov: bool = hp.field(False, 'Whether to look ahead.')
  variant: str = hp.field('plain', 'Which form.', choices=('plain', 'fancy'))
  lambda_: float = hp.field('auto', 'Penalty.', minimum=0.0, auto=True)
  path: str = hp.field('', 'Any text.')


FIELDS = {hp.flag_name(f.name): f for f in dataclasses.fields(Example)}


@pytest.mark.parametrize(
    'name, text, value',
    [
        ('rate', '0.5', 0.5),
        ('rate', '1', 1.0),
        ('steps', '7', 7),
        ('nesterov', 'TRUE', True),
        ('nesterov', '1', True),
        ('nesterov', 'no', False),
        ('variant', 'fancy', 'fancy'),
        ('lambda', 'auto', 'auto'),
        ('lambda', '0.25', 0.25),
        ('path', '12', '12'),
    ],
)
def test_parse_gives_the_fields_type(name, text, value):
  parsed = hp.parse(FIELDS[name], text)
  assert parsed == value
  assert type(parsed) is type(value)


@pytest.mark.parametrize(
    'name, text, message',
    [
        ('rate', 'fast', "`rate` must be a number > 0.0 and <= 2.0, found 'f"),
        ('steps', '2.5', "`steps` must be an integer >= 1, found '2.5'"),
        ('nesterov', 'maybe', "`nesterov` must be true or false, found 'may"),
        ('lambda', 'Auto', "`lambda` must be a number >= 0.0 or auto, found"),
    ],
)
def test_parse_raises_on_wrong_text(name, text, message):
  with pytest.raises(ValueError, match=message):
    hp.parse(FIELDS[name], text)


@pytest.mark.parametrize(
    'name, value, message',
    [
        ('rate', 0.0, '`rate` must be a number > 0.0 and <= 2.0, found 0.0'),
        ('rate', 2.1, 'found 2.1'),
        ('rate', float('nan'), 'found nan'),
        ('rate', True, '`rate` .* found True'),
        ('rate', 'auto', "`rate` .* found 'auto'"),
        ('steps', 0, '`steps` must be an integer >= 1, found 0'),
        ('steps', 2.0, '`steps` .* found 2.0'),
        ('nesterov', 1, '`nesterov` must be true or false, found 1'),
        ('variant', 'odd', "must be one of plain, fancy, found 'odd'"),
        ('lambda', -1.0, '`lambda` must be a number >= 0.0 or auto, found -1'),
        ('path', 3, '`path` must be a string, found 3'),
        ('speed', 3, '`speed` must be one of lambda, nesterov, path'),
    ],
)
def test_replace_raises_on_wrong_value(name, value, message):
  with pytest.raises(ValueError, match=message):
    hp.replace(Example(), **{name: value})


def test_replace_takes_flag_names_and_as_dict_gives_them():
  changed = hp.replace(Example(), **{'lambda': 0.0, 'rate': 2.0})
  assert hp.as_dict(changed) == {
      'rate': 2.0, 'steps': 3, 'nesterov': False, 'variant': 'plain',
      'lambda': 0.0, 'path': '',
  }
  assert hp.as_dict(Example())['lambda'] == 'auto'


@pytest.mark.parametrize(
    'values, message',
    [
        (dict(local_steps=0), 'found 0 and 0'),
        (dict(local_epochs=1), 'found 20 and 1'),
        (dict(learning_rate=-0.1), '`learning_rate` .* > 0.0, found -0.1'),
        (dict(momentum=1.0), '`momentum` must be a number >= 0.0 and < 1.0'),
        (dict(momentum=0.5, local_steps=1), '`momentum` must be 0 .* found 0.5'),
        (dict(weight_decay=-1.0), '`weight_decay` must be .* found -1.0'),
        (dict(clip_norm=-1.0), '`clip_norm` must be .* found -1.0'),
        (
            dict(learning_rate_rounds='9'),
            "`learning_rate_rounds` must be left at '' .*, found 9 with .*constant",
        ),
        (
            dict(learning_rate_decay=0.5),
            '`learning_rate_decay` must be left at 0.1 .*, found 0.5 with .*const',
        ),
        (
            dict(learning_rate_schedule='cosine', learning_rate_rounds='3:4'),
            'must be one number with learning_rate_schedule=cosine, found',
        ),
        *[
            (
                dict(learning_rate_schedule='steps', learning_rate_rounds=text),
                'must be increasing integers >= 1 with colons .* found',
            )
            for text in ('', '0', '5:5', '7:5', 'x', '1:', '1.5')
        ],
    ],
)
def test_local_training_raises_on_what_is_wrong_or_without_effect(
    values, message
):
  with pytest.raises(ValueError, match=message):
    hp.LocalTraining(**values)


@dataclasses.dataclass(frozen=True)
class Conditional(Example):
  """Fields that act beside some values of others."""

  depth: int = hp.field(2, 'Depth.', minimum=1, when='variant=fancy')
  width: float = hp.field(
      0.5, 'Width.', when='variant=fancy and nesterov=true or lambda=auto'
  )
  steps: int = hp.inherited(Example, 'steps', when='depth!=1')

  def __post_init__(self):
    hp.validate(self)


def test_what_has_no_effect_must_be_left_at_its_default():
  assert Conditional(depth=2, variant='plain').depth == 2
  assert Conditional(depth=5, variant='fancy').depth == 5
  assert Conditional(width=1.0).width == 1.0
  with pytest.raises(ValueError, match=(
      '^`depth` must be left at 2 unless variant=fancy because it has no effect'
      ' otherwise, found 5 with variant=plain.$'
  )):
    Conditional(depth=5)
  with pytest.raises(ValueError, match='found variant|`width` .* lambda=0.1'):
    Conditional(width=1.0, lambda_=0.1)
  with pytest.raises(ValueError, match='`steps` .* found 4 with depth=1'):
    Conditional(steps=4, depth=1, variant='fancy')
  assert Conditional(steps=4).steps == 4
  with pytest.raises(ValueError, match='`steps` must be an integer >= 1'):
    Conditional(steps=0)


@pytest.mark.parametrize('settings, given, expected', [
    ({'depth': 5}, {}, {}),
    ({'depth': 5}, {'variant': 'fancy'}, {'depth': 5}),
    ({'depth': 5, 'variant': 'fancy'}, {}, {'depth': 5, 'variant': 'fancy'}),
    ({'depth': 5, 'variant': 'fancy'}, {'variant': 'plain'}, {}),
    ({'depth': 5, 'rate': 1.0}, {'depth': 3}, {'rate': 1.0}),
    ({'depth': 1, 'steps': 4}, {'variant': 'fancy'}, {'depth': 1}),
])
def test_settings_without_effect_are_dropped(settings, given, expected):
  assert hp.without_idle(Conditional, settings, given) == expected


@pytest.mark.parametrize('budget', [
    dict(local_steps=7, batch_size=5), dict(local_steps=2, batch_size=5),
    dict(local_steps=3, batch_size=0), dict(local_steps=3, batch_size=50),
    dict(local_steps=0, local_epochs=2, batch_size=5),
])
@pytest.mark.parametrize('num_examples', [0, 1, 12, 15])
def test_examples_that_a_client_visits(budget, num_examples):
  """As many as training sees, where the last minibatch of a pass is short."""
  training = hp.LocalBatches(**budget)
  data = client_data.dense(
      0, np.zeros([num_examples, 1], np.float32),
      np.zeros([num_examples], np.int32),
  )
  seen = client_data.fold_batches(
      data,
      lambda count, batch: count + tf.reduce_sum(tf.cast(batch.mask, tf.int32)),
      tf.constant(0), seed=tf.zeros([2], tf.int64), **training.budget(),
  )
  assert training.num_visited(num_examples) == int(seen)


def test_help_says_what_every_field_is():
  """Inherited ones, too: range, default and condition stand in its help."""

  @dataclasses.dataclass(frozen=True)
  class Own(hp.LocalTraining):
    """Of a method."""

    mu: float = hp.field(0.5, 'Pull.', above=0.0, when='momentum=0')

  text = inspect.getdoc(Own)
  assert text.startswith('Of a method.\n\nAttributes:\n')
  assert '\n  mu: Pull. A number > 0.0; default 0.5. Acts with momentum=0.' in text
  entries = re.findall(r'^  (\w+):', text.partition('Raises:')[0], re.M)
  assert entries == [spec.name for spec in dataclasses.fields(Own)]
  assert inspect.getdoc(hp.LocalTraining) != text
