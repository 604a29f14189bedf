"""A user's table: what is said, scaled, written; equal to by hand."""

import json

import numpy as np
import pytest

from binaries import train
from examples import hospitals
from tff_pers.data import tasks

from tff_pers.evaluation import results


pytestmark = pytest.mark.usefixtures('no_plots')

_GAP_FLAGS = ['--csv_missing=mean', '--csv_categories=one_hot']


@pytest.fixture(name='tables', scope='module')
def _tables(tmp_path_factory):
  """Returns flags of the tables, raw and scaled by hand, by name."""
  folder = tmp_path_factory.mktemp('tables')
  hospitals.write(folder)
  return {
      name: [
          f'--data_dir={folder / name}.csv',
          *(['--nostandardize'] if 'by_hand' in name else []),
          *(_GAP_FLAGS if name == 'gaps' else []),
      ] for name in ('raw', 'gaps', 'raw_by_hand', 'gaps_by_hand')
  }


def _train(folder, *argv):
  return train.main(['train', '--task=csv', *argv, f'--output_dir={folder}'])


@pytest.mark.parametrize('name', ['raw', 'gaps'])
def test_x_is_what_one_makes_by_hand(tables, name):
  """To a bit or two of float32: the file's numbers are rounded before."""
  built = []
  for which in (name, f'{name}_by_hand'):
    path = tables[which][0].split('=')[1]
    options = {'missing': 'mean', 'categories': 'one_hot'}
    built.append(tasks.get('csv').build(
        tasks.TaskRequest(
            data_dir=path, standardize=which == name
        ),
        tasks.get('csv').options(**options if name == 'gaps' else {}),
    ))
  order = np.argsort(_columns_by_hand(built[0].features.outputs))
  by_hand = np.argsort(built[1].features.outputs)
  for part in ('train', 'test'):
    for ours, theirs in zip(*(getattr(task, part) for task in built)):
      np.testing.assert_array_equal(
          ours['examples']['y'], theirs['examples']['y']
      )
      np.testing.assert_allclose(
          ours['examples']['x'][:, order], theirs['examples']['x'][:, by_hand],
          rtol=2e-6, atol=2e-6,
      )
  assert {'raw': 30, 'gaps': 34}[name] == len(order)


def _columns_by_hand(outputs):
  """Returns names of features as they are called in `_by_hand`."""
  return [
      f"no {name[:-len(' is missing')]}" if name.endswith(' is missing')
      else name.replace(' is ', ' ') for name in outputs
  ]


def test_what_was_made_of_the_columns_stays_with_the_run(
    tables, tmp_path, capsys
):
  folder = tmp_path / 'run'
  argv = ['--algo=local_only', *tables['gaps'], '--rounds=1']
  assert _train(folder, *argv) == 0
  assert (
      'Classification: 2 classes (0: 212, 1: 357 rows). 10 clients, 569 rows'
  ) in capsys.readouterr().out
  fitted = results.read_features(str(folder))
  assert fitted.texts == ['size']
  assert 'mean smoothness is missing' in fitted.outputs
  config = json.loads((folder / 'config.json').read_text())
  assert config['flags']['standardize'] is True
  # It is decided once.
  assert _train(folder, *argv, '--nostandardize', '--resume') == 2
  assert '`--standardize` must be True as in config.json' in (
      capsys.readouterr().err
  )


@pytest.fixture(name='hearts', scope='module')
def _hearts(tmp_path_factory):
  """Returns the path of a table with raw features and y 0.0 or 1.0."""
  path = tmp_path_factory.mktemp('hearts') / 'hearts.csv'
  generator = np.random.default_rng(0)
  age, chol = generator.normal(54, 9, 200), generator.normal(246, 50, 200)
  risk = (age - 54) / 9 + (chol - 246) / 50 + generator.normal(0, 1, 200)
  hospitals.write_csv(path, dict(
      client=np.arange(200) % 4, y=(risk > 0).astype(float), age=age, chol=chol
  ))
  return path


def test_other_names_of_clients_change_no_accuracy(tmp_path):
  columns = hospitals.raw()
  del columns['split']
  found = []
  for name in ('hospital ', 'a '):
    # In another order as texts, too.
    renamed = [
        name + client.split()[1] if name == 'hospital '
        else f'{name}{9 - int(client.split()[1])}'
        for client in columns['client']
    ]
    hospitals.write_csv(tmp_path / 'my.csv', {**columns, 'client': renamed})
    folder = tmp_path / name.strip()
    assert _train(
        folder, '--algo=local_only', f'--data_dir={tmp_path / "my.csv"}',
        '--rounds=3', '--local_only_batch_size=0',
    ) == 0
    clients = results.read_clients(str(folder))
    found.append({
        client: values for client, *values in zip(
            clients['client'], clients['loss'], clients['accuracy']
        )
    })
  for number in range(10):
    np.testing.assert_allclose(
        found[0][f'hospital {number}'], found[1][f'a {9 - number}'], rtol=1e-4
    )


def test_a_run_that_was_split_otherwise_does_not_go_on(
    hearts, tmp_path, capsys
):
  """Else it would be tested on rows that it was trained on."""
  argv = [f'--data_dir={hearts}', '--algo=fedavg', '--rounds=1']
  assert _train(tmp_path / 'run', *argv) == 0
  assert _train(tmp_path / 'run', *argv) == 0
  config = results.read_config(str(tmp_path / 'run'))
  assert config.pop('splits') == 'content'
  results.write_config(str(tmp_path / 'run'), config)
  capsys.readouterr()
  for folder, more in (
      ('run', []), ('run', ['--resume', '--rounds=2']),
      ('fork', [f'--fork={tmp_path / "run"}', '--rounds=2']),
  ):
    assert _train(tmp_path / folder, *argv[:-1], '--rounds=1', *more) == 2
    error = capsys.readouterr().err
    assert "but now they would be split by 'content'" in error


def test_labels_written_as_fractions_are_labels(hearts, tmp_path, capsys):
  argv = ['--algo=fedavg', f'--data_dir={hearts}', '--rounds=1']
  assert _train(tmp_path / 'labels', *argv) == 0
  output = capsys.readouterr().out
  assert 'Classification: 2 classes (0.0: 97, 1.0: 103 rows).' in output
  assert _train(tmp_path / 'numbers', *argv, '--csv_kind=regression') == 0
  output = capsys.readouterr().out
  assert 'Regression: y from 0 to 1. 4 clients' in output


def test_training_that_made_it_worse_is_said(hearts, tmp_path, capsys):
  argv = [
      '--algo=fedavg', f'--data_dir={hearts}', '--csv_kind=classification',
      '--rounds=2',
  ]
  assert _train(tmp_path / 'raw', *argv, '--nostandardize') == 0
  output = capsys.readouterr().out
  # Logistic regression starts from zero: its loss is log 2.
  assert 'is above that of the untrained model, 0.6931. Tip: scale' in output
  config = results.read_config(str(tmp_path / 'raw'))
  assert config['initial_loss'] == pytest.approx(np.log(2), rel=1e-6)
  assert _train(tmp_path / 'scaled', *argv) == 0
  assert 'untrained' not in capsys.readouterr().out
  # A step that is too large is not caused by the scale.
  assert _train(
      tmp_path / 'wild', *argv, '--fedavg_learning_rate=3000'
  ) == 0
  output = capsys.readouterr().out
  assert 'untrained model, 0.6931. Tip: lower the learning rate' in output
  # And at once.
  assert 'The training loss in round 1, ' in output
  assert 'too large. Tip: --fedavg_learning_rate=300.' in output


def test_divergence_of_raw_features_names_the_flag(hearts, tmp_path, capsys):
  argv = [
      '--algo=fedavg', f'--data_dir={hearts}', '--rounds=9',
      '--csv_kind=regression', '--fedavg_learning_rate=100',
  ]
  assert _train(tmp_path, *argv, '--nostandardize') == 1
  error = capsys.readouterr().err
  assert 'at client 0, 1, 2, 3. Tip: lower the learning rate. Or scale' in error
  # In round 1: there is nothing to start from.
  assert error.endswith('There is no checkpoint yet.\n')
