"""A disk that is full at any byte: a sentence that fits, and nothing lost.

The kernel refuses to let any file grow beyond a limit, as a full disk would.
"""

import contextlib
import resource
import shutil

import pytest

from binaries import evaluate
from binaries import predict
from binaries import train
from tests import csv_rows
from tff_pers.evaluation import results

_SENTENCES = (
    'Files must stay readable and writable until a program ends, found File too'
    ' large (', 'cannot be read or written', '`--output` must be a file that can',
)
# Where something is written: the configuration, a checkpoint, a model, plots.
_SIZES = (0, 1, 700, 2000, 3500, 20_000, 50_000, 100_000, 120_000, 200_000)


@contextlib.contextmanager
def _limit(size):
  _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def _train(folder, *flags):
  return train.main([
      'train', '--task=csv', f'--data_dir={folder.parent}/mine.csv',
      '--algo=apfl', '--rounds=4', '--eval_every=2', '--model=mlp_200',
      '--apfl_learning_rate=0.1', '--export=saved_model', '--export_clients=b',
      f'--output_dir={folder}', '--quiet', *flags,
  ])


@pytest.fixture(scope='module', name='whole')
def _whole(tmp_path_factory):
  """Returns the folder of a run on a disk that is large enough."""
  folder = tmp_path_factory.mktemp('disk')
  rows = [f'{c},{row % 2},{row},{row % 3}' for c in 'abc' for row in range(12)]
  (folder / 'mine.csv').write_text('client,y,u,v\n' + '\n'.join(rows))
  assert _train(folder / 'run') == 0
  return folder / 'run'


def _results(folder):
  rows = csv_rows.read(folder / 'metrics.csv')
  for row in rows:
    del row['seconds']
  return rows, (folder / 'clients.csv').read_text()


def _check(error, folder):
  assert error.count('\n') == 1 and any(s in error for s in _SENTENCES), error
  assert 'restore' not in error
  is_kept = 'The last good checkpoint is' in error
  assert is_kept or 'There is no checkpoint yet.' in error, error
  if is_kept:
    assert (folder / 'checkpoint.sqlite').exists()


@pytest.mark.parametrize('size', _SIZES)
def test_training_goes_on_when_there_is_room(size, whole, tmp_path, capsys):
  shutil.copy(whole.parent / 'mine.csv', tmp_path)
  capsys.readouterr()
  with _limit(size):
    code = _train(tmp_path / 'run')
  if code:
    _check(capsys.readouterr().err, tmp_path / 'run')
  assert bool(code) == (size < max(
      path.stat().st_size for path in whole.rglob('*') if path.is_file()
  ))
  assert _train(tmp_path / 'run') == 0
  assert _results(tmp_path / 'run') == _results(whole)


@pytest.mark.slow
@pytest.mark.parametrize('size', _SIZES)
def test_evaluation_and_prediction_do_too(size, whole, tmp_path, capsys):
  shutil.copytree(whole, tmp_path / 'run')
  for main, flags in (
      (evaluate.main, ['--export=saved_model', '--export_clients=b']),
      (predict.main, ['--client=b']),
  ):
    argv = [
        'x', f'--run={tmp_path}/run', f'--data_dir={whole.parent}/mine.csv',
        *flags,
    ]
    capsys.readouterr()
    with _limit(size):
      code = main(argv)
    if code:
      error = capsys.readouterr().err
      assert error.count('\n') == 1, error
      assert any(sentence in error for sentence in _SENTENCES), error
    assert main(argv) == 0
  assert (tmp_path / 'run/evaluation/clients.csv').exists()


@pytest.mark.parametrize('name', ['write_config', 'write_clients'])
def test_a_folder_that_vanishes_is_named(name, tmp_path, capsys, monkeypatch):
  """Before the first checkpoint, and after the last."""
  write = getattr(results, name)
  def vanish(folder, rows):
    write(folder, rows)
    shutil.rmtree(folder)
  monkeypatch.setattr(results, name, vanish)
  assert train.main([
      'train', '--algo=fedavg', '--rounds=1', '--num_clients=4', '--quiet',
      f'--output_dir={tmp_path}/run',
  ]) == 1
  error = capsys.readouterr().err
  assert error.endswith(f'Its folder was deleted: {tmp_path}/run.\n'), error
