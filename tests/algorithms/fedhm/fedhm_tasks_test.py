"""FedHM on its small tasks: checks A14 and A15 (FedHM and FedAvg)."""

import collections
import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import baselines  # noqa: F401  Registers its methods.
from tests import built
from tff_pers.algorithms.fedhm import fedhm
from tff_pers.algorithms.fedhm import fedhm_hyperparameters as fedhm_hp
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.config import settings
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.data import tiers as tier_assignment
from tff_pers.data.tasks import low_rank_regression
from tff_pers.models import factorized
from tff_pers.models import tiered_model
from tff_pers.simulation import cohort

# A14: one linear map 20 -> 16, eight clients.


@functools.lru_cache(maxsize=None)
def _regression_process(tiers):
  """Returns the process with these ratios, in float64."""
  names = hp.as_dict(fedhm_hp.FedHMHyperparameters())
  chosen = settings.of('low_rank_regression', 'fedhm', names)
  own = fedhm_hp.FedHMHyperparameters(tiers=tiers, **chosen)
  tiered = own.tiered(
      low_rank_regression.linear_model(tf.float64), (1.0, 0.5, 0.25, 0.125)
  )
  return fedhm.build_fedhm(
      tiered, tier_assignment.assign(8, len(tiered.ratios)), own, tau=math.inf
  )


Fit = collections.namedtuple('Fit', 'loss error')


def _regression(rank, tiers, seed, checkpoints=(300,)):
  """Returns loss / initial loss and relative error at these rounds, and A."""
  task = built.task('low_rank_regression', options=dict(rank=rank), seed=seed)
  target = task.optimum[0][0].astype(np.float64)
  process = _regression_process(tiers)
  state = process.initialize_seeded(seed)
  x = np.concatenate([d['examples']['x'] for d in task.train]).astype(float)
  def loss(weights):
    return np.sum(np.square(x @ (weights - target)))
  initial, found = loss(state['weights'][0]), []
  for number in range(1, max(checkpoints) + 1):
    state = process.next(state, [()] * 8, task.train)['state']
    if number in checkpoints:
      weights = state['weights'][0]
      found.append(Fit(
          loss(weights) / initial,
          np.linalg.norm(weights - target) / np.linalg.norm(target),
      ))
  return found, target


def _rank_error(target, rank):
  """Returns the relative error of the best approximation of a rank."""
  values = np.linalg.svd(target, compute_uv=False)
  return np.sqrt(np.sum(values[rank:] ** 2) / np.sum(values**2))


# The fast runs have one seed.
_SEEDS_OF_MAPS = [
    pytest.param(seed, marks=[pytest.mark.slow] * (seed > 0))
    for seed in range(5)
]


@pytest.mark.parametrize('seed', _SEEDS_OF_MAPS)
def test_a_map_that_all_tiers_can_hold_is_found(seed):
  """A14: rank 2 is the rank of the smallest tier."""
  (fit,), _ = _regression(2, '1:0.5:0.25:0.125', seed)
  assert fit.loss < 1e-6 and fit.error < 1e-6


@pytest.mark.parametrize('seed', _SEEDS_OF_MAPS)
def test_tiers_below_the_rank_leave_a_floor(seed):
  """A14: better than what the smallest tier could hold, but no better."""
  (before, fit), target = _regression(4, '1:0.5:0.25:0.125', seed, (200, 300))
  assert 0.03 <= fit.loss <= 0.10
  assert 0.15 <= fit.error <= 0.32
  assert fit.error < _rank_error(target, 2) < 0.6
  assert fit.error == pytest.approx(before.error, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(5))
@pytest.mark.parametrize('tiers, loss, error', [
    ('1:1:1:1', 1e-8, 1e-4), ('0.5:0.5:0.5:0.5', 1e-4, 5e-3),
])
def test_clients_of_one_tier_of_enough_rank(seed, tiers, loss, error):
  """A14: all of full rank, and all of rank 8."""
  (fit,), _ = _regression(4, tiers, seed)
  assert fit.loss < loss and fit.error < error


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(5))
def test_clients_of_one_small_tier_find_the_best_of_its_rank(seed):
  """A14: Eckart and Young's optimum of rank 2."""
  (fit,), target = _regression(4, '0.125:0.125:0.125:0.125', seed)
  assert fit.error == pytest.approx(_rank_error(target, 2), rel=0.01)


# A15: classes of several modes, twenty clients.

_LONGEST = 1024  # Clients are padded: their sizes differ from seed to seed.


def _modes(seed):
  return built.task('gaussian_modes', seed=seed)


def test_sizes_of_the_tiers():
  """A15: 38.5k, 22.2k, 14.0k, 9.9k; FedAvg of width 0.469 fits the last."""
  task = _modes(0)
  found = [
      factorized.Factorization(task.model, ratio)
      for ratio in task.rank_ratios
  ]
  assert [own.num_parameters for own in found] == [38538, 22154, 13962, 9866]
  assert [list(own.ranks.values()) for own in found] == [
      [], [32, 32], [16, 16], [8, 8]
  ]
  slim = factorized.slim(task.model, found[-1].num_parameters)
  assert slim.num_parameters == 9910
  assert [weight.shape for weight in slim.layers[::2]] == [
      (32, 60), (60, 60), (60, 60), (60, 10)
  ]


def _hyperparameters(name, **given):
  method = methods.get(name)
  known = hp.as_dict(method.hyperparameters())
  chosen = settings.of('gaussian_modes', name, known)
  return hp.replace(method.hyperparameters(), **{**chosen, **given})


@functools.lru_cache(maxsize=None)
def _modes_process(name):
  algo, given = {
      'fedhm': ('fedhm', {}),
      'all_smallest': ('fedhm', dict(tiers='all_smallest')),
      'full': ('fedavg', {}),
      'slim': ('slim_fedavg', {}),
  }[name]
  return methods.get(algo).build(_modes(0), _hyperparameters(algo, **given))


Trained = collections.namedtuple('Trained', 'accuracies state')


@functools.lru_cache(maxsize=None)
def _trained(name, seed):
  """Returns the accuracies of the tiers in percent, and the last state."""
  task, process = _modes(seed), _modes_process(name)
  data = [client_data.pad(client, _LONGEST) for client in task.train]
  sample = cohort.uniform(task.num_clients, task.clients_per_round)
  state = process.initialize_seeded(seed)
  for number in range(task.rounds):
    chosen = sample(seed, number)
    state = process.next(
        state, [()] * len(chosen), [data[i] for i in chosen]
    )['state']
  found = process.evaluate_global(state, task.global_test)
  return Trained(
      [100 * float(tier['accuracy']) for tier in found.values()], state
  )


_SEEDS = range(5)


def _last(name):
  """Returns the accuracies of the last, smallest tier, by seed."""
  return np.array([_trained(name, seed).accuracies[-1] for seed in _SEEDS])


@pytest.mark.slow
def test_tiers_are_alike_in_the_end():
  """A15: rank collapse, which is expected: see energy_top_rmin."""
  tiered = tiered_model.TieredModel(_modes(0).model, _modes(0).rank_ratios)
  for seed in _SEEDS:
    own = _trained('fedhm', seed)
    assert max(own.accuracies) - min(own.accuracies) <= 1.0
    assert tiered.energy(own.state) >= 0.99
    weights = _trained('full', seed).state['weights']
    factors = tiered.decompose(weights, random.key(0))
    whole = dict(factors=factors, weights=weights)
    assert 0.1 < tiered.energy(whole) < 0.4


@pytest.mark.slow
def test_accuracies_beside_fedavg_and_the_smallest_model():
  """A15: within 5 points of FedAvg, within 2 of the homogeneous model."""
  means = {
      name: _last(name).mean()
      for name in ('fedhm', 'full', 'slim', 'all_smallest')
  }
  assert means['full'] - 5 <= means['fedhm']
  assert abs(means['fedhm'] - means['all_smallest']) <= 2
  assert 60 < means['fedhm'] < 72 and 60 < means['slim'] < 75
