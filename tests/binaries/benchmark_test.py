"""The benchmarks run and print their tables."""

import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize('program, rows', [
    ('benchmark_round', ['fedavg', 'perm_two_stage', 'perm_single_loop']),
    ('benchmark_memory', ['two_stage', 'single_loop']),
])
def test_prints_a_row_per_measurement(program, rows):
  output = subprocess.run(
      [
          sys.executable, '-m', f'binaries.{program}', '--clients=3',
          '--rounds=1',
      ],
      cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=600,
  ).stdout
  for row in rows:
    assert f'| {row} |' in output
