"""`tune`: bad flags, other flags in its folder, damaged files, help."""

import pytest

from binaries import tune
from tests.binaries import fake_training


def _tune(folder, *argv):
  return tune.main([
      'tune', *fake_training.FLAGS, '--algos=fedavg,local_only',
      f'--output_dir={folder}', *argv,
  ])


@pytest.mark.parametrize('argv, words', [
    (['--budget=20x'], '`--budget` must be a number > 0 with a unit'),
    (['--budget=0m'], '`--budget` must be a number > 0 with a unit'),
    (['--trials=0'], '`--trials` must be an integer >= 1, found 0'),
    (['--trials=many'], '`--trials` must be'),
    (['--trials=3', '--budget=20m'], '`--trials` must be left out with --budget'),
    (['--algos=fedavgg'], 'fedavgg'),
    (['--algos='], '`--algos` must be one or more distinct'),
    (['--algos=fedavg,fedavg'], '`--algos` must be one or more distinct'),
    (['--seeds=1,1'], '`--seeds` must be distinct'),
    (['--validation_fraction=0'], '`--validation_fraction` must be a number > 0'),
    (['--ditto_lambda=1'], '--ditto_lambda'),
    (['--seed=1'], '`--seed` is not a flag'),
    (['--jobs=-1'], '`--jobs` must be an integer >= 0'),
    (['--task=csv'], '`--data_dir`'),
])
def test_bad_flags_are_a_sentence(argv, words, tmp_path, capsys):
  folder = tmp_path / 'none'
  assert _tune(folder, *argv) == 2
  error = capsys.readouterr().err
  assert words in error and error.count('\n') == 1, error
  assert error.startswith('tune: ') and not folder.exists()


def test_other_flags_in_a_folder_are_refused(tmp_path, monkeypatch, capsys):
  fake_training.Training(monkeypatch)
  assert _tune(tmp_path, '--trials=2', '--seeds=0') == 0
  capsys.readouterr()
  for argv, words in (
      (['--trials=2', '--seeds=1'], '--seeds'),
      (['--trials=1', '--seeds=0'], '--trials'),
      (['--trials=2', '--seeds=0', '--rounds=5'], '--rounds'),
      (['--budget=2m', '--seeds=0'], '--budget'),
  ):
    assert _tune(tmp_path, *argv) == 2
    error = capsys.readouterr().err
    assert words in error and error.count('\n') == 1


@pytest.mark.parametrize('name, damage', [
    ('fedavg/study.journal', 'no journal\n'),
    ('fedavg/study.journal', '{"op_code": 0}\n'),
    ('fedavg/study.journal', '{"op_code": 77, "worker_id": "a"}\n'),
    ('tune.json', '{'),
    ('tune.json', '[]'),
])
def test_a_damaged_file_is_named_in_a_sentence(
    name, damage, tmp_path, monkeypatch, capsys
):
  fake_training.Training(monkeypatch)
  assert _tune(tmp_path, '--trials=2', '--seeds=0') == 0
  (tmp_path / name).write_text(damage)
  capsys.readouterr()
  assert _tune(tmp_path, '--trials=2', '--seeds=0') == 2
  error = capsys.readouterr().err
  assert str(tmp_path / name) in error and error.count('\n') == 1, error


def test_help_names_what_it_writes(capsys):
  assert tune.main(['tune', '--help']) == 0
  shown = capsys.readouterr().out
  for name in ('trials.csv', 'best.json', '--budget', '--trials'):
    assert name in shown
