"""`choose`: damaged files, which methods fit, how time is dealt."""

from binaries import choose
from tests.binaries import fake_training
from tff_pers.experiments import choice
from tff_pers.experiments import choice_plan
from tff_pers.experiments import sweep


def _choose(folder, *argv):
  return choose.main([
      'choose', *fake_training.FLAGS, f'--output_dir={folder}', *argv,
  ])


def test_a_damaged_file_is_named(tmp_path, monkeypatch, capsys):
  fake_training.Training(monkeypatch)
  argv = '--algos=fedavg', '--budget=15s', '--seeds=0'
  assert _choose(tmp_path, *argv) == 0
  capsys.readouterr()
  for name in ('plan.json', 'clock.json', 'choose.json'):
    for damage in ('{', '[]', '{"seconds": "a"}'):
      whole = (tmp_path / name).read_text()
      (tmp_path / name).write_text(damage)
      assert _choose(tmp_path, *argv) == 2
      error = capsys.readouterr().err
      assert name in error and error.count('\n') == 1, error
      (tmp_path / name).write_text(whole)


def _fitting(folder, **given):
  made = sweep.Sweep('choose', dict(given, task='digits'), str(folder))
  first, _ = made.prepare('local_only', 0)
  # pylint: disable-next=protected-access
  return choice._fitting(first.task, choice.DEFAULT_ALGOS)


def test_methods_that_do_not_fit_the_task_are_left_out(tmp_path):
  """A model of one layer cannot be split."""
  every = list(choice.DEFAULT_ALGOS)
  assert _fitting(tmp_path, num_clients=6, model='mlp') == every
  assert _fitting(tmp_path, num_clients=6) == [
      name for name in every if name != 'fedper'
  ]


def test_time_is_dealt_to_searches_and_seeds():
  """Four methods of 10 s on two workers: a seed more takes 1.2 times 20 s."""
  assert choice_plan.makespan([10.0] * 4, 2) == 20
  assert choice_plan.makespan([30.0, 10.0, 10.0, 10.0], 2) == 30
  assert choice_plan.plan([10.0] * 4, 240.0, 2, 3) == ((240 - 48) / 2, 3)
  assert choice_plan.plan([10.0] * 4, 90.0, 2, 3) == ((90 - 24) / 2, 2)
  assert choice_plan.plan([10.0] * 4, 40.0, 2, 3) == (20.0, 1)
  assert choice_plan.plan([10.0] * 3, 0.0, 1, 3) == (0.0, 1)
  # All were too slow, or refused: the page then says so.
  assert choice_plan.plan([], 60.0, 2, 3) == (0.0, 1)
