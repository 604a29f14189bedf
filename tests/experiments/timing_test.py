"""Programs of events: one clock for all, one small comparison."""

import numpy as np
import pytest

from binaries import compare
from tests import csv_rows
from tests.evaluation import made_runs
from tff_pers.evaluation import results
from tff_pers.experiments import events
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.experiments import timing

TABLE = flags.all_flags(flags.own_flag('algo', 'fedavg', 'The method.'))


def _build(**given):
  return experiment_lib.build({'task': 'overpersonalized', **given}, TABLE)


@pytest.mark.parametrize('variants, given, delays', [
    (['fedavg', 'fedasync'], {}, events.DEFAULT_DELAYS),
    (['fedavg', 'fedavg[driver=events]'], {}, events.DEFAULT_DELAYS),
    (['fedavg', 'fedasync'], dict(delays='constant'), 'constant'),
    (['fedavg', 'fedasync[driver=rounds]'], {}, None),
    (['fedavg'], dict(driver='events'), events.DEFAULT_DELAYS),
    (['fedavg', 'perm'], {}, None),
])
def test_rounds_have_a_clock_beside_events(variants, given, delays):
  assert timing.on_one_clock(given, variants).get('delays') == delays


@pytest.mark.parametrize('text', ['a', '0', '-1', 'inf', '0.5,x'])
def test_bad_targets_are_refused(text):
  with pytest.raises(flags.UsageError, match='`--targets` must be numbers'):
    timing.parse_targets(text)
  assert timing.parse_targets('0.5,2') == [0.5, 2.0]


def test_defaults_of_the_task_of_the_theory():
  """3000 updates, speeds 1 to 10 times Exp(1), five at work."""
  experiment = _build(algo='async_ffgg')
  task, schedule = experiment.task, experiment.plan.schedule
  assert (task.rounds, task.eval_every, schedule.in_flight) == (3000, 100, 5)
  assert task.arrivals.max_delay == schedule.max_delay(3000)
  assert experiment.hyperparameters.tuner == 'exact'
  seconds = schedule.arrives_at - schedule.sent_at
  means = [seconds[schedule.client == client].mean() for client in (0, 19)]
  np.testing.assert_allclose(means, [1, 10], rtol=0.3)


def test_a_run_of_events_has_the_messages_of_the_rounds():
  experiment = _build(algo='fedbuff[buffer_size=4]', task='digits')
  rounds = _build(algo='fedavg', task='digits').task
  task = experiment.task
  assert task.rounds * 4 == rounds.rounds * 20
  assert experiment.plan.schedule.messages_per_update == 4
  given = _build(algo='fedavg[driver=events,rounds=7,eval_every=3]')
  assert (given.task.rounds, given.task.eval_every) == (7, 3)
  assert given.plan.schedule.num_updates >= 7


def test_rounds_of_a_comparison_are_numbers_of_messages():
  """In brackets they count the updates of their own method."""
  def counted(algo):
    experiment = experiment_lib.build(
        dict(algo=algo, task='digits', rounds=6, eval_every=3), TABLE,
        brackets_win=True,
    )
    alone = experiment_lib.build(experiment.config['given'], TABLE)
    for one in (experiment, alone):
      yield one.task.rounds, one.task.eval_every, one.flag('rounds')
  for algo, expected in (
      ('fedavg', (6, 3, 6)), ('fedasync', (120, 60, 120)),
      ('fedbuff[buffer_size=10]', (12, 6, 12)),
      ('fedbuff[buffer_size=10,rounds=7,eval_every=2]', (7, 2, 7)),
  ):
    assert list(counted(algo)) == [expected, expected]


@pytest.mark.parametrize('driver', ['rounds', 'events'])
def test_events_keep_kernels_dense(driver):
  """Messages under way are in checkpoints, with no examples of clients."""
  experiment = _build(
      algo=f'fedavg[driver={driver},local_steps=1]', task='digits',
      model='mlp_200',
  )
  names = processes.build(experiment).kernel_names
  assert bool(names) == (driver == 'rounds')


def test_rounds_have_a_clock_only_with_delays():
  assert _build(algo='fedavg').plan == events.Plan()
  plan = _build(algo='fedavg', delays='constant[slow=3]').plan
  assert plan.schedule is None and plan.clock.time_of(2) == 6.0


def test_flags_of_events_are_no_error_beside_rounds_in_a_comparison():
  given = dict(task='digits', algo='fedavg', in_flight=3)
  experiment_lib.build(given, TABLE, brackets_win=True)
  with pytest.raises(flags.UsageError, match='`--in_flight` must be left out'):
    experiment_lib.build(given, TABLE)


def test_diverged_seeds_are_not_in_the_table_and_are_named(tmp_path):
  path = made_runs.write(
      str(tmp_path / 'run'), columns=dict(virtual_time=[2.0, 4.0, 6.0])
  )
  runs = {('fedavg', 0): results.read_run(path), ('fedavg', 1): None}
  text = timing.write(str(tmp_path), runs, [0.5])
  assert text.endswith('\n\nDiverged, and not in this table: fedavg with seed 1.')
  row, = csv_rows.read(tmp_path / timing.CSV)
  assert (row['seeds'], row['reached']) == ('1', '1')
  del runs['fedavg', 1]
  assert 'iverged' not in timing.write(str(tmp_path), runs, [0.5])


def test_a_comparison_has_one_table_of_times(tmp_path, capsys):
  assert compare.main([
      'compare', '--task=digits', '--algos=fedavg,fedasync[rounds=8]',
      '--rounds=2', '--eval_every=2', '--num_clients=4', '--train_fraction=0.1',
      '--partition=iid', '--targets=0.01,2', f'--output_dir={tmp_path}',
  ]) == 0
  assert 'Virtual time:' in capsys.readouterr().out
  rows = csv_rows.read(tmp_path / timing.CSV)
  assert [(row['algo'], row['target'], row['reached']) for row in rows] == [
      ('fedavg', '0.01', '1'), ('fedasync[rounds=8]', '0.01', '1'),
      ('fedavg', '2.0', '0'), ('fedasync[rounds=8]', '2.0', '0'),
  ]
  assert (tmp_path / 'virtual_time.png').exists()
  path = tmp_path / 'fedasync-rounds=8' / 'seed0' / 'metrics.csv'
  last = csv_rows.read(path)[-1]
  assert (last['round'], last['version'], last['in_flight']) == ('8', '8', '1')
  assert float(rows[1]['virtual_time']) > 0
