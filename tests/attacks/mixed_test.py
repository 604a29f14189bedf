"""Robust FFGG under `mixed`, equal to a NumPy program for every rule."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import least_squares
from tests.attacks import robust_mirror
from tests import built
from tff_pers import attacks
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.config import methods
from tff_pers.core import random
from tff_pers.runtime import native

_ROUNDS, _BYZANTINE, _STEP = 12, 5, 0.066
_PLAIN = (
    'mean', 'median', 'trimmed_mean', 'geometric_median', 'krum', 'multi_krum',
    'centered_clipping', 'caf',
)
_ALL = [*_PLAIN, *(
    f'{preparation}({rule})'
    for preparation in ('norm_clipping', 'bucketing', 'nnm') for rule in _PLAIN
)]


@functools.lru_cache(maxsize=None)
def _task():
  return built.task('overpersonalized', num_byzantine=_BYZANTINE)


@pytest.mark.parametrize('rule', _ALL)
def test_the_path_is_that_of_the_numpy_program(rule):
  """float64 throughout, so only the order of sums differs."""
  task = _task()
  first, _, inner = rule.partition('(')
  text = f'{first}[f={_BYZANTINE}]' + (f'({inner}' if inner else '')
  hyperparameters = ffgg_hp.FFGGHyperparameters(
      tuner='exact', server_learning_rate=_STEP, aggregator=text
  )
  with native.use(), attacks.carried_out(
      attacks.parse('mixed[first=alie,second=ipm,share=.5]'), task.byzantine
  ):
    process = methods.get('ffgg').build(task, hyperparameters)
    state, path = process.initialize_seeded(3), []
    seed = state['aggregator']['inner'].get('seed', np.zeros(2, np.int64))
    for _ in range(_ROUNDS):
      state = process.next(state, [()] * len(task.train), task.train)['state']
      path.append(np.asarray(state['weights'][0]))
  expected = robust_mirror.path(
      least_squares.LeastSquares(task), robust_mirror.rule(rule, _BYZANTINE),
      _STEP, _BYZANTINE, _orders(seed, len(task.train)),
  )
  np.testing.assert_allclose(path, expected, rtol=0, atol=1e-12)
  assert np.linalg.norm(path[-1]) > 0.5  # It has gone somewhere.


def _orders(seed, count):
  """Returns the permutations that buckets are drawn from, int[R, n]."""
  return np.array([
      np.argsort(tf.random.stateless_uniform(
          [count], random.fold_in(seed, number, 0), dtype=tf.float64
      ))
      for number in range(_ROUNDS)
  ])
