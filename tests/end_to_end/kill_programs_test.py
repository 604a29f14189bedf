"""SIGKILL at a random time, then two processes at once: every other program.

`train` has its own test, and so have `tune` and `choose`. The tables must be
those of a command that nobody disturbed, and the second of two processes must
either wait for the first, or end with one sentence. All are marked slow.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from tests import csv_rows

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_SECONDS = 900
_DIGITS = [
    '--task=digits', '--num_clients=5', '--partition=iid',
    '--train_fraction=0.05', '--rounds=4', '--eval_every=1',
]
PROGRAMS = {
    'compare': ['compare', *_DIGITS, '--algos=fedavg,perm', '--seeds=0,1'],
    'compare_jobs': [
        'compare', *_DIGITS, '--algos=fedavg,perm', '--seeds=0,1', '--jobs=2'
    ],
    'compare_tuned': [
        'compare_tuned', *_DIGITS, '--algos=fedavg', '--seeds=0,1',
        '--grid=learning_rate:0.1,0.3', '--extensions=1',
    ],
    'sweep_splits': [
        'sweep_splits', *_DIGITS, '--model=mlp', '--algo=fedsim',
        '--splits=bias,output_layer',
    ],
    'robustness': [
        'robustness', *_DIGITS, '--algo=fedavg', '--num_byzantine=1',
        '--rules=mean,median', '--attacks=none,sign_flip',
    ],
    'pareto': ['pareto', '--figure=2'],
    'benchmark': [
        'benchmark', 'perm', '--parts=iid', '--algos=fedavg', '--seeds=0,1',
        '--grid=learning_rate:0.1,0.3', *_DIGITS[1:2], *_DIGITS[3:],
    ],
    'benchmark_ffgg': [
        'benchmark_ffgg', '--rounds=20', '--taus=2', '--cg_taus=2',
        '--tasks=overpersonalized',
    ],
    'benchmark_robustness': [
        'benchmark_robustness', '--parts=overpersonalized', '--rounds=3',
    ],
}
# Columns of times, which differ between two runs.
_TIMES = ('seconds', 'seconds_per_round', 'seconds_per_round_mean')


def _start(argv, folder):
  # A group of its own, so that its workers are not left behind.
  return subprocess.Popen(
      [sys.executable, '-m', f'binaries.{argv[0]}', *argv[1:],
       f'--output_dir={folder}'],
      cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
      stderr=subprocess.PIPE, text=True, start_new_session=True,
  )


def _wait(child):
  """Returns the exit code and the errors of a process that does not hang."""
  try:
    errors = child.communicate(timeout=_SECONDS)[1]
  finally:
    child.kill()
  return child.returncode, errors


def _tables(folder):
  """Returns the rows of all tables by path, without times."""
  found = {}
  for path in sorted(folder.rglob('*.csv')):
    found[str(path.relative_to(folder))] = [
        {k: v for k, v in row.items() if k not in _TIMES}
        for row in csv_rows.read(path)
    ]
  return found


@pytest.mark.slow
@pytest.mark.parametrize('name', PROGRAMS)
def test_nothing_is_lost(name, tmp_path):
  argv, generator = PROGRAMS[name], random.Random(name)
  started = time.monotonic()
  code, errors = _wait(_start(argv, tmp_path / 'whole'))
  took = time.monotonic() - started
  assert code == 0, errors
  whole = _tables(tmp_path / 'whole')
  assert whole
  folder = tmp_path / 'killed'
  for share in sorted(generator.uniform(0.3, 1.0) for _ in range(2)):
    child = _start(argv, folder)
    try:
      child.wait(share * took)
    except subprocess.TimeoutExpired:
      os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
  both = [_start(argv, folder) for _ in range(2)]
  ends = [_wait(child) for child in both]
  assert 0 in [code for code, _ in ends], ends
  for code, errors in ends:
    assert code in (0, 2), errors
    if code:
      assert errors.count('no other process') == 1, errors
  assert _tables(folder) == whole
