"""`--trials_dir`: what was trained once is not trained again."""

import dataclasses
import importlib
import os
import sys
import tempfile

import numpy as np
import pytest

from binaries import choose
from binaries import tune
from tests.binaries import fake_training
from tff_pers.evaluation import results
from tff_pers.experiments import kept_runs
from tff_pers.experiments import runner
from tff_pers.experiments import sweep


def _run(program, folder, *argv):
  name = program.__name__.rpartition('.')[2]
  return program.main([
      name, *fake_training.FLAGS, '--algos=fedavg,ditto', '--trials=3',
      '--seeds=0,1', f'--output_dir={folder}/{name}',
      f'--trials_dir={folder}/kept', *argv,
  ])


def test_choose_trains_nothing_that_tune_has_trained(tmp_path, monkeypatch):
  training = fake_training.Training(monkeypatch, seconds=5.0)
  assert _run(tune, tmp_path) == 0
  trained = len(training.trained)
  assert _run(choose, tmp_path) == 0
  assert len(training.trained) == trained
  trials = [
      fake_training.table(tmp_path / name, 'trials.csv')
      for name in ('tune', 'choose')
  ]
  for row in trials[0] + trials[1]:
    row.pop('seconds')
  complete = [row for row in trials[0] if row['state'] == 'complete']
  assert complete and trials[0] == trials[1]


def _experiment(**given):
  given = dict(dict(num_clients=4, rounds=2), **given)
  folder = os.path.join(tempfile.gettempdir(), 'none')  # Nothing is written.
  point = sweep.Sweep('tune', given, folder)
  return point.prepare('fedavg', 0)[0]


@pytest.fixture(name='key', scope='module')
def _key():
  return kept_runs.key(_experiment())


def test_places_are_not_in_the_key(key, tmp_path):
  assert kept_runs.key(_experiment(output_dir=str(tmp_path))) == key


@pytest.mark.parametrize('given', [
    dict(rounds=3), dict(fedavg_learning_rate=0.2), dict(model='mlp'),
])
def test_other_flags_have_another_key(key, given):
  assert kept_runs.key(_experiment(**given)) != key


@pytest.mark.parametrize('part', ['train', 'test'])
def test_other_data_have_another_key(key, part):
  experiment = _experiment()
  clients = list(getattr(experiment.task, part))
  x = np.array(clients[2]['examples']['x'])
  x[0, 0] += 1e-3
  clients[2] = dict(
      clients[2], examples=dict(clients[2]['examples'], x=x)
  )
  task = dataclasses.replace(experiment.task, **{part: clients})
  assert kept_runs.key(dataclasses.replace(experiment, task=task)) != key


def test_other_code_has_another_key(key, tmp_path, monkeypatch):
  """That of a module that only a plug-in imports counts as well."""
  module = tmp_path / 'my_losses.py'
  module.write_text('SCALE = 1\n')
  monkeypatch.syspath_prepend(tmp_path)
  importlib.import_module('my_losses')
  keys = [key]
  for text in ('SCALE = 1\n', 'SCALE = 22\n'):
    module.write_text(text)
    kept_runs._code.cache_clear()  # pylint: disable=protected-access
    keys.append(kept_runs.key(_experiment()))
  assert len(set(keys)) == 3
  monkeypatch.delitem(sys.modules, 'my_losses')
  kept_runs._code.cache_clear()  # pylint: disable=protected-access
  assert kept_runs.key(_experiment()) == key


def test_a_run_that_stopped_is_not_kept(tmp_path):
  experiment = _experiment()
  folder, kept = tmp_path / 'run', tmp_path / 'kept'
  folder.mkdir()
  with pytest.raises(KeyboardInterrupt):
    with kept_runs.shared(experiment, str(folder), str(kept)):
      raise KeyboardInterrupt
  assert not kept.exists()
  with pytest.raises(runner.Diverged):
    with kept_runs.shared(experiment, str(folder), str(kept)) as keyed:
      results.write_config(str(folder), keyed.config)
      raise runner.Diverged('round 1')
  assert [path.name for path in kept.iterdir()] == [kept_runs.key(experiment)]


def test_a_run_of_other_code_is_not_kept(tmp_path):
  """It was begun without a key, or with the key of what the code was then."""
  experiment, folder = _experiment(), str(tmp_path / 'run')
  for config in (experiment.config, {**experiment.config, 'trial_key': 'old'}):
    results.write_config(folder, config)
    with kept_runs.shared(experiment, folder, str(tmp_path / 'kept')):
      pass  # It is finished already.
    assert not (tmp_path / 'kept').exists()


def test_other_delays_have_another_key(tmp_path):
  trace = tmp_path / 'delays.csv'
  keys = set()
  for seconds in (1, 2):
    trace.write_text('client,compute_seconds,network_seconds\n' + ''.join(
        f'{client},{seconds * (client + 1)},0\n' for client in range(4)
    ))
    keys.add(kept_runs.key(_experiment(
        driver='events', delays=f'trace[file={trace}]'
    )))
  assert len(keys) == 2


def test_other_code_of_a_package_without_a_file_has_another_key(
    tmp_path, monkeypatch
):
  (tmp_path / 'my_space').mkdir()
  module = tmp_path / 'my_space' / 'my_method.py'
  monkeypatch.syspath_prepend(tmp_path)
  module.write_text('')
  importlib.import_module('my_space.my_method')
  keys = set()
  for text in ('', 'RATE = 1'):
    module.write_text(text)
    kept_runs._code.cache_clear()  # pylint: disable=protected-access
    # pylint: disable-next=protected-access
    keys.add(kept_runs._code(frozenset(['my_space.my_method'])))
  assert len(keys) == 2
