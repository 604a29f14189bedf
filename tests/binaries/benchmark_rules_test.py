"""The benchmark of rules runs and prints its table."""

import pytest

from binaries import benchmark_rules


@pytest.mark.slow
def test_prints_a_row_per_rule(capsys):
  assert benchmark_rules.main([
      'benchmark_rules', '--clients=10', '--parameters=50', '--repetitions=1',
      '--rules=median,nnm(krum)',
  ]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert [line.split(' | ')[0] for line in lines[2:]] == [
      '| median', '| nnm(krum)'
  ]
