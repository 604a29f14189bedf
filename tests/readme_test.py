"""The README: its example is a method, its snippets run, its flags exist."""

import importlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from binaries import flags

ROOT = pathlib.Path(__file__).resolve().parents[1]


def _example() -> str:
  """Returns the code block of the section "Add a method"."""
  text = (ROOT / 'README.md').read_text()
  section = text[text.index('## Add a method'):]
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


def _snippets() -> list[str]:
  """Returns the code blocks of the README but for the example of a method."""
  text = (ROOT / 'README.md').read_text()
  found = re.findall(r'```python\n(.*?)```', text, re.DOTALL)
  return [code for code in found if code != _example()]


def test_every_snippet_runs(tmp_path):
  """One after the other, as somebody who reads the page would type them."""
  code = '\n'.join(_snippets())
  assert 'mine.npz' in code and 'build_perm' in code and 'runtime.use' in code
  done = subprocess.run(
      [sys.executable, '-c', f'{code}\nassert output["state"]["round"] == 1'],
      cwd=tmp_path, env={**os.environ, 'PYTHONPATH': str(ROOT)},
      capture_output=True, text=True, timeout=300, check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  assert (tmp_path / 'mine.npz').exists()


def _commands():
  text = (ROOT / 'README.md').read_text()
  lines = re.findall(r'^    python -m binaries\.(.*?)(?:  +#.*)?$', text, re.M)
  return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize('words', _commands(), ids=' '.join)
def test_every_command_has_flags_that_exist(words):
  """Their values are read, too; nothing is trained."""
  name, *arguments = words
  program = importlib.import_module(f'binaries.{name}')
  table = getattr(program, 'flag_table', flags.all_flags)
  if name in (
      'evaluate', 'report', 'robustness', 'cost', 'benchmark_emnist',
      'benchmark_perm',
  ):
    shown = _run(ROOT, name, '--help')
    assert shown.returncode == 0 and shown.stdout
    for word in arguments:
      assert re.search(rf'{word.split("=")[0]}\b', shown.stdout), word
    return
  arguments = [word for word in arguments if word != '--help']
  own = {'algo', 'algos', 'grid', 'seeds', 'trials', 'budget'}
  known = [
      word for word in arguments if word[2:].split('=')[0] not in own
      or word[2:].split('=')[0] in table()
  ]
  assert flags.parse(['', *known], table()) or not known
