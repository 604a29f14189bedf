"""When the models of methods are compared."""

import baselines
from tff_pers import algorithms
from tff_pers.config import cadence as cadence_lib
from tff_pers.config import methods

del algorithms, baselines  # They register.


def _of(name, num_clients=6, cohort_size=6, **changes):
  made = methods.get(name).hyperparameters(**changes)
  return made.cadence(num_clients, cohort_size)


def test_every_method_has_one_and_some_wait_for_their_clients():
  for name in methods.names():
    cadence = _of(name)
    assert cadence.first >= 0 and cadence.cycle >= 1, name
    assert cadence.compares(cadence.first + cadence.cycle), name
  assert _of('fedavg') == cadence_lib.Cadence(first=0, cycle=1)
  assert _of('fedavg', 7, 2) == cadence_lib.Cadence(first=0, cycle=4)


def test_a_step_size_falls_first():
  assert _of(
      'fedavg', learning_rate_schedule='steps', learning_rate_rounds='7:9'
  ).first == 9


def test_visits_come_after_the_warm_up_and_have_epochs():
  assert _of('perm', warmup_rounds=4) == cadence_lib.Cadence(4, 6, False)
  # So many of the clients train w in a round.
  assert _of('perm', 6, 2, warmup_rounds=4).first == 12
  assert _of('perm', variant='two_stage', stage1_rounds=9).first == 9
  assert _of('perm', schedule='permutation', warmup_rounds=4) == (
      cadence_lib.Cadence(4, 6, True)
  )
  # With cohorts there are matchings only.
  assert not _of('perm', 6, 2, schedule='permutation').at_ends
  assert _of('ifca', warmup_rounds=3).first == 3
  assert _of('ffgg', pretrain_rounds=5).first == 5


def test_rounds_are_compared_after_the_first_and_at_ends():
  always = cadence_lib.Cadence(first=2, cycle=3)
  assert [r for r in range(1, 9) if always.compares(r)] == [3, 4, 5, 6, 7, 8]
  ends = always._replace(at_ends=True)
  assert [r for r in range(1, 12) if ends.compares(r)] == [5, 8, 11]
