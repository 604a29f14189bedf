"""Tables of a page have the numbers of the files."""

import math

import numpy as np
import pytest

from tests.evaluation import made_runs
from tff_pers.evaluation import results
from tff_pers.evaluation.report import members
from tff_pers.evaluation.report import result_data


def _group(tmp_path, *runs):
  """Returns the group of runs, (variant, seed, options) each."""
  (group,) = members.groups(made_runs.read_all(tmp_path, *runs))
  return group


def _rows(table):
  """Returns the rows by their first cell, each by the column's title."""
  titles = [column['title'] for column in table['columns']]
  return {row[0]: dict(zip(titles, row)) for row in table['rows']}


COMPARED = (
    ('local_only', 0, dict(clients={'1': 0.5, '2': 0.5})),
    ('local_only', 1, dict(clients={'1': 0.5, '2': 0.5})),
    ('perm', 0, dict(
        accuracy=0.8, validation=0.9, loss=0.25, clients={'1': 0.4, '2': 0.6}
    )),
    ('perm', 1, dict(
        accuracy=0.6, validation=0.8, loss=0.75, clients={'1': 0.7, '2': 0.6}
    )),
)


def test_results_are_means_over_seeds(tmp_path):
  table = result_data.results_table(_group(tmp_path, *COMPARED))
  assert _rows(table)['perm'] == {
      'Method': 'perm', 'Seeds': 2, 'Test accuracy': 0.7,
      '± over seeds': pytest.approx(math.sqrt(0.02)),
      'Validation accuracy': 0.85, 'Worst decile': 0.35, 'Test loss': 0.5,
      'Hurt against local_only': 0.25,
  }
  assert _rows(table)['local_only']['Validation accuracy'] is None


def test_a_diverged_seed_is_no_number(tmp_path):
  group = _group(
      tmp_path, *COMPARED, ('local_only', 2, {}), ('perm', 2, dict(
          finished=False, diverged='It met NaN.', accuracy=0.9,
      )),
  )
  row = _rows(result_data.results_table(group))['perm']
  assert row['Seeds'] == 3 and row['State'] == '1 diverged'
  assert {row['Test accuracy'], row['Test loss'], row['Validation accuracy'],
          row['Hurt against local_only']} == {'nan'}
  final = result_data.final_values(group)
  assert [one['label'] for one in final['rows']] == ['local_only']


def test_an_unfinished_seed_does_not_count_beside_finished_ones(tmp_path):
  late = dict(finished=False, accuracy=0.1, loss=9.0, evaluated=(2,))
  group = _group(
      tmp_path, *COMPARED, ('perm', 2, late), ('local_only', 2, {}),
      ('ditto', 0, late), ('empty', 0, dict(finished=False, evaluated=())),
  )
  rows = _rows(result_data.results_table(group))
  assert rows['perm']['Seeds'] == 2 and rows['perm']['Test accuracy'] == 0.7
  assert rows['perm']['State'] == '1 unfinished'
  # Alone, it stands for what there is so far.
  assert rows['ditto']['Test accuracy'] == 0.1
  assert rows['ditto']['State'] == '1 unfinished'
  assert rows['ditto']['Hurt against local_only'] is None
  assert 'empty' not in rows
  assert 'empty' not in _rows(result_data.costs_table(group))


def test_final_values_span_the_seeds(tmp_path):
  final = result_data.final_values(_group(tmp_path, *COMPARED))
  assert final['metric'] == 'accuracy'
  assert final['rows'][1] == dict(label='perm', value=0.7, low=0.6, high=0.8)


def test_regression_is_measured_by_losses(tmp_path):
  group = _group(
      tmp_path, ('perm', 0, dict(accuracy=None, loss=3.0)),
      ('ditto', 0, dict(accuracy=None, loss=2.0)),
  )
  final = result_data.final_values(group)
  assert final['metric'] == 'loss'
  assert [one['value'] for one in final['rows']] == [3, 2]
  assert 'Test accuracy' not in _rows(result_data.results_table(group))['perm']


def test_costs(tmp_path):
  table = result_data.costs_table(_group(tmp_path, *COMPARED))
  assert _rows(table)['perm'] == {
      'Method': 'perm', 'Parameters of the model': 100,
      'Parameters that a client handles': 120, 'Down per round': 30,
      'Up per round': 10, 'Traffic': 240, 'MACs per example': 50, 'Rounds': 6,
      'Seconds per round': 2, 'Training time': 12,
  }


def test_every_run_has_a_row(tmp_path):
  group = _group(
      tmp_path, ('perm', 4, dict(accuracy=0.8, loss=0.5)),
      ('perm', 5, dict(finished=False, evaluated=())),
  )
  first, second = result_data.runs_table(group, str(tmp_path))['rows']
  assert first == [
      'perm', 4, 'finished', 6, 6, 0.8, 0.4, 0.5, 12, 'perm/seed4'
  ]
  assert second[2:5] == ['unfinished', None, 6] and second[5] is None


def test_rounds_may_be_no_number(tmp_path):
  group = _group(tmp_path, ('perm', 0, dict(rounds='auto')))
  titles = [c['title'] for c in result_data.runs_table(group, '/')['columns']]
  assert 'of' not in titles


def test_tiers_and_local_steps(tmp_path):
  group = _group(tmp_path, ('perm', 0, {}), ('perm', 1, {}))
  for member, accuracy in zip(group.members, (0.5, 0.7)):
    results.write_tiers(member.run.folder, [dict(
        algo='perm', seed=member.seed, round=round_num, tier='1', parameters=9,
        accuracy=accuracy * round_num / 4, loss=2.0,
    ) for round_num in (2, 4)])
  table = result_data.tiers_table(group)
  assert table['rows'] == [
      ['perm', '1', 9, 2, 0.6, pytest.approx(math.sqrt(0.02)), 2]
  ]
  tuned = group.members[0].run._replace(finetuning=dict(
      seen=np.array([1.0, 0.0]), steps=np.array([0.0, 5.0]),
      accuracy_mean=np.array([0.5, 0.75]), loss_mean=np.array([np.nan] * 2),
  ))
  group = group._replace(members=[group.members[0]._replace(run=tuned)])
  assert result_data.finetuning_table(group)['rows'] == [
      ['perm', 0, 'that train', 0, 0.5], ['perm', 0, 'that never train', 5, 0.75]
  ]
