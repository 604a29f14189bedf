"""`studies`: trials that several processes share, kills, order of values."""

import dataclasses
import json
import math
import os
import subprocess
import sys

import pytest

from tff_pers.config import hyperparameters as hp
from tff_pers.config import search_spaces
from tff_pers.evaluation import damaged
from tff_pers.experiments import studies


@dataclasses.dataclass(frozen=True)
class _Training(hp.Hyperparameters):
  """Two numbers, and one that acts beside some values of another."""

  rate: float = hp.field(0.1, 'Rate.', above=0.0, search=hp.Around(20))
  mode: str = hp.field(
      'free', 'Mode.', choices=('free', 'pulled'),
      search=hp.Among(('free', 'pulled')),
  )
  pull: float = hp.field(
      0.3, 'Pull.', when='mode=pulled', search=hp.Between(0.0, 1.0)
  )


def _study(folder, metric='accuracy', seed=0, rounds=10):
  return studies.Study(
      str(folder), search_spaces.of(_Training()), metric=metric, seed=seed,
      rounds=rounds,
  )


def _end(claim, value=0.5, state='complete'):
  claim.report(10, value, 2.0)
  claim.end(state, 10, value, 2.0)
  return claim.values


def _run(folder, number):
  """Returns the values of so many trials, better ones with larger rates."""
  study, values = _study(folder), []
  for _ in range(number):
    claim = study.claim()
    values.append(_end(claim, claim.values['rate'] / 10))
  return values


def test_the_first_trial_has_the_defaults(tmp_path):
  claim = _study(tmp_path).claim()
  assert (claim.number, claim.values) == (1, dict(rate=0.1, mode='free'))
  assert claim.options == {}
  _end(claim)
  assert set(_study(tmp_path).claim().options) >= {'rate', 'mode'}


def test_values_are_a_function_of_the_seed(tmp_path):
  first = _run(tmp_path / 'a', 8)
  assert _run(tmp_path / 'b', 8) == first
  other = [_study(tmp_path / 'c', seed=1).claim().values]
  study = _study(tmp_path / 'd', seed=1)
  _end(study.claim())
  assert study.claim().values != first[1] and other[0] == first[0]


def test_all_values_are_of_the_space_and_only_those_that_act(tmp_path):
  for values in _run(tmp_path, 12):
    assert 0.005 <= values['rate'] <= 2.0
    assert ('pull' in values) == (values['mode'] == 'pulled')


def test_the_search_goes_where_it_is_better(tmp_path):
  """The sign of the metric: the first ten say nothing, later ones follow."""
  study = _study(tmp_path, metric='loss')
  rates = []
  for _ in range(25):
    claim = study.claim()
    rates.append(claim.values['rate'])
    _end(claim, abs(math.log(claim.values['rate'] / 0.01)))
  late = rates[-10:]
  assert sorted(late)[5] < 0.03 < sorted(rates[:10])[5]


def test_two_at_work_never_have_the_same_trial(tmp_path):
  """A lock that this process holds is held for others of it, too."""
  one, two = _study(tmp_path), _study(tmp_path)
  claims = [one.claim(), two.claim(), one.claim(), two.claim()]
  assert [claim.number for claim in claims] == [1, 2, 3, 4]
  assert two.is_running()
  for claim in claims:
    _end(claim)
  assert not one.is_running()
  assert [trial.number for trial in one.trials()] == [1, 2, 3, 4]


def test_a_limit_counts_trials_of_all_processes(tmp_path):
  one, two = _study(tmp_path), _study(tmp_path)
  claim = one.claim(2)
  assert two.claim(2).number == 2
  assert one.claim(2) is None and two.claim(2) is None
  _end(claim)
  assert one.claim(2) is None and one.claim(3).number == 3


def test_a_trial_that_was_let_go_is_the_next_one_with_its_values(tmp_path):
  study = _study(tmp_path)
  _end(study.claim())
  lost = study.claim()
  values = lost.values
  lost.report(3, 0.7, 5.0)
  lost.release()
  assert study.trials()[1].state == 'running'
  found = _study(tmp_path).claim(0)  # Begun is begun, whatever the limit.
  assert (found.number, found.values, found.seconds) == (2, values, 5.0)
  found.report(3, 0.1, 9.0)  # A round that is repeated counts once.
  assert found.seconds == 5.0
  _end(found)
  trials = study.trials()
  assert [trial.state for trial in trials] == ['complete'] * 2
  assert trials[1].values == values


_CLAIM_AND_DIE = """
import os, signal
from tests.experiments import studies_test
claim = studies_test._study({folder!r}).claim()
print(claim.number, claim.values['rate'], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_its_lock_and_not_its_trial(tmp_path):
  study = _study(tmp_path)
  _end(study.claim())
  child = subprocess.run(
      [sys.executable, '-c', _CLAIM_AND_DIE.format(folder=str(tmp_path))],
      capture_output=True, text=True, check=False,
      env=dict(os.environ, PYTHONPATH=os.getcwd()),
  )
  assert child.returncode == -9, child.stderr
  number, rate = child.stdout.split()
  claim = study.claim()
  assert (claim.number, claim.values['rate']) == (int(number), float(rate))
  assert claim.number == 2


@pytest.mark.parametrize('kept', [0.2, 0.5, 0.8, 0.99])
def test_half_a_line_of_a_killed_process_is_cut_off(kept, tmp_path):
  study = _study(tmp_path)
  first = _end(study.claim())
  claim = study.claim()
  claim.release()
  path = tmp_path / studies.JOURNAL
  whole = path.read_bytes()
  last = whole.rstrip(b'\n').rfind(b'\n') + 1
  path.write_bytes(whole[:last + max(1, int(kept * (len(whole) - last) - 1))])
  again = _study(tmp_path)
  assert again.trials()[0].values == first
  # The line held the values of the second one; they are drawn again, the same.
  found = again.claim()
  assert (found.number, found.values) == (2, claim.values)
  for line in path.read_text().splitlines():
    json.loads(line)


def test_what_is_no_journal_is_named(tmp_path):
  path = tmp_path / studies.JOURNAL
  for text in ('x\n', '[]\n', '{"a": 1}\n', '\x00\n'):
    path.write_text(text)
    with pytest.raises(damaged.DamagedError, match=studies.JOURNAL):
      _study(tmp_path)


def test_states_say_who_may_win(tmp_path):
  study = _study(tmp_path)
  for state in ('complete', 'stopped', 'pruned', 'diverged', 'refused'):
    _end(study.claim(), math.nan if state in ('diverged', 'refused') else 0.3,
         state)
  found = {trial.state: trial.may_win for trial in study.trials()}
  assert found == dict(
      complete=True, stopped=True, pruned=False, diverged=False, refused=False
  )


def _pruned(folder, metric, values, value):
  """Returns whether a trial is pruned after others had `values`."""
  study = _study(folder, metric=metric)
  for other in values:
    claim = study.claim()
    claim.report(5, other, 1.0)
    claim.end('complete', 10, other, 2.0)
  claim = study.claim()
  claim.report(5, value, 1.0)
  return claim.should_be_pruned()


def test_pruning_is_below_the_median_in_the_direction_of_the_metric(tmp_path):
  values = [0.2, 0.4, 0.6]
  assert _pruned(tmp_path / 'a', 'accuracy', values, 0.39)
  assert not _pruned(tmp_path / 'b', 'accuracy', values, 0.41)
  assert _pruned(tmp_path / 'c', 'loss', values, 0.41)
  assert not _pruned(tmp_path / 'd', 'loss', values, 0.39)
  assert not _pruned(tmp_path / 'e', 'accuracy', values[:2], 0.21)


@pytest.mark.parametrize('metric, others, value, is_pruned', [
    ('accuracy', [0.8, 0.3], 0.39, True), ('accuracy', [0.8, 0.3], 0.41, False),
    ('loss', [0.2, 0.9], 0.41, True), ('loss', [0.2, 0.9], 0.39, False),
    ('accuracy', [], 0.1, False),
])
def test_what_is_not_half_as_good_as_another_is_pruned(
    metric, others, value, is_pruned, tmp_path
):
  assert _pruned(tmp_path, metric, others, value) == is_pruned


def test_nothing_is_pruned_in_the_first_fifth_of_the_rounds(tmp_path):
  study = _study(tmp_path, rounds=10)
  for _ in range(3):
    claim = study.claim()
    for number in (1, 2):
      claim.report(number, 0.9, 1.0)
    _end(claim, 0.9)
  claim = study.claim()
  claim.report(1, 0.1, 1.0)
  assert not claim.should_be_pruned()
  claim.report(2, 0.1, 1.0)
  assert claim.should_be_pruned()
