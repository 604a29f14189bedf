"""Tables of other programs are shown as they are."""

import json
import os

import pytest

from tests.evaluation import made_runs
from tff_pers.evaluation import decision_page
from tff_pers.evaluation import results
from tff_pers.evaluation.report import folder_data

CHOICE = [
    dict(
        algo='perm', accuracy_validation=0.9, accuracy_test=0.8, low=0.7,
        high=0.85, accuracy_worst_decile=0.5, share_hurt_vs_local_only=0.25,
        share_hurt_vs_fedavg=0.5, seconds=90, recommended=1,
    ),
    dict(
        algo='fedavg', accuracy_validation=0.7, accuracy_test=0.6, low=0.5,
        high=0.65, accuracy_worst_decile=0.3, share_hurt_vs_local_only=None,
        share_hurt_vs_fedavg=0.0, seconds=30, recommended=0,
    ),
]


def _write(folder, name, rows):
  os.makedirs(folder, exist_ok=True)
  results.write_csv(os.path.join(folder, name), list(rows[0]), rows)


def _sections(folder):
  folder = str(folder)
  return folder_data.of_paths(folder_data.find([folder]), folder)


def test_the_choice(tmp_path):
  _write(tmp_path / 'chosen', 'choice.csv', CHOICE)
  (section,) = _sections(tmp_path)
  assert section['place'] == 'chosen/choice.csv'
  assert section['recommended'] == ['perm']
  assert section['rows'] == [
      dict(label='perm', value=0.8, low=0.7, high=0.85),
      dict(label='fedavg', value=0.6, low=0.5, high=0.65),
  ]
  titles = [column['title'] for column in section['table']['columns']]
  assert dict(zip(titles, section['table']['rows'][0])) == {
      'Method': 'perm', 'Validation accuracy': 0.9, 'Test accuracy': 0.8,
      'from': 0.7, 'to': 0.85, 'Worst decile': 0.5,
      'Hurt against local_only': 0.25, 'Hurt against fedavg': 0.5, 'Time': 90,
      'Recommended': 'yes',
  }
  assert section['table']['rows'][1][-4:] == [None, 0, 30, None]


def test_sentences_and_differences_stand_beside_a_choice(tmp_path):
  _write(tmp_path, 'choice.csv', CHOICE)
  (tmp_path / 'recommendation.txt').write_text(
      'perm.\n\nOn test data.\n\nHow to read this\n\n`seconds` are whole.\n'
  )
  empty = dict.fromkeys(decision_page.DIFFERENCE_COLUMNS)
  _write(tmp_path, 'differences.csv', [
      dict(empty, algo='perm', variant='perm[lambda=2]', test=0.8, trials=4),
      dict(empty, algo='fedavg', variant='fedavg', test=0.6, difference=-0.2,
           difference_low=-0.3, difference_high=-0.1, p_value=0.01,
           share_better=0.0, share_worse=1.0, trials=5),
  ])
  choice, differences = _sections(tmp_path)
  assert choice['sentences'] == ['perm.', 'On test data.']
  assert choice['notes'] == ['`seconds` are whole.']
  titles = [column['title'] for column in differences['table']['columns']]
  assert dict(zip(titles, differences['table']['rows'][1])) == {
      'Method': 'fedavg', 'Test': 0.6, 'Difference': -0.2, 'from': -0.3,
      'to': -0.1, 'p': 0.01, 'Clients better off': 0, 'Clients worse off': 1,
      'Trials': 5, 'Chosen values': 'fedavg',
  }
  assert differences['table']['rows'][0][2:5] == [None] * 3


def test_trials_are_a_table(tmp_path):
  _write(tmp_path, 'trials.csv', [
      dict(algo='perm', trial=0, state='pruned', validation='nan'),
      dict(algo='perm', trial=1, state='complete', validation=0.5),
  ])
  (section,) = _sections(tmp_path)
  assert section['kind'] == 'trials'
  assert section['table']['rows'] == [
      ['perm', 0, 'pruned', 'nan'], ['perm', 1, 'complete', 0.5]
  ]


def _search(tmp_path):
  """A search whose second trial was chosen; it has a run of another seed."""
  entry = dict(trial=1, variant='perm[lambda=2]', validation=0.5,
               folder='trial0001', hyperparameters=dict(perm_lambda=2))
  (tmp_path / 'best.json').write_text(json.dumps(dict(perm=entry, ditto=None)))
  for trial, variant, seed in (
      (0, 'perm', 0), (1, 'perm[lambda=2]', 0), (1, 'perm[lambda=2]', 1),
      (2, 'perm[lambda=3]', 0), (3, 'perm[lambda=2]', 0),
  ):
    made_runs.write(
        str(tmp_path / 'perm' / f'trial{trial:04d}' / 'x' / f'seed{seed}'),
        variant, seed,
    )


def test_of_a_search_only_what_was_chosen_is_a_method(tmp_path):
  (tmp_path / 'search').mkdir()
  _search(tmp_path / 'search')
  other = made_runs.write(str(tmp_path / 'searched_not' / 'seed0'), 'perm', 0)
  runs = [results.read_run(f) for f in results.find_runs(str(tmp_path))]
  kept = folder_data.without_trials(runs, folder_data.find([str(tmp_path)]))
  search = str(tmp_path / 'search' / 'perm' / 'trial0001' / 'x')
  assert [(run.folder, run.variant) for run in kept] == [
      (f'{search}/seed0', 'perm'), (f'{search}/seed1', 'perm'), (other, 'perm'),
  ]


def test_another_variant_in_the_folder(tmp_path):
  _search(tmp_path)
  made_runs.write(str(tmp_path / 'perm' / 'trial0001' / 'y'), 'perm', 5)
  runs = [results.read_run(f) for f in results.find_runs(str(tmp_path))]
  kept = folder_data.without_trials(runs, folder_data.find([str(tmp_path)]))
  assert [run.config['flags']['seed'] for run in kept] == [0, 1]


def test_what_was_chosen_is_a_table(tmp_path):
  _search(tmp_path)
  (section,) = _sections(tmp_path)
  assert section['table']['rows'] == [
      ['perm', 1, 0.5, 'perm[lambda=2]'], ['ditto', None, None, None]
  ]


@pytest.mark.parametrize('name, text', [
    ('choice.csv', 'algo,accuracy_test\nperm,0.5\n'),
    ('choice.csv', 'algo,accuracy_test,low,high,recommended\nperm,a,0,1,1\n'),
    ('best.json', '{"perm": {"trial": 1}}'),
    ('best.json', '[1]'),
    ('best.json', '{"perm'),
])
def test_a_damaged_table_is_named(name, text, tmp_path):
  (tmp_path / name).write_text(text)
  with pytest.raises(ValueError, match=f'`{tmp_path / name}` must be a table'):
    _sections(tmp_path)
