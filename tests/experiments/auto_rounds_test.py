"""`--rounds=auto` and default rounds of users' data, by the programs."""

import math
import types

import numpy as np
import pytest

from binaries import train
from tests import csv_rows

from tff_pers.evaluation import results
from tff_pers.evaluation import stopping
from tff_pers.experiments import auto_rounds
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import runner

pytestmark = pytest.mark.usefixtures('no_plots')

_TABLE = flags.all_flags(flags.own_flag('algo', '', 'Method.'))


def _write(path, num_clients, rows_each=20):
  """Writes clients whose labels are noise beside one good feature."""
  generator = np.random.default_rng(0)
  x = generator.normal(size=(num_clients * rows_each, 3))
  y = (x[:, 0] + generator.normal(size=len(x)) > 0).astype(np.int32)
  np.savez(
      path, x=x.astype(np.float32), y=y,
      client=np.repeat(np.arange(num_clients), rows_each),
  )
  return str(path)


@pytest.fixture(name='data', scope='module')
def _data(tmp_path_factory):
  return _write(tmp_path_factory.mktemp('data') / 'noise.npz', 4)


def _build(data, algo='fedavg', **given):
  return experiment_lib.build(
      dict(algo=algo, task='npz', data_dir=data, **given), _TABLE
  )


def _train(data, folder, *argv):
  return train.main([
      'train', '--algo=fedavg', '--task=npz', f'--data_dir={data}',
      '--rounds=auto', '--eval_every=2', '--patience=2',
      f'--output_dir={folder}', *argv,
  ])


def _rows(folder):
  """Returns the rows of metrics without the seconds."""
  return [
      {k: v for k, v in row.items() if k != 'seconds'}
      for row in csv_rows.read(folder / 'metrics.csv')
  ]


def test_choices_have_validation_data():
  """Of the programs that choose, `--rounds=auto` is one."""
  experiment = experiment_lib.build(
      dict(algo='fedavg', rounds='auto', num_clients=4), _TABLE
  )
  assert experiment.flag('validation_fraction') == 0.2
  assert experiment.task.validation
  own = experiment_lib.build(
      dict(algo='fedavg', rounds='auto', validation_fraction=0.5), _TABLE
  )
  assert own.flag('validation_fraction') == 0.5
  assert not experiment_lib.build(dict(algo='fedavg'), _TABLE).task.validation


def test_the_upper_bound_follows_from_the_default(data):
  fixed = _build(data)
  assert fixed.stopping is None and fixed.task.rounds == 100
  auto = _build(data, rounds='auto')
  assert auto.flag('rounds') == 'auto'
  assert auto.flag('max_rounds') == auto.task.rounds == 500
  assert auto.stopping == stopping.Rule('accuracy', 5)
  # PERM's first models are those of FedAvg.
  perm = _build(data, 'perm', rounds='auto', patience=3)
  assert perm.task.rounds == 510
  assert perm.stopping.patience == 3 and perm.stopping.cadence.first == 10
  assert _build(data, rounds='auto', max_rounds=7).task.rounds == 7
  assert _build(
      data, rounds='auto', npz_kind='regression'
  ).stopping.metric == 'rmse'


def _regression(**metrics):
  """Returns what decides on the metric of a task."""
  return types.SimpleNamespace(
      name='mine', num_classes=0, metrics=metrics, fits_rounds=False,
      model=types.SimpleNamespace(
          has_one_label=True, metrics=dict(top_2=np.dot), states={}
      ),
  )


@pytest.mark.parametrize('name', [
    'loss', 'num_test', 'num_validation', 'f1', 'majority', 'rmse', 'top_2',
    'mean_squared_error',
])
def test_raises_on_a_metric_with_the_name_of_a_column(name):
  with pytest.raises(flags.UsageError, match=f'has, found {name!r}'):
    auto_rounds.metric(_regression(**{name: np.dot}), 'auto')


def test_a_message_lists_each_metric_once():
  with pytest.raises(
      flags.UsageError, match='one of auto, loss, mae, rmse, r2, own on this'
  ):
    auto_rounds.metric(_regression(own=np.dot), 'auc')


def test_ends_of_epochs_are_evaluated(data):
  shuffled = dict(algo='perm[schedule=permutation]', rounds='auto')
  assert _build(data, **shuffled).task.eval_every == 2
  assert _build(data, **shuffled, eval_every=1).task.eval_every == 1
  assert _build(data, 'perm', rounds='auto').task.eval_every == 10
  with pytest.raises(flags.UsageError, match='must divide 2 with'):
    _build(data, **shuffled, eval_every=4)


def test_rounds_fit_the_clients_and_their_examples(tmp_path):
  many = _write(tmp_path / 'many.npz', 40)
  assert _build(many).task.rounds == 200
  assert _build(many, clients_per_round=20).task.rounds == 400
  assert _build(many, rounds=7).task.rounds == 7
  # 80 examples of which a client visits 4 in a round.
  large = _write(tmp_path / 'large.npz', 2, rows_each=100)
  assert _build(
      large, fedavg_batch_size=2, fedavg_local_steps=2
  ).task.rounds == 400
  assert _build(large, rounds='auto').task.rounds == 500


def test_ends_when_validation_data_say_so(data, tmp_path, capsys):
  assert _train(data, tmp_path / 'run') == 0
  output = capsys.readouterr().out
  rows = _rows(tmp_path / 'run')
  watch = stopping.Watch(stopping.Rule('accuracy', 2))
  ends = [
      watch({k: float(v or math.nan) for k, v in row.items()}) for row in rows
  ]
  assert ends == [False] * (len(rows) - 1) + [True]
  last = int(rows[-1]['round'])
  assert last < 500 and 'at most 500 rounds.' in output
  assert f'fedavg: {watch.sentence(last)}' in output
  # The clients' rows are those of the last round, too.
  run = results.read_run(str(tmp_path / 'run'))
  assert np.mean(run.clients['accuracy']) == pytest.approx(
      run.metrics['accuracy_mean'][-1]
  )
  assert _train(data, tmp_path / 'run', '--resume') == 0
  assert 'holds a finished run' in capsys.readouterr().out
  # As many rounds by hand are the same run.
  assert train.main([
      'train', '--algo=fedavg', '--task=npz', f'--data_dir={data}',
      f'--rounds={last}', '--validation_fraction=0.2', '--eval_every=2',
      f'--output_dir={tmp_path / "fixed"}',
  ]) == 0
  assert _rows(tmp_path / 'fixed') == rows


def test_a_resumed_run_ends_in_the_same_round(
    data, tmp_path, monkeypatch, capsys
):
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  assert _train(data, whole) == 0

  see = stopping.Watch.__call__
  def interrupted(watch, row):
    if row['round'] == 4:
      raise KeyboardInterrupt
    return see(watch, row)

  with monkeypatch.context() as patch:
    patch.setattr(stopping.Watch, '__call__', interrupted)
    assert _train(data, parts) == 130

  def full(*_):
    raise OSError('no space left')

  with monkeypatch.context() as patch:
    patch.setattr(runner, '_write_clients', full)
    assert _train(data, parts, '--resume') == 1
  rows = _rows(parts)
  assert rows == _rows(whole)
  # It is over, only its results are missing.
  assert _train(data, parts, '--resume') == 0
  assert _rows(parts) == rows
  assert (parts / 'clients.csv').read_text() == (
      (whole / 'clients.csv').read_text()
  )
  assert capsys.readouterr().out.count('fedavg: Ended after round') == 3


def test_a_larger_bound_goes_on_and_a_fork_may_have_its_rounds(
    data, tmp_path, capsys
):
  run = tmp_path / 'run'
  # Patience is not yet at its end.
  assert _train(data, run, '--max_rounds=4', '--patience=9') == 0
  assert 'Ended at --max_rounds=4: ' in capsys.readouterr().out
  # Not the rounds, whose validation data the run was started with.
  again = ['train', '--resume', f'--output_dir={run}']
  assert train.main([*again, '--rounds=8']) == 2
  assert "`--rounds` must be 'auto' as in" in capsys.readouterr().err
  assert train.main([*again, '--max_rounds=6']) == 0
  assert [row['round'] for row in _rows(run)] == ['2', '4', '6']
  config = results.read_config(str(run))
  assert config['flags']['max_rounds'] == config['given']['max_rounds'] == 6
  assert config['flags']['rounds'] == 'auto'
  assert train.main([
      'train', f'--fork={run}', '--rounds=8', f'--output_dir={tmp_path / "b"}'
  ]) == 0
  fork = results.read_config(str(tmp_path / 'b'))['flags']
  assert (fork['rounds'], fork['validation_fraction']) == (8, 0.2)
