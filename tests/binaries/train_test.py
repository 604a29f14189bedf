"""`train` from flags to files, in two rounds."""

import json
import os

import numpy as np
import pytest

from binaries import train
from tests import csv_rows
from tff_pers.evaluation import results
from tff_pers.experiments import runner
from tff_pers.runtime import errors
from tff_pers.runtime.fused import disk
from tff_pers.simulation import program
from tests.binaries import overflow
from tests.runtime import workers

_read = csv_rows.read

TINY = [
    '--num_clients=5', '--partition=iid', '--train_fraction=0.05', '--rounds=2',
    '--eval_every=1',
]


def _train(folder, *argv):
  return train.main(['train', *argv, *TINY, f'--output_dir={folder}'])


def _snapshot(folder):
  return {
      name: (os.stat(os.path.join(folder, name)).st_mtime_ns,
             open(os.path.join(folder, name), 'rb').read())
      for name in os.listdir(folder)
      if os.path.isfile(os.path.join(folder, name))
  }


def test_what_is_compiled_is_kept_in_the_folder_of_the_flag(
    tmp_path, monkeypatch
):
  monkeypatch.setenv(disk.VARIABLE, disk.OFF)  # Is put back in the end.
  kept, found = tmp_path / 'kept', []
  for name in ('one', 'two'):
    assert not _train(
        tmp_path / name, '--algo=fedavg', f'--compile_cache={kept}'
    )
    found.append(sorted(os.listdir(kept)))
  assert found[0] and found[0] == found[1]
  assert (tmp_path / 'one/clients.csv').read_bytes() == (
      tmp_path / 'two/clients.csv'
  ).read_bytes()


def test_the_global_model_is_evaluated_after_local_steps(tmp_path, capsys):
  folder = tmp_path / 'run'
  assert _train(
      folder, '--algo=fedavg', '--holdout_clients=2', '--finetune_steps=0,3',
      '--finetune_learning_rate=1e-30',
  ) == 0
  rows = _read(folder / 'finetuning.csv')
  assert [(row['seen'], row['steps']) for row in rows] == [
      ('1', '0'), ('1', '3'), ('0', '0'), ('0', '3')
  ]
  # The model of the last evaluated round, from which such steps do not lead.
  last = _read(folder / 'metrics.csv')[-1]
  assert float(rows[0]['loss_mean']) == pytest.approx(float(last['loss_mean']))
  assert rows[1]['loss_mean'] == rows[0]['loss_mean']
  assert (folder / 'finetuning.png').exists()
  assert _train(
      tmp_path / 'own', '--algo=local_only', '--finetune_steps=0,3'
  ) == 0
  assert 'local_only has no global model' in capsys.readouterr().out
  assert not (tmp_path / 'own' / 'finetuning.csv').exists()
  assert _train(tmp_path / 'no', '--finetune_learning_rate=0.1') == 2
  assert 'left out without --finetune_steps' in capsys.readouterr().err


def test_two_rounds_write_all_results(tmp_path, capsys):
  """The names and columns of the result files."""
  folder = tmp_path / 'run'
  assert _train(
      folder, '--algo=apfl', '--holdout_clients=2',
      '--apfl_learning_rate=0.05',
  ) == 0
  config = json.loads((folder / 'config.json').read_text())
  assert config['flags']['algo'] == 'apfl' and config['seeds'] == {'run': 0}
  assert config['flags']['apfl_learning_rate'] == 0.05
  assert config['flags']['apfl_batch_size'] == 10  # The task's default.
  assert set(config['versions']) == {
      'python', 'tensorflow', 'tensorflow_federated', 'numpy', 'tff_pers'
  }
  rows = _read(folder / 'metrics.csv')
  assert [row['round'] for row in rows] == ['1', '2']
  assert list(rows[0])[:6] == [
      'round', 'seconds', 'train_loss', 'accuracy_mean', 'loss_mean',
      'accuracy_worst_decile',
  ]
  clients = _read(folder / 'clients.csv')
  assert [row['client'] for row in clients] == list('01234')
  assert sum(row['seen'] == '0' for row in clients) == 2
  seen = [float(row['accuracy']) for row in clients if row['seen'] == '1']
  np.testing.assert_allclose(
      float(rows[-1]['accuracy_mean']), np.mean(seen), rtol=1e-6
  )
  for name in ('curves', 'clients', 'data'):
    assert (folder / f'{name}.png').exists()
    assert (folder / f'{name}.svg').exists()
  assert any(name.startswith('events.out') for name in os.listdir(folder))
  out = capsys.readouterr().out
  assert '| accuracy ' in out and 'of held-out clients' in out
  assert f'Results are in {folder}. One page of them: python -m' in out


@pytest.mark.slow
def test_the_runtimes_agree_and_a_worker_may_die(tmp_path, monkeypatch):
  """Fused, native, and two workers of which one is killed before round 1."""
  def losses(*flags):
    folder = tmp_path / flags[0]
    assert _train(folder, '--algo=fedavg', *flags) == 0
    return [float(row['train_loss']) for row in _read(folder / 'metrics.csv')]

  fused, native = losses('--strategy=loop'), losses('--runtime=native')
  np.testing.assert_allclose(native, fused, rtol=1e-5)
  use = runner.use_runtime
  with workers.running(2) as started:
    monkeypatch.setattr(
        runner, 'use_runtime', lambda *args: (use(*args), started[0].stop())
    )
    addresses = ','.join(workers.addresses(started))
    remote = losses('--runtime=remote', f'--workers={addresses}')
  np.testing.assert_allclose(remote, fused, rtol=1e-5)


def test_resuming_a_finished_run_changes_nothing(tmp_path, capsys):
  folder = tmp_path / 'run'
  assert _train(folder, '--algo=fedavg') == 0
  before = _snapshot(folder)
  assert _train(folder, '--algo=fedavg', '--resume') == 0
  # What the flags were need not be said again.
  assert train.main(['train', '--resume', f'--output_dir={folder}']) == 0
  assert _snapshot(folder) == before
  assert 'holds a finished run' in capsys.readouterr().out
  assert _train(folder, '--algo=fedavg') == 0  # Without --resume, too.
  assert _snapshot(folder) == before


def test_resume_starts_where_there_is_no_checkpoint(tmp_path):
  folder = tmp_path / 'run'
  assert _train(folder, '--algo=fedavg', '--resume') == 0
  assert len(_read(folder / 'metrics.csv')) == 2


def test_nan_stops_with_round_client_and_checkpoint(
    tmp_path, capsys, monkeypatch
):
  """The loss is not finite."""
  path = tmp_path / 'data.csv'
  overflow.write(path, scale=1e15)
  folder = tmp_path / 'run'
  argv = [
      'train', '--task=csv', f'--data_dir={path}', '--csv_kind=regression',
      '--algo=fedavg', '--rounds=9', '--eval_every=1',
      '--fedavg_learning_rate=1', f'--output_dir={folder}',
  ]
  assert train.main(argv) == 1
  error = capsys.readouterr().err.strip()
  assert len(error.splitlines()) == 1
  assert 'NaN or infinity in round' in error and 'at client b.' in error
  assert 'checkpoint' in error
  assert not (folder / 'clients.csv').exists()
  # For reports: the sentence, as long as the run has not gone on.
  sentence = (folder / 'diverged.txt').read_text()
  assert sentence.startswith('The loss must stay finite') and (
      sentence.strip() in error
  )
  seen = []
  def go_on(*args, **unused_kwargs):
    seen.append((folder / 'diverged.txt').exists())
    raise errors.ComputationError('It stops here.')
  monkeypatch.setattr(program.TrainingProgram, 'run', go_on)
  assert train.main([*argv, '--resume']) == 1
  assert seen == [False]


def test_regression_has_empty_accuracies(tmp_path):
  """Columns of accuracy are empty on regression tasks."""
  path = tmp_path / 'data.csv'
  rows = [f'{c},{0.5 * x},{x}' for c in 'ab' for x in np.linspace(-1, 1, 9)]
  path.write_text('client,y,x0\n' + '\n'.join(rows) + '\n')
  folder = tmp_path / 'run'
  argv = [
      'train', '--task=csv', f'--data_dir={path}', '--algo=local_only',
      '--rounds=1', '--local_only_learning_rate=0.1', f'--output_dir={folder}',
  ]
  assert train.main(argv) == 0
  row = _read(folder / 'metrics.csv')[-1]
  assert row['accuracy_mean'] == '' and row['accuracy_worst_decile'] == ''
  assert float(row['loss_mean']) < 1.0
  assert _read(folder / 'clients.csv')[0]['accuracy'] == ''
  # Without classes, too, the plots know the names.
  run = results.read_run(str(folder))
  assert run.class_counts is None and run.client_names.tolist() == ['a', 'b']


def test_mixing_weights_are_saved_and_drawn(tmp_path):
  folder = tmp_path / 'run'
  assert _train(folder, '--algo=perm', '--perm_warmup_rounds=1') == 0
  mixing = results.read_run(str(folder)).mixing
  assert mixing.shape == (5, 5) and (folder / 'mixing.svg').exists()
  np.testing.assert_allclose(mixing.sum(1), 1.0, rtol=1e-5)


def test_models_of_clusters_are_told_drawn_and_scored(tmp_path, capsys):
  folder = tmp_path / 'run'
  argv = ['--algo=perm[models=2]', '--perm_warmup_rounds=1']
  assert _train(folder, *argv) == 0
  assert 'clients share 2 models; a model learns' in capsys.readouterr().out
  assert results.read_run(str(folder)).mixing.shape == (2, 5)
  assert (folder / 'mixing.svg').exists()
  row = _read(folder / 'metrics.csv')[-1]
  assert row['models_used'] == '2.0' and 'weights_self' not in row
