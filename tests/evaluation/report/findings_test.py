"""A page says what is wrong with runs."""

import pytest

from tests.evaluation import made_runs

from tff_pers.evaluation.report import findings
from tff_pers.evaluation.report import members


def _found(tmp_path, *runs):
  """Returns findings about runs, (variant, seed, options) each, by text."""
  groups = members.groups(made_runs.read_all(tmp_path, *runs))
  return {one['text']: one['items'] for one in findings.of_groups(groups)}


def test_good_runs_need_no_word(tmp_path):
  assert not _found(tmp_path, ('perm', 0, {}), ('fedavg', 0, {}))


def test_divergence_goes_with_its_sentence(tmp_path):
  assert _found(
      tmp_path, ('perm', 0, dict(finished=False, diverged='NaN in round 7.')),
      ('perm', 1, {}),
  ) == {
      '1 run diverged: training produced NaN or infinity.': [
          'perm, seed 0: NaN in round 7.'
      ]
  }


def test_unfinished_runs_say_how_far_they_are(tmp_path):
  found = _found(
      tmp_path, ('perm', 0, dict(finished=False, evaluated=(2, 4))),
      ('perm', 1, dict(finished=False, evaluated=())),
  )
  assert found == {
      '2 runs not finished: interrupted, still running, or pruned.': [
          'perm, seed 0: round 4 of 6',
          'perm, seed 1: no evaluated round yet, of 6 rounds',
      ]
  }


@pytest.mark.parametrize('options, text', [
    (dict(columns={}), None),
    # The columns are 0.5 less loss in each round: 2, 1.5, 1.
    (dict(config=dict(initial_loss=0.5)),
     'perm, seed 0: 0.5 untrained, 1 in round 6; lowest, 1, in round 6'),
    (dict(config=dict(initial_loss=0.9999)), None),
    (dict(config=dict(initial_loss=3.0)), None),
])
def test_a_loss_above_that_of_the_start(options, text, tmp_path):
  found = _found(tmp_path, ('perm', 0, options))
  expected = {} if text is None else {
      '1 run ended with a test loss above that of the start.': [text]
  }
  assert found == expected


@pytest.mark.parametrize('last', [2.5, float('inf')])
def test_a_loss_that_rose(last, tmp_path):
  options = dict(columns=dict(loss_mean=[2.0, 1.5, last]))
  (items,) = _found(tmp_path, ('perm', 0, options)).values()
  assert items == [
      f'perm, seed 0: 2 in round 2, {last:g} in round 6; lowest, 1.5, in round 4'
  ]


def test_dropped_clients_are_named(tmp_path):
  (items,) = _found(tmp_path, ('perm', 0, dict(dropped={3: 2, 7: 1}))).values()
  assert items == ['perm, seed 0: client 3 in 2, client 7 in 1 rounds']


def test_uneven_seeds_and_versions(tmp_path):
  found = _found(
      tmp_path, ('perm', 0, {}), ('perm', 1, {}),
      ('fedavg', 0, dict(config=dict(versions=dict(python='3.9')))),
  )
  assert found == {
      'Variants have different seeds.': ['perm: 0, 1', 'fedavg: 0'],
      'Runs were made with different versions of packages.': ['python'],
  }
