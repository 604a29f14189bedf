"""`tune`: other flags in its folder, damaged files, help."""

import pytest

from binaries import tune
from tests.binaries import fake_training


def _tune(folder, *argv):
  return tune.main([
      'tune', *fake_training.FLAGS, '--algos=fedavg,local_only',
      f'--output_dir={folder}', *argv,
  ])


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
