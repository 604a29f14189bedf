"""Clients keep the names of the data: in files, messages, plots, exports."""

import csv
import os

import numpy as np
import pytest

from binaries import train
from tests import csv_rows
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags

_read = csv_rows.read

# Sorted; client number c has 4 + c examples in class 0 and 4 in class 1.
NAMES = ['"q"', '$5$', 'Smith, Ann', 'a/b', 'Åse', '王']


def _write(path, names=tuple(NAMES)):
  generator = np.random.default_rng(0)
  with open(path, 'w', encoding='utf-8', newline='') as file:
    writer = csv.writer(file)
    writer.writerow(['client', 'y', 'a', 'split'])
    for number, name in reversed(list(enumerate(names))):
      for row in range(8 + number):
        label = int(row < 4)
        writer.writerow([
            name, label, label + 0.1 * generator.standard_normal(),
            'test' if row in (0, 7) else 'train',
        ])


@pytest.fixture(name='run', scope='module')
def _run(tmp_path_factory):
  """Returns flags and folder of a run; two clients are held out."""
  folder = tmp_path_factory.mktemp('names')
  _write(folder / 'my.csv')
  argv = [
      '--task=csv', f'--data_dir={folder / "my.csv"}', '--rounds=3',
      '--eval_every=3', '--holdout_clients=2',
  ]
  code = train.main([
      'train', '--algo=fedavg', *argv, f'--output_dir={folder / "run"}',
      '--export_clients=a/b,"Smith, Ann"',
  ])
  assert code == 0
  np.save(folder / 'run' / results.MIXING, np.eye(4))
  return argv, str(folder / 'run')


def test_files_have_the_names_in_order_of_the_data(run):
  folder = run[1]
  rows = _read(os.path.join(folder, 'clients.csv'))
  assert [row['client'] for row in rows] == NAMES
  # Names belong to the right clients: these have as many training examples.
  assert [int(row['num_train']) for row in rows] == [6, 7, 8, 9, 10, 11]
  trained = [row['client'] for row in rows if row['seen'] == '1']
  assert len(trained) == 4
  data = _read(os.path.join(folder, 'data.csv'))
  assert [row['client'] for row in data] == trained
  assert [int(row['0']) for row in data] == [
      3 + NAMES.index(name) for name in trained
  ]
  read = results.read_run(folder)
  assert read.clients['client'].tolist() == NAMES
  assert read.client_names.tolist() == trained


def test_exports_are_called_after_the_clients(run):
  assert sorted(os.listdir(os.path.join(run[1], 'export'))) == [
      'client_Smith%2C%20Ann.npz', 'client_a%2Fb.npz', 'export.json'
  ]


def test_held_out_and_unknown_names_are_not_exported(run, tmp_path, capsys):
  argv, folder = run
  seen = results.read_run(folder).clients['seen'] == 1
  held_out = np.array(NAMES)[~seen].tolist()
  for name in (held_out[0], '0'):
    text = name.replace('"', '""')
    assert train.main([
        'train', '--algo=fedavg', *argv, f'--output_dir={tmp_path / "new"}',
        f'--export_clients="{text}"',
    ]) == 2
    error = capsys.readouterr().err
    assert f'must be names of clients that train, found {name!r}' in error
  assert not (tmp_path / 'new').exists()


def test_plots_label_clients_by_name(run, saved):
  read = results.read_run(run[1])
  plots.plot_data(read, '')
  plots.plot_mixing(read, '')
  for picture in saved:
    axis = picture.axes[0].yaxis
    assert [label.get_text() for label in axis.get_ticklabels()] == [
        name.replace('$', r'\$') for name in read.client_names
    ]


def test_names_of_an_experiment_follow_numbers_of_the_whole_task(run):
  given = flags.parse(['', *run[0], '--algo=fedavg'], _TABLE)
  experiment = experiment_lib.build(given, _TABLE)
  everybody = [*experiment.clients, *experiment.unseen_clients]
  assert experiment.names(everybody) == [NAMES[number] for number in everybody]
  assert list(experiment.task.client_names) == experiment.names(everybody)


_TABLE = flags.all_flags(flags.own_flag('algo', 'perm', 'Method.'))


def test_numbers_in_the_data_are_names_too(tmp_path, capsys):
  """Subject 14 is not "client 1"."""
  _write(tmp_path / 'my.csv', names=['9', '14', '30'])
  folder = tmp_path / 'run'
  assert train.main([
      'train', '--algo=local_only', '--task=csv', '--rounds=1',
      f'--data_dir={tmp_path / "my.csv"}', '--export_clients=14',
      f'--output_dir={folder}',
  ]) == 0
  read = results.read_run(str(folder))
  np.testing.assert_array_equal(read.clients['client'], [9, 14, 30])
  assert read.clients['client'].dtype == np.int64
  assert sorted(os.listdir(folder / 'export')) == [
      'client_14.npz', 'export.json'
  ]
  words = [line.split() for line in capsys.readouterr().out.splitlines()]
  [head] = [row for row, line in enumerate(words) if line[:1] == ['client']]
  assert [line[0] for line in words[head + 1:head + 4]] == ['9', '14', '30']
