"""The example of the README is a method (docs_test.py: its snippets run)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def _example() -> str:
  """Returns the code block of the section "You build your own"."""
  text = (ROOT / 'README.md').read_text()
  section = text[text.index('## You build your own'):]
  return re.search(r'```python\n(.*?)```', section, re.DOTALL).group(1)


@pytest.fixture(scope='module', name='checkout')
def _checkout(tmp_path_factory):
  """A copy of the packages with one more file, the example."""
  folder = tmp_path_factory.mktemp('checkout')
  for package in ('tff_pers', 'baselines', 'binaries'):
    shutil.copytree(
        ROOT / package, folder / package,
        ignore=shutil.ignore_patterns('__pycache__'),
    )
  (folder / 'baselines' / 'my_prox.py').write_text(_example())
  return folder


def _run(checkout, program, *arguments):
  return subprocess.run(
      [sys.executable, '-m', f'binaries.{program}', *arguments], cwd=checkout,
      env={**os.environ, 'PYTHONPATH': str(checkout)}, capture_output=True,
      text=True, timeout=300, check=False,
  )


def test_one_file_is_a_method_of_all_programs(checkout):
  """It pulls: with mu = 0 it is FedAvg, with a large mu it hardly moves."""
  done = _run(
      checkout, 'compare', '--task=digits', '--num_clients=4', '--rounds=2',
      '--partition=iid', '--algos=fedavg,my_prox[mu=0],my_prox[mu=3]',
      '--output_dir=runs',
  )
  assert done.returncode == 0, done.stderr
  rows = (checkout / 'runs' / 'summary.csv').read_text().splitlines()
  accuracy = [float(row.split(',')[2]) for row in rows[1:]]
  assert accuracy[0] == accuracy[1] != accuracy[2]


def test_its_flags_are_in_the_help_and_are_checked(checkout):
  shown = _run(checkout, 'train', '--help', '--algo=my_prox')
  assert 'FedAvg with a proximal term' in shown.stdout
  assert '--my_prox_mu' in shown.stdout
  refused = _run(checkout, 'train', '--algo=my_prox', '--my_prox_mu=-1')
  assert refused.returncode == 2
  assert '`--my_prox_mu` must be a number >= 0.0' in refused.stderr
