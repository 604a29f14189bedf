"""Runs are compared on the same data, under names that tell them apart."""

import pytest

from tests.evaluation import made_runs
from tff_pers.evaluation import results
from tff_pers.evaluation.report import members


@pytest.fixture(name='write')
def _write(tmp_path):
  """Writes a run and reads it: (place, variant, seed, ...) -> run."""
  return lambda place, *args, **options: made_runs.read(
      tmp_path / place, *args, **options
  )


def _labels(runs):
  (group,) = members.groups(runs)
  return {m.run.folder.rsplit('/', 1)[1]: m.label for m in group.members}


def test_a_variant_is_its_own_label(write):
  runs = [write('a', 'perm', 0), write('b', 'perm', 1), write('c')]
  assert _labels(runs) == dict(a='perm', b='perm', c='fedavg')


def test_settings_that_differ_are_part_of_the_label(write):
  runs = [
      write('a', 'perm', 0, perm_lambda=0.1, rounds_kept=3),
      write('b', 'perm', 0, perm_lambda=0.5, rounds_kept=3),
      write('c', 'perm', 1, perm_lambda=0.5, rounds_kept=3),
      write('d', 'fedavg', 0),
  ]
  assert _labels(runs) == dict(
      a='perm (lambda=0.1)', b='perm (lambda=0.5)', c='perm (lambda=0.5)',
      d='fedavg',
  )


def test_the_same_run_twice_is_told_apart_by_its_folder(write):
  places = ('x/seed0', 'x/seed1', 'y/seed0')
  runs = [write(place, 'perm', int(place[-1])) for place in places]
  (group,) = members.groups(runs)
  assert list(group.by_label()) == ['perm in x', 'perm in y']
  assert [len(own) for own in group.by_label().values()] == [2, 1]


def test_two_folders_without_one_above_are_told_apart(write):
  runs = [write('first', 'perm', 0), write('second', 'perm', 0)]
  assert _labels(runs) == dict(first='perm in first', second='perm in second')


def test_runs_on_other_data_are_another_group(write):
  runs = [
      write('a', num_clients=4), write('b', num_clients=8),
      write('c', task='mnist', mnist_size=3), write('d', num_clients=4),
      write('e', task='mnist', mnist_size=4),
  ]
  found = members.groups(runs)
  assert [group.name for group in found] == [
      'digits (iid), num_clients=4', 'digits (iid), num_clients=8',
      'mnist (iid), mnist_size=3', 'mnist (iid), mnist_size=4',
  ]
  assert len(found[0].members) == 2


def test_states(write):
  runs = [
      write('a'), write('b', seed=1, finished=False),
      write('c', seed=2, finished=False, evaluated=()),
  ]
  results.write_diverged(runs[1].folder, 'It met NaN.')
  runs.append(results.read_run(runs[1].folder))
  states = [members.Member(run, 'fedavg') for run in runs]
  assert [member.state for member in states] == [
      members.FINISHED, members.UNFINISHED, members.UNFINISHED, members.DIVERGED
  ]
  assert [member.last_round for member in states] == [6, 6, None, 6]
  # Curves are of finished runs if there are any.
  assert members.tellable(states) == states[:1]
  assert members.tellable(states[1:]) == [states[1], states[3]]


@pytest.mark.parametrize('damage, named', [
    (lambda run: run.config['flags'].pop('task'), 'config.json'),
    (lambda run: run.metrics.pop('seconds'), 'metrics.csv'),
])
def test_what_is_no_run_is_named(damage, named, write):
  run = write('a')
  members.check(run)
  damage(run)
  with pytest.raises(ValueError, match=f'{named} must be that of a run'):
    members.check(run)
