"""`compare_tuned`: two rounds on `digits`."""

import math

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


@pytest.fixture(name='asked')
def _asked(monkeypatch):
  """The trials that are asked for, whose runs have the scores of a fake.

  The best rate of fedavg is far outside of any grid, that of local_only 0.4;
  the more steps the worse, and the more models the better.
  """
  asked = []
  def run(self, variant, seed, draw=None, place=None):
    del self, draw
    print(place.headline(variant, seed))
    asked.append((variant, seed))
    algo, options = brackets.parse(variant)
    number = lambda name: float(options.get(name, 1))
    best = dict(fedavg=1e9, local_only=0.4, perm=1)[algo]
    off = abs(math.log(number('learning_rate') / best))
    off += number('local_steps') + 1 / number('models')
    metrics = dict(accuracy_validation=[1 / (1 + off)], loss_validation=[1.0])
    return results.Run('', {}, metrics, {}, None, None, None)
  monkeypatch.setattr(sweep.Sweep, 'run', run)
  monkeypatch.setattr(tuned_sweep, '_write', lambda *args: '')
  return asked


def test_every_variant_has_a_trial_more_where_one_is_at_the_border(
    asked, tmp_path, capsys
):
  argv = ['--algos=fedavg,local_only', '--grid=learning_rate:0.1,0.3,1']
  assert _tune(tmp_path, *argv, '--seeds=5,6') == 0
  fedavg, local = (
      [variant.partition('learning_rate=')[2][:-1] for variant, seed in asked
       if variant.startswith(algo) and seed == 5]
      for algo in ('fedavg', 'local_only')
  )
  assert fedavg == ['0.1', '0.3', '1', '3.33', '11.1', '37']
  assert local[:4] == ['0.1', '0.3', '1', '0.548'] and len(local) == 6
  assert len(asked) == 14
  shown = capsys.readouterr().out
  assert '[14/14]' in shown and '37, at the border' in shown
  assert 'local_only: learning_rate 0.405\n' in shown


def test_grids_grow_as_often_as_asked_for(asked, tmp_path):
  argv = ['--algos=fedavg', '--grid=learning_rate:0.1,1']
  assert _tune(tmp_path, *argv, '--extensions=0') == 0
  assert len(asked) == 2
  assert _tune(tmp_path, *argv, '--extensions=1') == 0
  assert len(asked) == 2 + 3


@pytest.mark.parametrize('argv', [
    ['--algos=fedavg[momentum=0.5]', '--grid=local_steps:2,4'],
    ['--algos=perm', '--grid=models:2,4'],
])
def test_a_grid_ends_where_a_method_cannot_be_built(asked, tmp_path, argv):
  """Momentum needs two steps, and there are only six clients."""
  assert _tune(tmp_path, *argv) == 0
  assert len(asked) == 2


def test_where_all_values_diverge_nothing_is_chosen(tmp_path, capsys):
  argv = ['--algos=fedavg', '--grid=learning_rate:1e38', '--model=mlp_20']
  assert _tune(tmp_path, *argv) == 1
  assert 'none, because all runs diverged' in capsys.readouterr().out
  row, = _read(tmp_path / 'summary.csv')
  assert (row['learning_rate'], row['at_border']) == ('', '')
  assert row['accuracy_mean'] == 'nan'
