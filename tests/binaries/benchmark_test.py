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


@pytest.mark.slow
def test_merged_inference_has_the_operations_of_the_plain_model():
  """Issue 5, must show 4: merged inference costs exactly the plain model's."""
  output = subprocess.run(
      [
          sys.executable, '-m', 'binaries.benchmark_adaptors',
          '--repetitions=1', '--epochs=1',
      ],
      cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=600,
  ).stdout
  rows = [line.split('|')[1:4] for line in output.splitlines()[2:]]
  operations = {(row[0].strip(), row[1].strip()): int(row[2]) for row in rows}
  for workload in ('W1', 'W2'):
    plain = operations[workload, 'plain inference']
    for budget in ('1%', '10%'):
      assert operations[workload, f'merged inference, {budget}'] == plain
      assert operations[workload, f'inference not merged, {budget}'] > plain
      assert (workload, f'FLoRAL step, {budget}') in operations
