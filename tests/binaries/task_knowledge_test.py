"""From flags to files: validation, Byzantine clients, optimum, tiers, drops."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from binaries import compare
from binaries import train
from tests import csv_rows
from tests import problems
from tests.binaries import overflow
from tff_pers import composition
from tff_pers.client_works import local_sgd
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data.tasks import registry

from tff_pers.experiments import experiment
from tff_pers.simulation import store

_read = csv_rows.read

TINY = [
    '--num_clients=4', '--partition=iid', '--train_fraction=0.1', '--rounds=2',
    '--eval_every=1',
]
BYZANTINE = (1, 4)
pytestmark = pytest.mark.usefixtures('no_plots')


def _train(folder, *argv):
  return train.main(['train', *argv, f'--output_dir={folder}'])


def test_validation_part_from_flag_to_column(tmp_path):
  """The test set is the same with and without it, client by client."""
  argv = ['--algo=fedavg', '--task=digits', *TINY]
  assert _train(tmp_path / 'plain', *argv) == 0
  assert _train(tmp_path / 'both', *argv, '--validation_fraction=0.25') == 0
  plain, both = (
      _read(tmp_path / name / 'metrics.csv')[-1] for name in ('plain', 'both')
  )
  added = ['accuracy_validation', 'loss_validation']
  assert [name for name in both if name not in plain] == added
  assert 0.0 <= float(both['accuracy_validation']) <= 1.0
  assert float(both['loss_validation']) > 0.0
  clients = {
      name: _read(tmp_path / name / 'clients.csv') for name in ('plain', 'both')
  }
  for before, after in zip(clients['plain'], clients['both']):
    assert after['num_test'] == before['num_test']
    held = int(before['num_train']) - int(after['num_train'])
    assert held == round(0.25 * int(before['num_train']))


def test_a_run_older_than_a_flag_had_its_default(tmp_path, capsys):
  """compare checks that all flags are the same."""
  argv = ['compare', '--algos=fedavg', *TINY, f'--output_dir={tmp_path}']
  assert compare.main(argv) == 0
  path = tmp_path / 'fedavg' / 'seed0' / 'config.json'
  config = json.loads(path.read_text())
  for name in ('validation_fraction', 'on_non_finite'):
    del config['flags'][name]
  path.write_text(json.dumps(config))
  assert compare.main(argv) == 0
  assert compare.main([*argv, '--on_non_finite=drop']) == 2
  error = capsys.readouterr().err
  assert "`--on_non_finite` must be 'stop' as in config.json" in error


@pytest.fixture(name='quadratic')
def _quadratic(monkeypatch):
  """Registers the task `quadratic`: q6, clients 1 and 4 are Byzantine.

  Returns the fields of the task, to be changed by a test.
  """
  q6 = problems.q6()
  byzantine = np.isin(np.arange(6), BYZANTINE)
  shared = q6.minimizer(~byzantine / np.sum(~byzantine))
  fields = dict(
      byzantine=byzantine, optimum=(np.tile(shared, [6, 1]),), rounds=3,
      eval_every=1, global_test=q6.clients()[0],
  )

  def build(request, options):
    del request, options  # Unused.
    return problems.quadratic_task(q6, **fields)

  declares = registry.Declaration(
      classification=False, model='quadratic', num_clients=6, groups=False
  )
  family = registry.TaskFamily(
      'quadratic', registry.NoOptions, build, declares
  )
  entries = registry._TASKS._entries  # pylint: disable=protected-access
  monkeypatch.setitem(entries, 'quadratic', family)
  return fields


def test_byzantine_clients_are_no_rows(quadratic, tmp_path, capsys):
  """Held-out clients included: seed 0 holds out clients 3 and 4."""
  del quadratic  # Registered.
  argv = ['--task=quadratic', '--algo=fedavg', '--fedavg_local_steps=1']
  assert _train(tmp_path / 'all', *argv) == 0
  assert '6 clients (2 Byzantine)' in capsys.readouterr().out
  rows = _read(tmp_path / 'all' / 'clients.csv')
  assert [row['client'] for row in rows] == ['0', '2', '3', '5']
  metrics = _read(tmp_path / 'all' / 'metrics.csv')
  # Before the first step everybody has the initial model.
  q6 = problems.q6()
  np.testing.assert_allclose(
      float(metrics[0]['train_loss']),
      np.mean([q6.loss(i, q6.start) for i in (0, 2, 3, 5)]), rtol=1e-6,
  )
  np.testing.assert_allclose(
      float(metrics[-1]['loss_mean']),
      np.mean([float(row['loss']) for row in rows]), rtol=1e-6,
  )
  argv += ['--holdout_clients=2']
  assert _train(tmp_path / 'some', *argv) == 0
  rows = _read(tmp_path / 'some' / 'clients.csv')
  held = experiment.holdout.choose(6, 2, 0).tolist()
  assert any(client in BYZANTINE for client in held)  # Else not tested.
  assert [int(row['client']) for row in rows] == [0, 2, 3, 5]
  unseen = [int(row['client']) for row in rows if row['seen'] == '0']
  assert unseen == [client for client in held if client not in BYZANTINE]


def test_distance_is_to_the_row_of_the_client_itself(quadratic, tmp_path):
  """With a client held out, the positions of those that train move."""
  q6 = problems.q6()
  quadratic['optimum'] = (q6.centers,)
  argv = [
      '--task=quadratic', '--algo=local_only', '--local_only_local_steps=1',
      '--local_only_learning_rate=0.2', '--rounds=1', '--holdout_clients=2',
      '--local_only_batch_size=64',
  ]
  assert _train(tmp_path / 'run', *argv) == 0
  held = experiment.holdout.choose(6, 2, 0)
  clients = np.setdiff1d(np.arange(6), [*held, *BYZANTINE])
  apart = [
      np.linalg.norm(
          0.2 * q6.curvatures[i] @ q6.centers[i]
          - q6.centers[i]
      ) for i in clients
  ]
  [row] = _read(tmp_path / 'run' / 'metrics.csv')
  np.testing.assert_allclose(float(row['distance']), np.mean(apart), rtol=1e-6)


def test_floral_linear_has_a_distance(tmp_path):
  argv = [
      '--task=floral_linear', '--algo=floral', '--rounds=2', '--eval_every=1',
      '--num_clients=4',
  ]
  assert _train(tmp_path / 'run', *argv) == 0
  first, last = _read(tmp_path / 'run' / 'metrics.csv')
  assert 0.0 < float(last['distance']) < float(first['distance'])


@pytest.fixture(name='tiered')
def _tiered(monkeypatch):
  """Registers the method `tiered`: FedAvg, clipped, with a model of half w."""

  def build(task, hyperparameters):
    model = task.model
    half = lambda state: tf.nest.map_structure(lambda w: w / 2, state['weights'])
    return composition.compose(
        model,
        init=lambda seed: dict(weights=model.initial_weights(seed)),
        send=lambda state: dict(weights=state['weights']),
        work=local_sgd.build_local_sgd(model, hyperparameters, 'uniform'),
        aggregator=tff.aggregators.clipping_factory(
            0.25, tff.aggregators.MeanFactory()
        ),
        finalize=lambda state, update: dict(
            weights=local_sgd.difference(state['weights'], update)
        ),
        deploy=lambda message, own, data: message['weights'],
        client_model=lambda state, own, index: state['weights'],
        tiers={
            '1': composition.Tier(model, lambda state: state['weights']),
            '0.5': composition.Tier(model, half),
        },
    )

  method = methods.Method('tiered', hp.LocalTraining, build)
  entries = methods._METHODS._entries  # pylint: disable=protected-access
  monkeypatch.setitem(entries, 'tiered', method)


def test_tiers_are_written_and_merged(quadratic, tiered, tmp_path):
  """The columns of tiers.csv."""
  del tiered  # Registered.
  argv = [
      'compare', '--task=quadratic', '--algos=tiered', '--seeds=0,3',
      f'--output_dir={tmp_path}',
  ]
  assert compare.main(argv) == 0
  rows = _read(tmp_path / 'tiered' / 'seed3' / 'tiers.csv')
  names = ['algo', 'seed', 'round', 'tier', 'parameters', 'accuracy', 'loss']
  evaluated = [
      row['round'] for row in _read(tmp_path / 'tiered' / 'seed3' / 'metrics.csv')
  ]
  assert list(rows[0]) == names and len(evaluated) > 1
  assert [list(row.values())[:6] for row in rows] == [
      ['tiered', '3', number, tier, '5', '']
      for number in evaluated for tier in ('1', '0.5')
  ]
  # The common test set is that of client 0, who trained on the same examples.
  first = _read(tmp_path / 'tiered' / 'seed3' / 'clients.csv')[0]
  np.testing.assert_allclose(float(rows[-2]['loss']), float(first['loss']))
  assert rows[-1]['loss'] != rows[-2]['loss']
  merged = _read(tmp_path / 'tiers.csv')
  assert [(row['algo'], row['seed'], row['tier']) for row in merged] == [
      ('tiered', seed, tier) for seed in '03' for _ in evaluated
      for tier in ('1', '0.5')
  ]
  # Without a common test set it is those of all clients together.
  quadratic['global_test'] = None
  argv[2:4] = ['--algos=tiered[learning_rate=0.01]', '--seeds=0']
  assert compare.main(argv) == 0
  folder, = tmp_path.glob('tiered*0.01*/seed0')
  found = float(_read(folder / 'tiers.csv')[-2]['loss'])
  losses, sizes = zip(*[
      (float(row['loss']), int(row['num_test']))
      for row in _read(folder / 'clients.csv')
  ])
  np.testing.assert_allclose(
      found, np.average(losses, weights=sizes), rtol=1e-5
  )
  # Files of another comparison in the folder are not used for this one.
  argv[2:4] = ['--algos=fedavg', '--seeds=0']
  assert compare.main(argv) == 0
  assert not (tmp_path / 'tiers.csv').exists()
  assert not (tmp_path / 'fedavg' / 'seed0' / 'tiers.csv').exists()


@pytest.fixture(name='broken')
def _broken(tmp_path):
  """Returns flags of a task whose client b of three overflows."""
  path = tmp_path / 'data.csv'
  overflow.write(path, scale=1e25)
  return [
      '--task=csv', f'--data_dir={path}', '--csv_kind=regression',
      '--rounds=6', '--eval_every=1', '--clients_per_round=2',
      '--on_non_finite=drop', '--nostandardize',
  ]


SENTENCE = 'Dropped because of NaN or infinity: client b in {} rounds.'


def test_drop_goes_on_counts_and_lists(broken, tmp_path, capsys, monkeypatch):
  argv = ['--algo=fedavg', '--fedavg_learning_rate=0.1', *broken]
  assert _train(tmp_path / 'whole', *argv) == 0
  rows = _read(tmp_path / 'whole' / 'metrics.csv')
  counts = [int(row['dropped']) for row in rows]
  assert counts == sorted(counts) and 2 <= counts[-1] <= 6
  assert _read(tmp_path / 'whole' / 'dropped.csv') == [
      dict(client='b', rounds=str(counts[-1]))
  ]
  assert SENTENCE.format(counts[-1]) in capsys.readouterr().out
  # Interrupted after every round, the counts go on.
  commit = store.ClientStateStore.commit
  def full(self, server_state, at):
    if at['round'] == 4:
      raise OSError('No space left on device')
    commit(self, server_state, at)
  monkeypatch.setattr(store.ClientStateStore, 'commit', full)
  assert _train(tmp_path / 'parts', *argv) == 1
  monkeypatch.undo()
  assert _train(tmp_path / 'parts', *argv, '--resume') == 0
  for name in ('clients.csv', 'dropped.csv'):
    assert (tmp_path / 'parts' / name).read_bytes() == (
        tmp_path / 'whole' / name).read_bytes()
  assert [
      int(row['dropped']) for row in _read(tmp_path / 'parts' / 'metrics.csv')
  ] == counts
  capsys.readouterr()
  assert _train(tmp_path / 'whole', *argv, '--resume') == 0
  assert SENTENCE.format(counts[-1]) in capsys.readouterr().out


def test_nobody_left_is_no_silent_success(broken, tmp_path, capsys):
  argv = ['--algo=fedavg', '--fedavg_learning_rate=1e38', *broken]
  assert _train(tmp_path / 'run', *argv) == 1
  [line] = capsys.readouterr().err.strip().splitlines()
  assert 'A round must keep at least one honest client' in line
  assert 'checkpoint' in line
  assert not (tmp_path / 'run' / 'clients.csv').exists()
