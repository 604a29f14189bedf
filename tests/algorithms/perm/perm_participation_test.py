"""PERM with small cohorts on the synthetic groups: perm check 15b."""

import collections

import numpy as np
import pytest

from tests import built
from tff_pers.algorithms.perm import perm


def _accuracy(task, process, cohorts):
  state = process.initialize_seeded(0)
  for cohort in cohorts:
    data = [task.train[i] for i in cohort]
    state = process.next(state, [()] * len(data), data)['state']
  metrics = process.evaluate(
      state, [()] * task.num_clients,
      [
          collections.OrderedDict(adapt=train, test=test)
          for train, test in zip(task.train, task.test)
      ],
  )
  return np.mean([m['accuracy'] for m in metrics])


@pytest.mark.slow
def test_ten_of_fifty_clients_reach_full_participation():
  """perm check 15b: 500 rounds of 10 clients are 100 rounds of 50, to 0.01."""
  task = built.task('synthetic_groups', seed=0)
  build = lambda warmup, full: perm.build_perm(
      task.model, 50,
      perm.PermHyperparameters(
          learning_rate=0.5, batch_size=50, global_learning_rate=1.0,
          warmup_rounds=warmup, step_cap=0.0, lambda_scale=10.0,
      ),
      full_participation=full,
  )
  full = _accuracy(task, build(10, True), [range(50)] * 100)
  rng = np.random.default_rng(0)
  cohorts = [rng.choice(50, 10, replace=False) for _ in range(500)]
  partial = _accuracy(task, build(10, False), cohorts)
  assert full >= 0.93  # One seed; the mean over seeds is >= 0.94.
  assert partial >= full - 0.01
