"""`subprocess_pool`: programs on cores of their own, and how they end."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tff_pers.experiments import subprocess_pool


@pytest.fixture(name='modules')
def _modules(tmp_path, monkeypatch):
  """Writes modules, by name, where programs find them."""
  monkeypatch.setattr(sys, 'path', [str(tmp_path), *sys.path])

  def write(**modules):
    for name, lines in modules.items():
      (tmp_path / f'{name}.py').write_text(lines)

  return write


def test_programs_run_to_their_end_whatever_becomes_of_others(modules, capsys):
  modules(
      good='import sys\nprint("a", *sys.argv[1:])\nprint("b")\n',
      bad='raise SystemExit(3)',
  )
  codes = subprocess_pool.run(
      dict(one=['bad'], two=['good', '--x=1'], three=['good']), 2
  )
  assert codes == dict(one=3, two=0, three=0)
  lines = capsys.readouterr().out.splitlines()
  assert [line for line in lines if line.startswith('two')] == [
      'two: a --x=1', 'two: b'
  ]
  assert sorted(lines)[:2] == ['three: a', 'three: b']


def test_cores_are_dealt(modules, capsys):
  """Programs at the same time have no core in common, while there are some."""
  modules(
      cores='import os, time\nprint(*os.sched_getaffinity(0))\n'
      'time.sleep(0.5)\n'
  )
  number = subprocess_pool.num_cores()
  subprocess_pool.run({str(i): ['cores'] for i in range(number)}, number)
  lines = capsys.readouterr().out.splitlines()
  found = [set(line.split(': ')[1].split()) for line in lines]
  assert sum(map(len, found)) == len(set().union(*found)) == number
  # One job alone has them all; more jobs than cores share.
  subprocess_pool.run(dict(a=['cores']), 1)
  assert len(capsys.readouterr().out.split(': ')[1].split()) == number
  subprocess_pool.run({str(i): ['cores'] for i in range(number + 1)}, number + 1)
  lines = capsys.readouterr().out.splitlines()
  assert all(len(line.split(': ')[1].split()) == 1 for line in lines)


def test_as_many_at_a_time_as_asked(modules, capsys):
  modules(
      clock='import time\nstart = time.time()\ntime.sleep(0.3)\n'
      'print(start, time.time())\n'
  )
  subprocess_pool.run({str(i): ['clock'] for i in range(3)}, 1)
  lines = capsys.readouterr().out.splitlines()
  times = [tuple(map(float, line.split(': ')[1].split())) for line in lines]
  assert all(one[1] <= two[0] for one, two in zip(times, times[1:]))


@pytest.mark.parametrize('end', [signal.SIGINT, signal.SIGKILL])
def test_they_end_with_us(end, modules, tmp_path):
  modules(
      long='import time\ntime.sleep(600)\n',
      program='from tff_pers.experiments import subprocess_pool\n'
      'subprocess_pool.run(dict(a=["long"], b=["long"], c=["long"]), 2)\n',
  )
  process = subprocess.Popen(
      [sys.executable, '-m', 'program'], cwd=tmp_path,
      env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
      stderr=subprocess.DEVNULL,
      # Where these tests run in the background of a shell, it is ignored.
      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
  )
  children = []
  try:
    while len(children) < 2:
      time.sleep(0.05)
      children = psutil.Process(process.pid).children()
    time.sleep(0.2)  # Until they have said that they end with us.
    process.send_signal(end)
    assert process.wait(30) != 0
  finally:
    process.kill()
    process.wait()
  _, alive = psutil.wait_procs(children, timeout=30)
  assert not alive
