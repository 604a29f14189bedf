"""Workers are copies of a process that has imported everything, where it may be."""

import os
import signal
import subprocess
import sys
import threading

import psutil

from tff_pers.experiments import worker_pool

# What a test process has done by now is not what a program has: a new one.
_PROGRAM = """
import os, threading
import tensorflow as tf
from tff_pers.experiments import worker_pool
from tff_pers.runtime import fused

def _losses(seed):
  with fused.use():
    return float(tf.random.stateless_normal([], [seed, 0]))

if __name__ == '__main__':
  {before}
  print(worker_pool._can_fork())
  with worker_pool.WorkerPool(2) as pool:
    print(pool.map(_losses, [(seed,) for seed in range(4)]))
    print(*map(len, pool.map(os.sched_getaffinity, [(0,)] * 4)))
"""


def _output(tmp_path, before):
  program = tmp_path / 'program.py'
  program.write_text(_PROGRAM.format(before=before))
  return subprocess.run(
      [sys.executable, program], capture_output=True, text=True, check=True,
      env={**os.environ, 'PYTHONPATH': os.getcwd()},
  ).stdout.splitlines()


def test_workers_are_copies_with_the_numbers_of_new_processes(tmp_path):
  forked, found, cores = _output(tmp_path, 'pass')
  spawned, expected, _ = _output(tmp_path, 'tf.constant(0)')
  assert (forked, spawned) == ('True', 'False')
  assert found == expected
  # Two workers share the cores of this process.
  share = len(os.sched_getaffinity(0)) / 2
  assert all(abs(int(number) - share) < 1 for number in cores.split())


def test_not_beside_threads_of_others():
  ready = threading.Event()
  assert worker_pool._is_idle(threading.current_thread())  # pylint: disable=protected-access
  other = threading.Thread(target=ready.wait, daemon=True)
  other.start()
  assert not worker_pool._is_idle(other)  # pylint: disable=protected-access
  ready.set()


def test_not_where_a_gpu_is(monkeypatch):
  monkeypatch.setattr(worker_pool.eager_context, 'context_safe', lambda: None)
  monkeypatch.setattr(worker_pool, '_is_idle', lambda thread: True)
  for gpus in ([], ['GPU:0']):
    monkeypatch.setattr(
        worker_pool.tf.config, 'list_physical_devices', lambda kind, g=gpus: g
    )
    assert worker_pool._can_fork() == (not gpus)  # pylint: disable=protected-access


def test_ctrl_c_ends_the_workers():
  program = subprocess.Popen(
      [sys.executable, '-c', 'import time\n'
       'from tff_pers.experiments import worker_pool\n'
       'with worker_pool.WorkerPool(2) as pool:\n'
       '  print("begun", flush=True)\n'
       '  pool.map(time.sleep, [(600,)] * 3)\n'],
      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
      # Where these tests run in the background of a shell, it is ignored.
      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
  )
  try:
    assert program.stdout.readline() == b'begun\n'
    workers = psutil.Process(program.pid).children()
    assert len(workers) == 2
    program.send_signal(signal.SIGINT)
    assert program.wait(30) != 0
  finally:
    program.kill()
    program.communicate()
  _, alive = psutil.wait_procs(workers, timeout=30)
  assert not alive
