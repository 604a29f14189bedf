"""The benchmarks run and print their tables."""

import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _run(program, *argv):
  return subprocess.run(
      [sys.executable, '-m', f'binaries.{program}', *argv], cwd=_ROOT,
      check=True, stdout=subprocess.PIPE, text=True, timeout=600,
  ).stdout


@pytest.mark.slow
@pytest.mark.parametrize('program, rows', [
    ('benchmark_round', [
        'fedavg', 'perm_two_stage', 'perm_single_loop', 'perfedavg', 'pfedme',
    ]),
    (
        'benchmark_round --clients_per_round=2',
        ['fedavg', 'perm[models=3]', 'perm'],
    ),
    ('benchmark_memory', ['two_stage', 'single_loop']),
    ('benchmark_collecting', ['sum', 'collect']),
])
def test_prints_a_row_per_measurement(program, rows):
  output = _run(*program.split(), '--clients=3', '--rounds=1')
  for row in rows:
    assert f'| {row} |' in output


@pytest.mark.slow
def test_merged_inference_has_the_operations_of_the_plain_model():
  """Merged inference costs exactly as much as the plain model's."""
  output = _run('benchmark_adaptors', '--repetitions=1', '--epochs=1')
  rows = [line.split('|')[1:4] for line in output.splitlines()[2:]]
  operations = {(row[0].strip(), row[1].strip()): int(row[2]) for row in rows}
  for workload in ('W1', 'W2'):
    plain = operations[workload, 'plain inference']
    for budget in ('1%', '10%'):
      assert operations[workload, f'merged inference, {budget}'] == plain
      assert operations[workload, f'inference not merged, {budget}'] > plain
      assert (workload, f'FLoRAL step, {budget}') in operations


@pytest.mark.slow
def test_a_step_of_a_tier_is_smaller_than_one_of_the_full_model():
  """FedHM's sizes and products; how long they take is for people to read."""
  output = _run('benchmark_tiers', '--models=mlp', '--repetitions=1')
  rows = [line.split('|')[2:] for line in output.splitlines()[2:6]]
  # 784 x 200 and 200 x 10 stay full; 200 x 200 is cut at 50, 25 and 12.
  full = 784 * 200 + 200 + 200 + 200 * 10 + 10
  sizes = [full + 200 * 200] + [full + 400 * rank for rank in (50, 25, 12)]
  assert [float(row[0]) for row in rows] == [1, 0.25, 0.125, 0.0625]
  assert [int(row[1]) for row in rows] == sizes
  assert [int(row[2]) for row in rows] == [size - 410 for size in sizes]
  assert 'mlp: the decompositions of a round take' in output


@pytest.mark.slow
def test_populations_of_all_sizes_are_measured():
  output = _run(
      'benchmark_population', '--clients=12,30', '--clients_per_round=4',
      '--rounds=3', '--eval_clients=20',
  )
  rows = [line.split('|')[1:-1] for line in output.splitlines()[4:]]
  assert [row[0].strip() for row in rows] == ['12', '30']
  for row in rows:
    numbers = [float(cell.strip().rstrip('%')) for cell in row[1:]]
    assert all(number >= 0.0 for number in numbers) and numbers[2] > 0.0
