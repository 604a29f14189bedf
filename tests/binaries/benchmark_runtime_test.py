"""The benchmark of the runtimes compares like with like, and measures right."""

import dataclasses
import io
import itertools
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import psutil
import pytest
import tensorflow as tf

from binaries.runtime_benchmark import operations
from binaries.speed import cell
from binaries.speed import child as child_lib
from binaries.speed import floor
from binaries.speed import processes
from binaries.speed import runtime as measuring
from binaries.speed import workloads
from tests import csv_rows
from tff_pers import runtime

_ROOT = pathlib.Path(__file__).resolve().parents[2]


_FIXED = dict(strategy='loop')  # Does not try out what is fastest.


def _tiny(name):
  return dataclasses.replace(
      workloads.WORKLOADS[name], num_clients=3, num_examples=4, batch_size=2
  )


def _play(rounds):
  """Returns the global model after two rounds, and how far it came."""
  start = rounds.weights()
  rounds.play()
  rounds.play()
  end = rounds.weights()
  return end, max(np.abs(a - b).max() for a, b in zip(start, end))


# Dropout of W6_cnn draws from Keras's own generators: not comparable.
@pytest.mark.parametrize('name', [
    'W1', 'W5', 'W2', 'W4', 'W6_mlp', 'W7',
])
def test_floor_fused_and_native_give_the_same_numbers(name):
  """Two rounds, so that the seeds of the second enter; float rounding."""
  workload = _tiny(name)
  found = []
  for runtime_name, options in (('native', {}), ('fused', _FIXED)):
    with runtime.use(runtime_name, **options):
      weights, moved = _play(processes.build(workload))
      found.append(weights)
  assert moved > 1e-5
  by_hand, _ = _play(floor.build(workload))
  for a, b, c in zip(*found, by_hand):
    np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-3 * moved)
    np.testing.assert_allclose(c, a, rtol=1e-4, atol=1e-3 * moved)


def test_fresh_data_sets_are_of_other_clients_in_other_orders():
  workload = dataclasses.replace(_tiny('W8'), pool=6)
  rows = [x.tobytes() for x, _ in workloads.arrays(workload)]
  rounds = processes.datasets(workload)
  cohorts = set()
  for _ in range(5):
    cohort = []
    for data in next(rounds):
      x = np.concatenate([x for x, _ in data.as_numpy_iterator()])
      [client] = [
          k for k, own in enumerate(rows) if sorted(x[:, 0, 0]) == sorted(
              np.frombuffer(own, np.float32).reshape(x.shape)[:, 0, 0]
          )
      ]
      cohort.append(client)
    assert len(set(cohort)) == 3
    cohorts.add(tuple(cohort))
  assert len(cohorts) > 1
  _, moved = _play(floor.build(workload))
  assert moved > 1e-5


def test_cohorts_of_the_soak_vary():
  workload = dataclasses.replace(
      workloads.WORKLOADS['W1'], num_examples=4, batch_size=2
  )
  cohorts = processes.varying_cohorts(workload, pool=20)
  played = list(itertools.islice(cohorts, 10))
  assert len({len(cohort) for cohort in played}) > 3
  sizes = {int(c['num_examples']) for cohort in played for c in cohort}
  assert len(sizes) > 2


# A child that has a child, which uses 0.3 s of CPU and 50 MiB.
_SCRIPT = """
import subprocess, sys
from binaries.speed import lines
burn = '''
import time
block = bytearray(50 * 2**20)
while time.process_time() < 0.3: pass
print(flush=True)
input()
'''
child = subprocess.Popen(
    [sys.executable, '-c', burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def play():
  child.stdout.readline()
lines.serve(play, 'cpu')
child.communicate(b'x')
"""


def test_counts_cpu_and_memory_of_all_processes():
  with child_lib.Child([sys.executable, '-c', _SCRIPT]) as child:
    assert child.device == 'cpu'
    assert child.play() < 30
    assert 0.3 < child.cpu_seconds() < 3
    assert 50 * 2**20 < child.memory('VmRSS') <= child.memory('VmHWM')


@pytest.mark.parametrize('script, why', [
    ('raise SystemExit("no luck")', 'no luck'),
    ('import os; os.kill(os.getpid(), 9)', 'exit code -9'),
])
def test_a_child_that_ends_says_why(script, why):
  with pytest.raises(child_lib.ChildError, match=f'^{why}$'):
    child_lib.Child([sys.executable, '-c', script])


_PLAYS_ONCE = """
print('{"device": "cpu"}', flush=True)
input()
print('{"seconds": 1}', flush=True)
raise SystemExit('no luck')
"""


def _wait_for(process, options=0):
  os.waitid(os.P_PID, process.pid, os.WEXITED | options)


@pytest.mark.parametrize('ask', [
    child_lib.Child.play, lambda child: child.memory('VmHWM')
])
def test_a_child_that_ends_between_rounds_says_why(ask):
  with pytest.raises(child_lib.ChildError, match='^no luck$'):
    with child_lib.Child([sys.executable, '-c', _PLAYS_ONCE]) as child:
      assert child.play() == 1
      _wait_for(child._process, os.WNOWAIT)  # pylint: disable=protected-access
      ask(child)


@pytest.mark.parametrize('options', [0, os.WNOWAIT])
def test_children_of_the_child_may_end(options, monkeypatch):
  """Gone, or a zombie, since they were listed."""
  other = subprocess.Popen(['true'])
  _wait_for(other, options)
  monkeypatch.setattr(psutil.Process, 'children', lambda *_, **__: [other])
  with child_lib.Child([sys.executable, '-c', _PLAYS_ONCE]) as child:
    assert child.cpu_seconds() > 0
    assert child.memory('VmRSS') > 0
  other.wait()


def test_work_after_the_answer_counts_as_its_rounds():
  """CPU readings before each round and in the end; two are warm-up."""
  child = _FakeChild()
  for _ in range(4):
    child.play()
  assert measuring.row('W1', 'fused', child, 2) == dict(
      workload='W1', runtime='fused', device='cpu', first_round_seconds=9.0,
      wall_seconds=2.0, cpu_seconds=2.0, peak_rss_mb=300,
  )


class _FakeChild(child_lib.Child):

  def __init__(self):  # pylint: disable=super-init-not-called
    self.device, self.wall, self._cpu = 'cpu', [], []
    self._stdin = io.StringIO()
    self._seconds = iter([9.0, 5.0, 1.0, 3.0])
    self._used = iter([0.0, 0.0, 7.0, 8.0, 11.0])

  def _read(self):
    return dict(seconds=next(self._seconds))

  def cpu_seconds(self):
    return next(self._used)

  def memory(self, field):
    return {'VmHWM': 300 * 2**20}[field]


def test_ratios():
  rows = [
      dict(workload=w, runtime=r, cpu_seconds=cpu, peak_rss_mb=100 * cpu)
      for w, r, cpu in [
          ('W1', 'native', 6.0), ('W1', 'fused', 2.0), ('W1', 'loop', 1.6),
          ('W2', 'fused', 3.0), ('W2', 'loop', 3.0),
      ]
  ]
  lines = measuring.ratio_table(rows).splitlines()
  cells = [[c.strip() for c in line.split('|')[1:-1]] for line in lines]
  assert cells[0] == [
      'workload', 'native / fused', 'fused / loop', 'memory, fused / native'
  ]
  assert cells[2:] == [['W1', '3.00', '1.25', '0.33'], ['W2', '', '1.00', '']]
  assert measuring.ratio_table(rows[:1]) is None


def test_w6_means_both():
  names = measuring.workload_names('W1,W6')
  assert names == ['W1', 'W6_mlp', 'W6_cnn']


def _run(*argv):
  return subprocess.run(
      [sys.executable, '-m', 'binaries.benchmark_runtime', *argv],
      cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=600,
  ).stdout


@pytest.mark.slow
def test_measures_and_writes(tmp_path):
  output = _run(
      '--workloads=W1', '--runtimes=native,fused,loop', '--rounds=1',
      f'--output_dir={tmp_path}',
  )
  rows = csv_rows.read(tmp_path / 'runtime.csv')
  assert list(rows[0]) == [
      'workload', 'runtime', 'device', 'first_round_seconds', 'wall_seconds',
      'cpu_seconds', 'peak_rss_mb',
  ]
  assert [row['runtime'] for row in rows] == ['native', 'fused', 'loop']
  for row in rows:
    assert float(row['first_round_seconds']) > float(row['wall_seconds']) > 0
    assert float(row['cpu_seconds']) > 0 and float(row['peak_rss_mb']) > 200
  assert 'native / fused' in output
  for suffix in ('png', 'svg'):
    assert (tmp_path / f'runtime.{suffix}').stat().st_size > 1000


@pytest.mark.slow
def test_soak_says_whether_memory_grows():
  output = _run('--soak_rounds=3')
  assert 'Memory after round 3: ' in output and '(+0.0%)' in output


@pytest.mark.slow
def test_what_ragged_clients_cost():
  """Timings vary, but not by the factor of a quadratic cost."""
  output = _run('--ragged_clients=20000', '--rounds=3')
  assert float(output.split('ratio: ')[1]) < 3


class _Branches:
  """A round of a product, and of a branch with other operations."""

  def __init__(self):

    @tf.function(input_signature=[tf.TensorSpec([]), tf.TensorSpec([300, 300])])
    def step(number, x):
      taken = lambda: tf.matmul(x, x)
      return tf.cond(number > 0, taken, lambda: tf.cumsum(tf.cumsum(x), 1))

    self._step = step
    self.number = tf.Variable(1.0)

  def play(self):
    self._step(self.number, tf.ones([300, 300]))


@pytest.mark.parametrize('number, products, sums', [(1, 1, 0), (0, 0, 2)])
def test_operations_of_a_round(number, products, sums, monkeypatch, capsys):
  rounds = _Branches()
  rounds.number.assign(number)
  monkeypatch.setattr(cell, 'build', lambda *_: rounds)
  monkeypatch.setattr(sys, 'argv', ['operations', 'W1', 'fused'])
  operations.main()
  shown = capsys.readouterr().out
  assert re.match(r'W1 on fused: [0-9.]+ CPU ms per round', shown)
  counts = dict(re.findall(r'  (\w+): [0-9.]+ ms in (\d+) calls', shown))
  assert sum(int(counts.get(k, 0)) for k in ('MatMul', '_MklMatMul')) == products
  assert int(counts.get('Cumsum', 0)) == sums
  nodes, control_flow, dead = map(int, re.search(
      r'(\d+) nodes per round: (\d+) of control flow, (\d+) dead', shown
  ).groups())
  # The other branch is passed, too.
  assert nodes > control_flow > 0 and dead >= (2 if number else 1)


@pytest.mark.parametrize('given', [[], ['W7'], ['W7', 'native']])
def test_operations_of_what_cannot_be_seen(given, monkeypatch):
  monkeypatch.setattr(sys, 'argv', ['operations', *given])
  with pytest.raises(SystemExit, match='must be a workload and fused or loop'):
    operations.main()
