"""Contracts of methods beyond one run: tuning and attacks.

Tests with the argument `method_name`, for pytest; see `contracts`.
"""

from typing import Any, Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.config import search_spaces
from tff_pers.config import settings
from tff_pers.core import process as process_lib
from tff_pers.core import left_out
from tff_pers.runtime import native
from tff_pers.testing import tiny

# With more dimensions, ten trials would be too few.
_MOST_DIMENSIONS = 5
_RATES = {'learning_rate', 'gamma'}
_BYZANTINE = np.array([False, True, False, False])


def _bases(method):
  """Returns the defaults of a method on all tasks, the plain ones first."""
  kind = methods.get(method).hyperparameters
  names = list(hp.specs(kind))
  bases = [kind()]
  for row in settings.TABLE:
    task, _, regime = row.partition('/')
    values = settings.of(task, method, names, [regime] if regime else [])
    base = hp.replace(kind(), **hp.without_idle(kind, values, {}))
    if base not in bases:
      bases.append(base)
  return bases


def _random(rng):
  """Returns a sampler that draws uniformly from the space."""
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
  """Returns a sampler of the lowest or highest value of each dimension."""
  def draw(name, dimension):
    del name
    if isinstance(dimension, search_spaces.Choice):
      return dimension.values[-1 if end else 0]
    return dimension.high if end else dimension.low
  return draw


def check_space(
    space: search_spaces.Space, draws: Iterable[Callable[..., Any]]
) -> None:
  """Asserts that a sample of a space is valid."""
  default = space.kind()
  specs = hp.specs(space.kind)
  seen: dict[str, Any] = {}
  for draw in draws:
    sample = space.sample(draw)
    # As programs do: task settings are dropped if they have no effect.
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
  # Every dimension is drawn sometimes, and has several values.
  assert seen.keys() == space.dimensions.keys()
  assert all(len(values) > 1 for values in seen.values()), seen


def test_every_sample_is_valid_and_acts(method_name: str) -> None:
  """Corners and random samples of the search space of the method."""
  rng = np.random.default_rng(0)
  for base in _bases(method_name):
    space = search_spaces.of(base)
    check_space(space, [_corner(0), _corner(1), *[_random(rng)] * 30])


def test_a_space_is_small_and_has_a_rate(method_name: str) -> None:
  """So that few trials suffice; the defaults lie in it."""
  space = search_spaces.of(methods.get(method_name).hyperparameters())
  assert 1 <= len(space.dimensions) <= _MOST_DIMENSIONS
  assert _RATES & space.dimensions.keys()
  # The defaults are in the space, except for those that the task decides: 0
  # and `auto`.
  missing = space.dimensions.keys() - space.defaults.keys()
  undecided = {
      spec.name
      for spec in hp.specs(methods.get(method_name).hyperparameters).values()
      if spec.default in (0, 'auto')
  }
  assert missing <= undecided


def first_round(
    process: process_lib.PersonalizedProcess, data: Sequence[Any]
) -> Any:
  """Returns the output of the first round with all clients."""
  state = process.initialize_seeded(3)
  clients = [process.initialize_client(state, i) for i in range(len(data))]
  return process.next(state, clients, data)


def test_training_loss_is_that_of_the_honest_clients(method_name: str) -> None:
  """It does not move when the Byzantine client trains on other examples.

  All its labels become the same; opposite labels would give the same loss,
  because the first model is 0.
  """
  task = tiny.task()
  other = list(task.train)
  other[1] = tf.nest.map_structure(np.copy, task.train[1])
  other[1]['examples']['x'] *= 3
  other[1]['examples']['y'][:] = 1
  with left_out.leaving_out(_BYZANTINE):
    process = tiny.build(method_name, task)
  # Each process runs one round, for which fusing does not pay.
  with native.use():
    outputs = [first_round(process, data) for data in (task.train, other)]
  losses = [float(output['metrics']['train_loss']) for output in outputs]
  assert np.isfinite(losses[0]) and losses[0] == losses[1]
  # It does train, as all clients do.
  leaves = [
      tf.nest.flatten((output['state'], output['client_states']))
      for output in outputs
  ]
  assert any(np.any(a != b) for a, b in zip(*leaves))
