"""`binaries.gpu_check`, with a second logical CPU in place of a GPU."""

import json
import sys

import numpy as np
import pytest

from binaries import gpu_check
from binaries.speed import gpu_check as checking
from tests import csv_rows


def _rows(folder):
  return csv_rows.read(folder / 'methods.csv')


def test_a_method_is_right_there(tmp_path):
  code = gpu_check.main([
      'gpu_check', '--device=stand_in', '--parts=methods', '--methods=fedsgd',
      '--workloads=none', '--jobs=2', f'--output_dir={tmp_path}',
  ])
  [row] = _rows(tmp_path)
  assert code == 0 and row['name'] == 'fedsgd' and not row['error']
  assert row['is_right'] == row['repeats'] == 'True'
  # As on a GPU: the four clients run together; on the CPU in a loop.
  assert int(row['vectorized']) > 0
  assert float(row['difference']) < 1e-5
  assert 'in place of a GPU' in (tmp_path / 'gpu_report.md').read_text()


@pytest.mark.parametrize('seen, expected', [
    (dict(repeats=True), 'True'), (dict(repeats=False), 'True'),
    (dict(error='UnimplementedError: no kernel'), 'False'), (None, 'False'),
])
def test_what_is_wrong_is_said(tmp_path, monkeypatch, capsys, seen, expected):
  """A child that records, one that says why not, and one that dies."""
  record = checking.record

  def play(where, folder, names):
    del names
    if seen is None and where != 'cpu':
      with monkeypatch.context() as patch:
        patch.setattr(sys, 'executable', '/bin/false')
        record(where, folder, ['fedavg'])
      assert 'exit code 1' in (folder / 'fedavg.json').read_text()
    else:
      content = {} if where == 'cpu' else seen
      (folder / 'fedavg.json').write_text(json.dumps(content))
    np.savez(folder / 'fedavg.npz', a=np.ones([3]))

  monkeypatch.setattr(checking, 'record', play)
  code = gpu_check.main([
      'gpu_check', '--device=stand_in', '--parts=methods', '--methods=fedavg',
      '--workloads=none', f'--output_dir={tmp_path}',
  ])
  [row] = _rows(tmp_path)
  assert row['is_right'] == expected
  assert code == (0 if seen == dict(repeats=True) else 1)
  assert (row['error'] != '') == (expected == 'False')
  assert '| fedavg' in capsys.readouterr().out


@pytest.mark.parametrize('moved, sensitivity, is_right', [
    (0.0, 0.0, True), (2e-4, 0.0, False), (2e-4, 3e-5, True),
    (float('nan'), 0.0, False),
])
def test_margin(tmp_path, moved, sensitivity, is_right):
  for name, shift in (('gpu', moved), ('cpu', 0.0)):
    folder = tmp_path / name
    folder.mkdir()
    (folder / 'W1.json').write_text(
        json.dumps(dict(repeats=True, sensitivity=sensitivity))
    )
    np.savez(folder / 'W1.npz', a=np.ones([3]) * (1 + shift), b=np.ones([2]))
  row = checking.row('W1', tmp_path / 'gpu', tmp_path / 'cpu')
  assert row['is_right'] == is_right
