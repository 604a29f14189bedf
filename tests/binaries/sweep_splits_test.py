"""`sweep_splits`: two rounds on `digits`."""

import pytest

from binaries import sweep_splits
from tests import csv_rows
from tff_pers.experiments import runner

TINY = [
    '--num_clients=4', '--partition=iid', '--rounds=2', '--eval_every=2',
    '--model=mlp_20', '--algo=fedper',
]


def _sweep(folder, *argv):
  return sweep_splits.main(
      ['sweep_splits', *TINY, *argv, f'--output_dir={folder}']
  )


@pytest.mark.slow
def test_splits_are_ordered_by_their_share_and_finished_runs_are_kept(
    tmp_path, monkeypatch, capsys
):
  argv = ['--splits=output_layer,bias', '--fedper_local_steps=2']
  assert _sweep(tmp_path, *argv) == 0
  rows = csv_rows.read(tmp_path / 'splits.csv')
  # 64-20-10: 20 + 10 biases, 21 times 10 in the last layer.
  size = 65 * 20 + 21 * 10
  assert [row['split'] for row in rows] == [
      'fedavg_finetuned', 'bias', 'output_layer', 'local_only'
  ]
  assert [float(row['private_share']) for row in rows] == pytest.approx(
      [0, 30 / size, 210 / size, 1]
  )
  accuracies = [float(row['accuracy_mean']) for row in rows]
  assert all(0 < value < 1 for value in accuracies)
  assert len(set(accuracies)) > 2
  assert (tmp_path / 'splits.png').exists()
  monkeypatch.setattr(runner, '_train', None)  # Nothing trains again.
  assert _sweep(tmp_path, *argv) == 0
  assert 'holds a finished run' in capsys.readouterr().out
