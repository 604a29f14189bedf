"""`search_spaces`: dimensions of declared ranges, conditions, fixed values."""

import dataclasses

import pytest

from tff_pers.config import hyperparameters as hp
from tff_pers.config import search_spaces


@dataclasses.dataclass(frozen=True)
class _Training(hp.Hyperparameters):
  """One field of each kind."""

  rate: float = hp.field(0.1, 'Rate.', above=0.0, search=hp.Around(20))
  steps: int = hp.field(20, 'Steps.', minimum=0, search=hp.Around(4))
  epochs: int = hp.field(0, 'Epochs.', minimum=0, search=hp.Around(4))
  own_rate: float = hp.field(
      0.0, 'Rate; 0: rate.', minimum=0.0, search=hp.Around(10, of='rate')
  )
  auto_rate: object = hp.field(
      'auto', 'Rate; auto: rate.', above=0.0, auto=True, maximum=0.5,
      search=hp.Around(10, of='rate'),
  )
  pull: float = hp.field(
      0.3, 'Pull.', when='mode=pulled', search=hp.Between(0.0, 1.0)
  )
  mode: str = hp.field(
      'free', 'Mode.', choices=('free', 'pulled'),
      search=hp.Among(('free', 'pulled')),
  )
  models: int = hp.field(0, 'Models.', minimum=0, search=hp.Between(2, 5))
  silent: float = hp.field(0.5, 'Never searched.')
  idle: float = hp.field(
      0.5, 'Acts beside another `silent`.', when='silent=1',
      search=hp.Between(0.0, 1.0),
  )


def _ends(end):
  """Returns a draw of one end of every dimension."""
  def draw(name, dimension):
    del name
    if isinstance(dimension, search_spaces.Choice):
      return dimension.values[end]
    return (dimension.low, dimension.high)[end]
  return draw


@pytest.mark.parametrize('values, names', [
    (dict(rate=0.0091, pull=0.1, models=2), ['rate', 'pull', 'models']),
    (dict(rate=1.2, pull=0.95, models=5), ['rate', 'pull', 'models']),
    (dict(rate=0.0092, pull=0.11, models=3, mode='pulled'), []),
    (dict(rate=9.0, auto_rate='auto'), []),  # Defaults outside of ranges.
])
def test_the_tenth_of_a_range_at_its_end_is_near_it(values, names):
  """0.005 400^0.1 = 0.0091 with logarithms of rates."""
  assert search_spaces.of(_Training()).near_ends(values) == names


def test_ranges_become_dimensions():
  interval = search_spaces.Interval
  assert search_spaces.of(_Training()).dimensions == dict(
      rate=interval(0.005, 2.0, True, False),
      steps=interval(5, 80, True, True),
      own_rate=interval(0.01, 1.0, True, False),
      auto_rate=interval(0.01, 0.5, True, False),  # Up to its maximum.
      pull=interval(0.0, 1.0, False, False),
      mode=search_spaces.Choice(('free', 'pulled')),
      models=interval(2, 5, False, True),
  )


def test_ranges_are_around_the_defaults_on_the_task():
  base = _Training(rate=3.0, steps=0, epochs=3)
  space = search_spaces.of(base)
  assert (space.dimensions['rate'].low, space.dimensions['rate'].high) == (
      0.15, 60.0
  )
  assert (space.dimensions['epochs'].low, space.dimensions['epochs'].high) == (
      1, 12
  )
  assert 'steps' not in space.dimensions
  assert space.dimensions['own_rate'].high == 30.0


def test_ranges_end_at_the_bounds_of_their_hyperparameter():
  @dataclasses.dataclass(frozen=True)
  class Bounded(hp.Hyperparameters):
    share: float = hp.field(
        0.5, 'Share.', minimum=0.4, below=1.0, search=hp.Around(5)
    )
    least: int = hp.field(8, 'Least.', minimum=5, search=hp.Around(4))

  assert search_spaces.of(Bounded()).dimensions == dict(
      share=search_spaces.Interval(0.4, 0.9, True, False),
      least=search_spaces.Interval(5, 32, True, True),
  )


def test_defaults_are_the_point_that_means_the_same():
  """Where 0 is no number of the space, nothing is said."""
  assert search_spaces.of(_Training()).defaults == dict(
      rate=0.1, steps=20, own_rate=0.1, auto_rate=0.1, mode='free'
  )
  pulled = search_spaces.of(_Training(mode='pulled', models=3))
  assert pulled.defaults['pull'] == 0.3 and pulled.defaults['models'] == 3


@pytest.mark.parametrize('end, acts', [(0, False), (1, True)])
def test_what_does_not_act_is_not_drawn(end, acts):
  """Though the field stands before the one that it depends on."""
  sample = search_spaces.of(_Training()).sample(_ends(end))
  assert ('pull' in sample) == acts
  assert hp.replace(_Training(), **sample) is not None


def test_fixed_values_and_what_they_depend_on_are_not_searched():
  space = search_spaces.of(_Training(), fixed=['rate'])
  assert 'rate' not in space.dimensions and 'mode' in space.dimensions
  space = search_spaces.of(_Training(mode='pulled'), fixed=['pull'])
  assert not {'pull', 'mode'} & space.dimensions.keys()
  assert 'mode' not in space.sample(_ends(0))


def test_numbers_have_three_digits_and_integers_are_integers():
  sample = search_spaces.of(_Training()).sample(
      lambda name, dimension: {
          'rate': 0.0123456, 'steps': 7, 'mode': 'free'
      }.get(name, 0.1234567 if name != 'models' else 3)
  )
  assert sample['rate'] == 0.0123 and sample['own_rate'] == 0.123
  assert sample['steps'] == 7 and isinstance(sample['steps'], int)


def test_options_are_texts_that_parse_to_the_same_values():
  options = search_spaces.as_options(
      dict(rate=2e-05, steps=40, mode='free', flag=True, number=12300.0)
  )
  assert options == dict(
      rate='2e-05', steps='40', mode='free', flag='true', number='12300'
  )
