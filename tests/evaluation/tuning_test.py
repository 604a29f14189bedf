"""Choices by validation data, and the tables made of them."""

import math

import numpy as np
import pytest

from tff_pers.evaluation import results
from tff_pers.evaluation import grids as grids_lib
from tff_pers.evaluation import tuning

GRID = grids_lib.Grid(('learning_rate',), ('0.1', '0.3', '1'))
GRIDS = {'one': GRID}


def _run(validation=0.5, test=0.5, accuracy=(0.5,), num_test=(1,), seen=(1,),
         metric='accuracy', loss=1.0):
  """Returns a run of two evaluated rounds; the first looks best by far."""
  metrics = {
      'accuracy_validation': np.array([math.nan, math.nan]),
      'loss_validation': np.array([1.0, loss]),
      'loss_mean': np.array([1.0, loss]),
      f'{metric}_validation': np.array([math.inf, validation]),
      f'{metric}_mean': np.array([math.inf, test]),
  }
  clients = dict(
      seen=np.array(seen), num_test=np.array(num_test),
      **{metric: np.array(accuracy)},
  )
  return results.Run('', {}, metrics, clients, None, None, None)


def _choose(*runs):
  return tuning.choose({'one': dict(zip(GRID.values, runs))})['one']


def test_the_best_validation_accuracy_is_chosen_whatever_test_data_say():
  choice = _choose(_run(0.6, test=0.9), _run(0.8, test=0.1), _run(0.7, test=1))
  assert choice.value == '0.3' and choice.metric == 'accuracy'
  assert choice.scores == {'0.1': 0.6, '0.3': 0.8, '1': 0.7}


def test_the_first_of_equally_good_values_is_chosen():
  assert _choose(_run(0.6), _run(0.8), _run(0.8)).value == '0.3'


def test_on_regression_tasks_the_smallest_validation_loss_is_chosen():
  choice = _choose(*[_run(loss, metric='loss') for loss in (3.0, 1.0, 2.0)])
  assert choice.value == '0.3' and choice.metric == 'loss'


def test_a_diverged_value_loses():
  choice = _choose(_run(0.1), None, _run(math.nan))
  assert choice.value == '0.1'
  assert math.isnan(choice.scores['0.3']) and math.isnan(choice.scores['1'])
  infinite = _choose(None, _run(math.inf, metric='loss'), _run(9, metric='loss'))
  assert infinite.value == '1' and infinite.metric == 'loss'
  assert _choose(None, None, None).value is None


@pytest.mark.parametrize('loss', [math.nan, math.inf])
def test_an_accuracy_beside_a_loss_that_is_not_finite_is_not_chosen(loss):
  choice = _choose(_run(0.6), _run(0.9, loss=loss), _run(0.7))
  assert choice.value == '1' and choice.metric == 'accuracy'
  assert math.isnan(choice.scores['0.3'])


def test_all_variants_are_compared_by_one_metric():
  """Also one of which no run says which metric it has."""
  choices = tuning.choose({
      'diverged': {'1': None}, 'other': {'1': _run(0.5, metric='loss')},
  })
  assert [choice.metric for choice in choices.values()] == ['loss', 'loss']


@pytest.mark.parametrize(
    'values,chosen,expected',
    [
        ('1 0.3 10', '1', False), ('1 0.3 10', '0.3', True),
        ('1 0.3 10', '10', True), ('1', '1', True), ('a b', 'a', None),
        ('1 2', None, None), ('1;5 2;5 3;5 1;6 2;6 3;6 2;7', '2;6', False),
        ('1;5 2;5 3;5 1;6 2;6 3;6 2;7', '2;7', True), ('1;a 2;b', '1;a', True),
        ('1;5 2;5 3;5 1;6 2;6 3;6', '2;6', True), ('1;5 2;5 3;5', '2;5', False),
        ('1;5 2;5 3;5 1;6 2;6 3;6', '3;6', True), ('1;5 2;5', '2;5', True),
    ],
)
def test_the_border_is_that_of_numbers_in_any_order(values, chosen, expected):
  choice = tuning.Choice('accuracy', dict.fromkeys(values.split(), 0.5), chosen)
  assert choice.at_border is expected


def test_rows_are_means_over_clients_and_over_their_examples():
  """Per seed mean 0.5 and 0.7; weighted by 3 and 1 examples 0.3 and 0.5."""
  accuracies = ((0.1, 0.9, 0.2, 1.0), (0.3, 1.1, 0.4, 0.6))
  runs = {
      ('one', seed): _run(
          accuracy=accuracy, num_test=(3, 1, 1, 1), seen=(1, 1, 0, 0)
      )
      for seed, accuracy in enumerate(accuracies)
  }
  choices = {'one': tuning.Choice('accuracy', {'0.1': 0.4, '1': 0.5}, '1')}
  row, = tuning.rows(GRIDS, choices, runs)
  assert row['learning_rate'] == '1' and row['seeds'] == 2
  assert row['at_border'] == 'yes' and row['validation'] == '0.1: 0.4000  1: 0.5000'
  expected = dict(
      accuracy_mean=0.6, pooled_accuracy_mean=0.4, new_accuracy_mean=0.55,
      new_pooled_accuracy_mean=0.55,
  )
  assert {name: row[name] for name in expected} == pytest.approx(expected)
  deviation = math.sqrt(0.02)  # Of 0.5 and 0.7, divided by S - 1 = 1.
  assert row['accuracy_std'] == pytest.approx(deviation)
  assert row['pooled_accuracy_std'] == pytest.approx(deviation)
  assert row['new_accuracy_std'] == pytest.approx(math.sqrt(0.005))


def test_markdown_has_mean_and_deviation_in_one_cell():
  choices = {'one': tuning.Choice('accuracy', {'1': 0.5}, '1')}
  table = tuning.rows(GRIDS, choices, {('one', 0): _run(), ('one', 1): _run()})
  columns = tuning.columns(GRIDS, choices, has_new=False)
  head, _, line = tuning.markdown(columns, table).splitlines()
  assert head.split()[1::2][-2:] == ['accuracy', 'pooled_accuracy']
  assert '0.5000 ± 0.0000' in line
  one = tuning.rows(GRIDS, choices, {('one', 0): _run()})
  assert '±' not in tuning.markdown(columns, one)
  assert tuning.columns(GRIDS, choices, True)[-1] == 'new_pooled_accuracy_std'


def test_a_variant_with_a_diverged_seed_is_nan():
  choices = {'one': tuning.Choice('accuracy', {'1': 0.5}, '1')}
  row, = tuning.rows(GRIDS, choices, {('one', 0): _run(), ('one', 1): None})
  assert math.isnan(row['accuracy_mean'])


def test_trials_are_a_row_per_value():
  choices = {'one': tuning.Choice('loss', {'1': 0.5, '2': 0.4}, '2')}
  rows = tuning.trial_rows(choices)
  assert tuple(rows[0]) == tuning.TRIAL_COLUMNS
  assert [(r['value'], r['validation'], r['chosen']) for r in rows] == [
      ('1', 0.5, 0), ('2', 0.4, 1)
  ]


def test_hyperparameters_of_one_method_share_a_column():
  grids = grids_lib.parse_grids('rate:1,2;b.k:3,4;c.m:5,6', ['b', 'c'])
  choices = {
      name: tuning.Choice('accuracy', dict.fromkeys(grid.values, 0.5), '2;' + v)
      for (name, grid), v in zip(grids.items(), '46')
  }
  choices['c'] = choices['c']._replace(value=None)
  assert tuning.columns(grids, choices, False)[:4] == [
      'algo', 'rate', 'own', 'at_border'
  ]
  chosen, none = tuning.rows(grids, choices, {('b', 0): _run()})
  assert (chosen['rate'], chosen['own']) == ('2', 'k=4')
  assert (none['rate'], none['own']) == (None, None)
