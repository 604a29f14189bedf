"""`compare_tuned`: two rounds on `digits`."""

import pytest

from binaries import compare_tuned
from tests import csv_rows
from tff_pers.data import brackets
from tff_pers.evaluation import results
from tff_pers.experiments import experiment
from tff_pers.experiments import runner
from tff_pers.experiments import sweep
from tff_pers.experiments import tuned_sweep
from tff_pers.simulation import non_finite

_read = csv_rows.read

TINY = [
    '--num_clients=6', '--partition=iid', '--train_fraction=0.1', '--rounds=2',
    '--eval_every=2',
]


def _tune(folder, *argv):
  return compare_tuned.main(
      ['compare_tuned', *TINY, *argv, f'--output_dir={folder}']
  )


# Of the comparison that tests below share; its grid grows.
ARGV = ['--algos=fedavg', '--grid=learning_rate:0.01,0.1', '--extensions=1']


@pytest.fixture(scope='module', name='whole')
def _whole(tmp_path_factory):
  """The folder of a comparison that nothing disturbed."""
  folder = tmp_path_factory.mktemp('whole')
  assert _tune(folder, *ARGV) == 0
  return folder


def test_the_chosen_value_is_run_on_all_seeds(tmp_path, trained, capsys):
  """The best step size is not that which diverges, nor one that hardly moves."""
  assert _tune(
      tmp_path, '--algos=fedavg[local_steps=9]', '--model=mlp_20',
      '--grid=learning_rate:1e-6,0.3,1e38', '--seeds=3,4',
      '--holdout_clients=2',
  ) == 0
  name = 'fedavg[local_steps=9,learning_rate={}]'.format
  assert trained == [
      (name('1e-6'), 3), (name('0.3'), 3), (name('1e38'), 3), (name('0.3'), 4)
  ]
  row, = _read(tmp_path / 'summary.csv')
  assert row['algo'] == 'fedavg[local_steps=9]' and row['seeds'] == '2'
  assert (row['learning_rate'], row['at_border']) == ('0.3', 'no')
  assert '1e38: nan' in row['validation']
  for column in ('accuracy', 'pooled_accuracy', 'new_pooled_accuracy'):
    assert 0.0 < float(row[f'{column}_mean']) <= 1.0
    assert float(row[f'{column}_std']) >= 0.0
  # Of what was chosen, the run of the first seed.
  drawn = [path.parent for path in tmp_path.glob('*/*/data.png')]
  assert drawn == [tmp_path / experiment.folder_name(name('0.3')) / 'seed3']
  trials = _read(tmp_path / 'trials.csv')
  assert [trial['chosen'] for trial in trials] == ['0', '1', '0']
  runs = _read(tmp_path / 'runs.csv')
  assert [run['seed'] for run in runs] == ['3', '4']
  shown = capsys.readouterr().out
  assert f'[4/4] {name("0.3")}, seed 4' in shown
  assert (tmp_path / 'summary.md').read_text() in shown


@pytest.mark.medium
def test_parallel_trials_are_those_of_one_process(tmp_path, whole):
  assert _tune(tmp_path, *ARGV, '--jobs=2') == 0
  for name in ('trials.csv', 'summary.csv'):
    assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_test_data_choose_nothing(tmp_path, monkeypatch, whole):
  """With other test labels, every score and every choice is the same."""
  build = experiment._build_task  # pylint: disable=protected-access
  def mislabelled(*args):
    task = build(*args)
    for data in task.test:
      data['examples']['y'] = (data['examples']['y'] + 1) % 10
    return task
  monkeypatch.setattr(experiment, '_build_task', mislabelled)
  assert _tune(tmp_path, *ARGV) == 0
  trials, summary = ('trials.csv', 'summary.csv')
  assert (tmp_path / trials).read_bytes() == (whole / trials).read_bytes()
  assert (tmp_path / summary).read_bytes() != (whole / summary).read_bytes()


@pytest.mark.slow
def test_a_value_that_diverges_with_a_later_seed_is_given_up(
    tmp_path, monkeypatch, capsys
):
  """The next best takes its place, with all seeds."""
  train = runner._train  # pylint: disable=protected-access
  def fragile(experiment_of_run, *args):
    large = '=0.3' in experiment_of_run.variant
    if large and experiment_of_run.flag('seed') == 4:
      raise non_finite.NonFiniteError(1, [0])
    return train(experiment_of_run, *args)
  monkeypatch.setattr(runner, '_train', fragile)
  argv = ['--algos=fedavg', '--grid=learning_rate:1e-6,0.3', '--seeds=3,4',
          '--extensions=0']
  assert _tune(tmp_path, *argv) == 0
  row, = _read(tmp_path / 'summary.csv')
  assert row['learning_rate'] == '1e-6'
  assert '0.3: nan' in row['validation']
  assert 0.0 < float(row['accuracy_mean']) <= 1.0
  runs = _read(tmp_path / 'runs.csv')
  assert [run['seed'] for run in runs] == ['3', '4']
  shown = capsys.readouterr().out
  assert 'fedavg: 0.3 diverged with a later seed' in shown
  assert '[4/4] fedavg[learning_rate=1e-6], seed 4' in shown


@pytest.mark.parametrize('argv', [
    ['--algos=fedavg[momentum=0.5]', '--grid=local_steps:2,4'],
    ['--algos=perm', '--grid=models:2,4'],
])
def test_a_grid_ends_where_a_method_cannot_be_built(
    tmp_path, monkeypatch, argv
):
  """Momentum needs two steps, and there are only six clients.

  The fewer steps the better, and the more models: the best is at an end.
  """
  asked = []
  def run(self, variant, seed, draw=None, place=None):
    del self, seed, draw, place
    asked.append(variant)
    number = lambda name: float(brackets.parse(variant)[1].get(name, 1))
    score = 1 / (number('local_steps') + 1 / number('models'))
    metrics = dict(accuracy_validation=[score], loss_validation=[1.0])
    return results.Run('', {}, metrics, {}, None, None, None)
  monkeypatch.setattr(sweep.Sweep, 'run', run)
  monkeypatch.setattr(tuned_sweep, '_write', lambda *args: '')
  assert _tune(tmp_path, *argv) == 0
  assert len(asked) == 2


def test_where_all_values_diverge_nothing_is_chosen(tmp_path, capsys):
  argv = ['--algos=fedavg', '--grid=learning_rate:1e38', '--model=mlp_20']
  assert _tune(tmp_path, *argv) == 1
  assert 'none, because all runs diverged' in capsys.readouterr().out
  row, = _read(tmp_path / 'summary.csv')
  assert (row['learning_rate'], row['at_border']) == ('', '')
  assert row['accuracy_mean'] == 'nan'
