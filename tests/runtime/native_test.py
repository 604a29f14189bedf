"""TFF's worker ends with the interpreter, however that ends."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import fused
from tff_pers.runtime import native
from tff_pers.runtime import worker_process

pytestmark = pytest.mark.usefixtures('native_runtime')

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Starts the worker, computes with it, tells its process id.
START = '''
import numpy as np
import tensorflow_federated as tff
from tff_pers.runtime import native
native.use()
add = tff.tensorflow.computation(lambda x: x + 1, np.int32)
assert add(1) == 2
print(native.worker_pid(), flush=True)
'''
DEADLINE_SECONDS = 120  # To import TensorFlow on a busy machine.


def _spawn(program, **kwargs):
  return subprocess.Popen(
      [sys.executable, '-c', START + program], cwd=ROOT, text=True,
      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
      # Where these tests run in the background of a shell, it is ignored.
      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
      **kwargs,
  )


def _is_running(pid: int) -> bool:
  """Whether the process lives; a zombie does not."""
  try:
    stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
  except FileNotFoundError:
    return False
  return stat.rpartition(')')[2].split()[0] != 'Z'


def _wait_until_gone(pid: int) -> bool:
  deadline = time.monotonic() + 10
  while _is_running(pid) and time.monotonic() < deadline:
    time.sleep(0.05)
  return not _is_running(pid)


@pytest.mark.parametrize(
    'ending, exit_code',
    [
        ('', 0),
        ('raise ValueError()', 1),
        ('import os, signal; os.kill(os.getpid(), signal.SIGTERM)', 143),
        # As a shell sees Python after Ctrl-C.
        ('import os, signal; os.kill(os.getpid(), signal.SIGINT)',
         -signal.SIGINT),
        ('import os, signal; os.kill(os.getpid(), signal.SIGKILL)',
         -signal.SIGKILL),
    ],
    ids=['end', 'exception', 'sigterm', 'sigint', 'sigkill'],
)
def test_worker_ends_with_its_program(ending, exit_code):
  program = _spawn(ending)
  # Until nothing holds its output open any more.
  output, _ = program.communicate(timeout=DEADLINE_SECONDS)
  worker = int(output.split()[0])
  assert program.returncode == exit_code
  assert worker != program.pid
  assert _wait_until_gone(worker)


def test_worker_leaves_a_pipeline_free():
  """`python train.py | head -1` ends, though the program would go on."""
  program = _spawn(
      'import time\nwhile True:\n  print("round", flush=True)\n'
      '  time.sleep(0.1)\n'
  )
  head = subprocess.run(
      ['head', '-1'], stdin=program.stdout, capture_output=True, text=True,
      timeout=DEADLINE_SECONDS, check=True,
  )
  program.stdout.close()  # Ours; head has closed its own.
  program.wait(timeout=DEADLINE_SECONDS)
  assert _wait_until_gone(int(head.stdout))


def _listening():
  """Returns the TCP addresses where this process and its children listen."""
  us = psutil.Process()
  return {
      found.laddr for each in [us, *us.children(recursive=True)]
      for found in each.net_connections('tcp')
      if found.status == psutil.CONN_LISTEN
  }


@pytest.mark.parametrize('start', [
    pytest.param(native.use, id='native'),
    # A sequence that clients return is not fused.
    pytest.param(lambda: fused.use(strategy='loop'), id='fused'),
])
def test_nobody_else_reaches_the_worker(start):
  """Neither over a network nor as another user, also after a crash."""
  native.stop()
  before = _listening()  # Servers of other tests.
  # TFF takes no functions with `*args`.
  # pylint: disable-next=unnecessary-lambda
  count = tff.tensorflow.computation(
      lambda size: tf.data.Dataset.range(size), np.int64
  )
  ranges = tff.federated_computation(
      lambda sizes: tff.federated_map(count, sizes),
      tff.FederatedType(np.int64, tff.CLIENTS),
  )
  for _ in range(2):
    with start():
      assert [list(each) for each in ranges([2])] == [[0, 1]]
    worker = psutil.Process(native.worker_pid())
    assert worker in psutil.Process().children()
    assert _listening() == before
    # Names without a slash are files in the working directory.
    assert {each.laddr for each in worker.net_connections('unix')} - {''} == {
        '1'
    }
    assert os.stat(worker.cwd()).st_mode & 0o777 == 0o700
    worker.kill()
    assert _wait_until_gone(worker.pid)


def test_use_twice_is_one_worker():
  worker = native.worker_pid()
  native.use()
  assert native.worker_pid() == worker
  assert os.getpid() != worker


def test_raises_on_missing_worker(monkeypatch, tmp_path):
  monkeypatch.setattr(worker_process, '_binary', lambda: tmp_path / 'none')
  with pytest.raises(RuntimeError, match="TFF's worker must be at .*found no"):
    worker_process.WorkerProcess()


def _script(folder, text):
  """Returns a program that replaces TFF's worker."""
  binary = folder / 'worker_binary'
  binary.write_text(f'#!/bin/sh\necho started >> {folder}/starts\n{text}\n')
  binary.chmod(0o755)
  return lambda folder: binary


@pytest.mark.parametrize(
    ('text', 'code', 'starts'), [('exit 3', 3, 1), ('kill -6 $$', -6, 4)]
)
def test_raises_on_a_worker_that_ends_at_once(
    text, code, starts, monkeypatch, tmp_path
):
  monkeypatch.setattr(
      worker_process, '_private_binary', _script(tmp_path, text)
  )
  worker = worker_process.WorkerProcess()
  with pytest.raises(RuntimeError, match=f'before it came up.* code {code}'):
    worker.wait_until_ready()
  assert worker.exit_code == code
  assert (tmp_path / 'starts').read_text() == 'started\n' * starts


def test_raises_on_a_worker_that_does_not_come_up(monkeypatch, tmp_path):
  monkeypatch.setattr(
      worker_process, '_private_binary', _script(tmp_path, 'exec sleep 60')
  )
  worker = worker_process.WorkerProcess()
  with pytest.raises(RuntimeError, match='did not come up within 0.5 s'):
    worker.wait_until_ready(seconds=0.5)
  assert worker.pid is None


def test_a_worker_that_crashes_as_it_starts_is_started_again(
    monkeypatch, tmp_path
):
  (tmp_path / 'real').mkdir()
  # pylint: disable-next=protected-access
  real = worker_process._private_binary(str(tmp_path / 'real'))
  crash_once = f'[ $(wc -l < {tmp_path}/starts) = 1 ] && kill -6 $$'
  monkeypatch.setattr(
      worker_process, '_private_binary',
      _script(tmp_path, f'{crash_once}\nexec {real} "$@"'),
  )
  worker = worker_process.WorkerProcess()
  try:
    worker.wait_until_ready()
    assert worker.answers(seconds=10)
  finally:
    worker.stop()


def test_dead_worker_is_replaced_and_the_call_repeated():
  """A crash of the worker costs time, not the run."""
  add = tff.tensorflow.computation(lambda x: x + 1, np.int32)

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def total(values):
    return tff.federated_sum(tff.federated_map(add, values))

  assert total([1, 2]) == 5
  before = native.worker_pid()
  os.kill(before, signal.SIGKILL)
  assert _wait_until_gone(before)
  assert total([1, 2]) == 5
  assert total([1, 2, 3]) == 9
  assert native.worker_pid() not in (None, before)


def test_worker_that_dies_again_and_again_is_an_error(monkeypatch):
  monkeypatch.setattr(native.runtime, '_restarts', worker_process.Restarts(0))
  before = native.worker_pid()
  os.kill(before, signal.SIGKILL)
  assert _wait_until_gone(before)
  add = tff.tensorflow.computation(lambda x: x + 1, np.int32)
  with pytest.raises(RuntimeError, match='died 1 times within an hour'):
    add(1)
  monkeypatch.undo()
  assert add(1) == 2
