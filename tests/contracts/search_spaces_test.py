"""Every registered method can be tuned: its search space is sound.

Walks the registry: a method is here by its registration, on the defaults that
suit every task of the table of settings.
"""

import dataclasses

import numpy as np
import pytest

import baselines  # pylint: disable=unused-import
from tff_pers import hyperparameters as hp
from tff_pers import methods
from tff_pers import search_spaces
from tff_pers import settings
import tff_pers.algorithms  # pylint: disable=unused-import

# Beyond this many dimensions ten trials would be lost.
_MOST_DIMENSIONS = 5
_RATES = {'learning_rate', 'gamma'}


def _bases(method):
  """Returns the defaults of a method on all tasks, the plain ones first."""
  kind = methods.get(method).hyperparameters
  names = [hp.flag_name(spec.name) for spec in dataclasses.fields(kind)]
  bases = [kind()]
  for row in settings.TABLE:
    task, _, regime = row.partition('/')
    values = settings.of(task, method, names, [regime] if regime else [])
    base = hp.replace(kind(), **hp.without_idle(kind, values, {}))
    if base not in bases:
      bases.append(base)
  return bases


def _random(rng):
  """Returns a draw of a sampler that knows nothing but the space."""
  def draw(name, dimension):
    del name
    if isinstance(dimension, search_spaces.Choice):
      return dimension.values[rng.integers(len(dimension.values))]
    if dimension.is_int:
      return rng.integers(dimension.low, dimension.high + 1)
    if dimension.log:
      return np.exp(rng.uniform(np.log(dimension.low), np.log(dimension.high)))
    return rng.uniform(dimension.low, dimension.high)
  return draw


def _corner(end):
  """Returns a draw of the lowest or highest value of every dimension."""
  def draw(name, dimension):
    del name
    if isinstance(dimension, search_spaces.Choice):
      return dimension.values[-1 if end else 0]
    return dimension.high if end else dimension.low
  return draw


def check_space(space, draws):
  """Asserts what every sample of a space must be."""
  default = space.kind()
  specs = {hp.flag_name(s.name): s for s in dataclasses.fields(space.kind)}
  seen = {}
  for draw in draws:
    sample = space.sample(draw)
    # As the programs do it: what suits the task is dropped if it is idle.
    others = hp.without_idle(
        space.kind,
        {n: v for n, v in space.base.items() if v != specs[n].default}, sample,
    )
    found = hp.replace(default, **others, **sample)
    for name, value in sample.items():
      dimension = space.dimensions[name]
      assert value in dimension, (name, value)
      assert type(value) is type(dimension.rounded(value))
      assert hp.acts(specs[name], hp.as_dict(found)), (name, sample)
      text = search_spaces.as_options({name: value})[name]
      assert hp.parse(specs[name], text) == value, (name, text)
      seen.setdefault(name, set()).add(value)
  # Every dimension is drawn now and then, and has something to choose from.
  assert seen.keys() == space.dimensions.keys()
  assert all(len(values) > 1 for values in seen.values()), seen


@pytest.mark.parametrize('method', methods.names())
def test_every_sample_is_valid_and_acts(method):
  rng = np.random.default_rng(0)
  for base in _bases(method):
    space = search_spaces.of(base)
    check_space(space, [_corner(0), _corner(1), *[_random(rng)] * 30])


@pytest.mark.parametrize('method', methods.names())
def test_a_space_is_small_and_has_a_rate(method):
  space = search_spaces.of(methods.get(method).hyperparameters())
  assert 1 <= len(space.dimensions) <= _MOST_DIMENSIONS
  assert _RATES & space.dimensions.keys()
  # The defaults are a point of the space, but for numbers of clusters, 0 asks
  # the task, and the step of asynchronous FFGG, which asks the events.
  missing = space.dimensions.keys() - space.defaults.keys()
  assert missing <= {'num_models', 'num_adaptors'} | (
      {'server_learning_rate'} if method == 'async_ffgg' else set()
  )
