"""`--help` is cheap: it does without TensorFlow, and says the same."""

import subprocess
import sys

import pytest

from binaries import benchmark
from binaries import benchmark_runtime
from binaries import choose
from binaries import compare
from binaries import cost
from binaries import gpu_check
from binaries import report
from binaries import robustness
from binaries import train
from binaries import tune
from tff_pers.experiments import startup

_PROGRAMS = {
    **{
        program.__name__.rpartition('.')[2]: program for program in (
            benchmark_runtime, choose, compare, cost, gpu_check, report,
            robustness, train, tune,
        )
    },
    # A script of a name of its own.
    'benchmark_emnist': benchmark,
}

# Runs a program for its help as from a shell, then says what was imported.
_CODE = """
import runpy, sys
sys.argv = [{name!r}, '--help', '--algo=perm']
try:
  runpy.run_module('binaries.{name}', run_name='__main__', alter_sys=True)
except SystemExit as end:
  found = {{'pandas', 'tensorflow', 'tensorflow_federated'}} & set(sys.modules)
  print(end.code, sorted(found), file=sys.stderr)
"""


def _help(name: str) -> str:
  done = subprocess.run(
      [sys.executable, '-c', _CODE.format(name=name)], capture_output=True,
      text=True, check=True, timeout=120,
  )
  assert done.stderr.split('\n')[0] == '0 []'
  return done.stdout


def test_help_needs_no_tensorflow():
  assert 'lambda_scale=10.0' in _help('train')


@pytest.mark.parametrize('name', _PROGRAMS)
def test_help_is_the_same_without_tensorflow(name, capsys):
  expected = _help(name)
  assert _PROGRAMS[name].main([name, '--help', '--algo=perm']) == 0
  assert capsys.readouterr().out == expected


@pytest.mark.parametrize('argv, expected', [
    (['train', '--help'], True), (['train', '-h'], True),
    (['train', '--helpful'], False), (['train'], False),
])
def test_help_is_asked_for(argv, expected):
  assert startup.wants_help(argv) == expected
