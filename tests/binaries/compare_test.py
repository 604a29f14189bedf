"""`compare` and `plot`: two rounds, two methods."""

import os

from binaries import compare
from binaries import plot
from tests import csv_rows
from tff_pers.evaluation import comparison


_read = csv_rows.read

TINY = [
    '--num_clients=4', '--partition=iid', '--train_fraction=0.05', '--rounds=2',
    '--eval_every=2',
]


def _compare(folder, *argv):
  return compare.main(['compare', *argv, *TINY, f'--output_dir={folder}'])


def test_tables_plots_and_no_run_twice(tmp_path, trained, capsys):
  """The files of a comparison and their columns."""
  argv = ['--algos=fedavg,local_only,fedavg[learning_rate=0.01]']
  assert _compare(tmp_path, *argv) == 0
  assert trained == [
      ('fedavg', 0), ('local_only', 0), ('fedavg[learning_rate=0.01]', 0)
  ]
  rows = _read(tmp_path / 'summary.csv')
  assert tuple(rows[0]) == comparison.SUMMARY_COLUMNS
  assert [row['algo'] for row in rows] == [key[0] for key in trained]
  assert rows[0]['share_hurt_vs_fedavg'] == '0.0'
  assert 0.0 <= float(rows[2]['share_hurt_vs_local']) <= 1.0
  assert float(rows[0]['bytes_up_per_client_round']) == 650 * 4
  assert float(rows[1]['bytes_up_per_client_round']) == 0.0
  assert tuple(_read(tmp_path / 'runs.csv')[0]) == comparison.RUN_COLUMNS
  markdown = (tmp_path / 'summary.md').read_text()
  assert markdown in capsys.readouterr().out
  for name in ('curves.png', 'curves.svg', 'clients.png', 'clients.svg'):
    assert (tmp_path / name).exists()
  assert sorted(name for name in os.listdir(tmp_path) if os.path.isdir(
      tmp_path / name)) == ['fedavg', 'fedavg-learning_rate=0.01', 'local_only']
  trained.clear()
  assert _compare(tmp_path, '--algos=fedavg', '--seeds=0,1') == 0
  assert trained == [('fedavg', 1)]
  assert len(_read(tmp_path / 'runs.csv')) == 2
  # Runs of the first seed have the plots that a comparison does not have.
  drawn = [
      {path.name for path in (tmp_path / f'fedavg/seed{seed}').glob('*.png')}
      for seed in (0, 1)
  ]
  assert drawn == [{'data.png'}, set()]
  # The runs of a comparison must not differ in what was not said.
  assert _compare(tmp_path, '--algos=fedavg', '--fedavg_local_steps=3') == 2
  assert '`--fedavg_local_steps` must be 10' in capsys.readouterr().err
  figures = tmp_path / 'figures'
  assert plot.main(
      ['plot', f'--runs={tmp_path / "fedavg"}', f'--output_dir={figures}']
  ) == 0
  assert sorted(os.listdir(figures)) == [
      'clients.png', 'clients.svg', 'curves.png', 'curves.svg'
  ]


def test_runs_side_by_side_are_those_of_one_process(tmp_path):
  """Bit-identical, and one that diverges does not stop the others."""
  argv = ['--algos=fedavg,fedavg[learning_rate=1e38]']
  rows = []
  for jobs in (1, 2):
    folder = tmp_path / str(jobs)
    assert _compare(folder, *argv, f'--jobs={jobs}') == 1
    rows.append([
        (row['algo'], row['seed'], row['accuracy'], row['loss'])
        for row in _read(folder / 'runs.csv')
    ])
  assert rows[0] == rows[1] and len(rows[0]) == 2


def test_a_run_that_ends_in_nan_is_a_row_and_exit_code_1(tmp_path, capsys):
  argv = ['--algos=fedavg[learning_rate=1e38],local_only']
  assert _compare(tmp_path, *argv) == 1
  rows = _read(tmp_path / 'summary.csv')
  assert rows[0]['accuracy_mean'] == 'nan' and rows[0]['loss_mean'] == 'nan'
  assert float(rows[1]['accuracy_mean']) > 0.0
  assert _read(tmp_path / 'runs.csv')[0]['accuracy'] == 'nan'
  assert 'NaN or infinity in round' in capsys.readouterr().err
