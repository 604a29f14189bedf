"""Wrong inputs: one sentence, exit code 2, nothing written."""

import importlib
import os
import pathlib
import re
import sys

import pytest

from tests.binaries import bad_files
from tests.binaries import wrong_tables

# Those that write nothing.
_WITHOUT_OUTPUT = (
    'benchmark', 'benchmark_events', 'benchmark_rules', 'check_orderings',
    'plot', 'predict', 'report', 'worker',
)
_SHORT = dict(
    tiny='train --algo=fedavg --num_clients=4 --partition=iid'
    ' --train_fraction=0.1',
    tune='tune --algos=fedavg --num_clients=4 --partition=iid',
    choose='choose --algos=fedavg,local_only --num_clients=4 --partition=iid',
    private='train --num_clients=6 --partition=iid --rounds=1'
    ' --dp_noise_multiplier=2',
    digits='9' * 5000, python=sys.executable,
)
_TEXT = pathlib.Path(__file__).with_name('wrong_inputs.txt').read_text('utf-8')
_ALL = [
    *(line.split(' => ') for line in _TEXT.splitlines() if ' => ' in line),
    *wrong_tables.TABLES.values(),
]


@pytest.fixture(scope='module', name='files')
def _files(tmp_path_factory):
  folder = tmp_path_factory.mktemp('files')
  bad_files.write(folder)
  return folder


def _snapshot(folder):
  return {
      path: (status.st_size, status.st_mtime_ns)
      for top, _, names in os.walk(folder) for name in names
      for path in [os.path.join(top, name)]
      for status in [os.stat(path)]
  }


@pytest.mark.parametrize('typed, message', _ALL, ids=[case[0] for case in _ALL])
def test_wrong_input_is_one_sentence(typed, message, files, tmp_path, capsys):
  output = tmp_path / 'output'
  program, *argv = typed.format(f=files, **_SHORT).split(' ')
  if program not in _WITHOUT_OUTPUT and '--output_dir' not in typed:
    argv.append(f'--output_dir={output}')
  before = _snapshot(files)
  main = importlib.import_module(f'binaries.{program}').main
  assert main([program, *argv]) == 2
  lines = capsys.readouterr().err.strip().splitlines()
  assert len(lines) == 1, lines
  # A benchmark has a name.
  assert re.match(rf'{program}( \w+)?: ', lines[0]) and message in lines[0]
  assert lines[0][-1] in '.?)' and 'Traceback' not in lines[0]
  assert not output.exists() and _snapshot(files) == before
