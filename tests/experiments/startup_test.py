"""`--help` is cheap: it does without TensorFlow, and says the same."""

import subprocess
import sys

import pytest

from binaries import choose
from binaries import compare
from binaries import cost
from binaries import report
from binaries import robustness
from binaries import train
from binaries import tune
from tff_pers.experiments import startup

_PROGRAMS = (choose, compare, cost, report, robustness, train, tune)

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


@pytest.mark.parametrize(
    'program', _PROGRAMS, ids=[p.__name__ for p in _PROGRAMS]
)
def test_help_is_the_same_without_tensorflow(program, capsys):
  name = program.__name__.rpartition('.')[2]
  done = subprocess.run(
      [sys.executable, '-c', _CODE.format(name=name)], capture_output=True,
      text=True, check=True, timeout=120,
  )
  assert done.stderr.split('\n')[0] == '0 []'
  assert program.main([name, '--help', '--algo=perm']) == 0
  assert done.stdout == capsys.readouterr().out


@pytest.mark.parametrize('argv, expected', [
    (['train', '--help'], True), (['train', '-h'], True),
    (['train', '--helpful'], False), (['train'], False),
])
def test_help_is_asked_for(argv, expected):
  assert startup.wants_help(argv) == expected
