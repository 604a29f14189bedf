"""The benchmark of rules runs and prints its table."""

import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _run(*arguments):
  return subprocess.run(
      [sys.executable, '-m', 'binaries.benchmark_rules', *arguments],
      cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
      timeout=300, check=False,
  )


@pytest.mark.slow
def test_prints_a_row_per_rule():
  result = _run(
      '--clients=10', '--parameters=50', '--repetitions=1',
      '--rules=median,nnm(krum)',
  )
  rows = [line.split(' | ')[0] for line in result.stdout.splitlines()[2:]]
  assert rows == ['| median', '| nnm(krum)'], result.stderr


def test_a_wrong_rule_is_one_sentence():
  result = _run('--rules=krumm')
  assert result.returncode == 2
  assert 'krumm' in result.stderr and 'Traceback' not in result.stderr
