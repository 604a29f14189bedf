"""A worker program serves, repairs its worker, and leaves nothing behind."""

import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import types

import numpy as np
import portpicker
import psutil
import pytest
import tensorflow_federated as tff

from binaries import worker
from tff_pers.runtime import remote
from tff_pers.runtime import worker_process
from tff_pers.runtime.serving import host

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60  # On a busy machine.
PROGRAM = [sys.executable, '-m', 'binaries.worker']


@pytest.fixture(name='start')
def _start():
  """Starts a command that runs the program, until the test ends."""
  processes = []

  def start(command):
    process = subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Where these tests run under nohup, it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    processes.append(process)
    return process

  yield start
  for process in processes:
    process.kill()
    process.communicate()


def _children(pid):
  return [p for p in psutil.Process(pid).children() if 'worker' in p.name()]


def _are_gone(processes) -> bool:
  return not psutil.wait_procs(processes, timeout=PATIENCE_SECONDS)[1]


def test_serves_repairs_and_stops(start):
  """One life: ready, a computation, a crash of the worker, SIGTERM."""
  port = portpicker.pick_unused_port()
  program = start([*PROGRAM, f'--port={port}'])
  assert program.stdout.readline() == f'worker: ready on 127.0.0.1:{port}.\n'
  [first] = _children(program.pid)
  add = tff.tensorflow.computation(lambda x: x + 1, np.int32)
  with remote.use([f'localhost:{port}']):
    assert add(1) == 2
  assert re.fullmatch(
      r'worker: process \d+ on \S+ has left.\n', program.stdout.readline()
  )
  assert program.stdout.readline() == f'worker: ready on 127.0.0.1:{port}.\n'
  [child] = _children(program.pid)
  assert child.pid != first.pid  # What the driver left is gone with the first.
  child.kill()
  assert program.stdout.readline() == f'worker: ready on 127.0.0.1:{port}.\n'
  [second] = _children(program.pid)
  assert second.pid != child.pid
  program.terminate()
  _, errors = program.communicate(timeout=PATIENCE_SECONDS)
  assert program.returncode == 0
  assert _are_gone([second])
  assert errors == 'worker: it ended with exit code -9 and is restarted.\n'


@pytest.mark.parametrize(
    'number, exit_code',
    [(signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGKILL, -9)],
)
def test_leaves_nothing_behind(number, exit_code, start):
  port = portpicker.pick_unused_port()
  program = start([*PROGRAM, f'--port={port}'])
  program.stdout.readline()
  children = _children(program.pid)
  program.send_signal(number)
  assert program.wait(timeout=PATIENCE_SECONDS) == exit_code
  assert children and _are_gone(children)


@pytest.mark.parametrize('prefix, survives', [('', False), ('nohup ', True)])
def test_ends_with_its_parent_unless_under_nohup(prefix, survives, start):
  """As when the ssh that started it is cut."""
  port = portpicker.pick_unused_port()
  command = f'{prefix}{" ".join(PROGRAM)} --port={port}'
  shell = start(['sh', '-c', f'{command} & wait'])
  shell.stdout.readline()
  [program] = psutil.Process(shell.pid).children()
  processes = [program, *_children(program.pid)]
  shell.kill()
  if survives:
    time.sleep(2)
    assert all(process.is_running() for process in processes)
    program.terminate()
  assert _are_gone(processes)


def test_refuses_ports_that_are_none(capsys):
  for port in ('0', 'a'):
    assert worker.main(['worker', f'--port={port}']) == 2
    assert capsys.readouterr().err.startswith(f'worker: flag --port={port}')


def test_refuses_a_port_in_use(capsys):
  with socket.create_server(('', 0)) as server:
    port = server.getsockname()[1]
    assert worker.main(['worker', f'--port={port}']) == 2
  sentence = capsys.readouterr().err
  assert 'a free port' in sentence and f'found 127.0.0.1:{port}' in sentence


def test_warns_where_others_can_reach_it(monkeypatch, capsys):
  def stop(*_):
    raise RuntimeError('enough')

  monkeypatch.setattr(host, '_end_on_signals', stop)
  for address, warns in [('127.0.0.1', False), ('localhost', False),
                      ('0.0.0.0', True)]:
    port = portpicker.pick_unused_port()
    assert worker.main(['worker', f'--host={address}', f'--port={port}']) == 1
    assert ('can run any code' in capsys.readouterr().err) == warns


def test_says_that_the_binary_is_missing(monkeypatch, tmp_path, capsys):
  monkeypatch.setattr(worker_process, '_binary', lambda: tmp_path / 'none')
  monkeypatch.setattr(host, '_end_on_signals', lambda: None)
  port = portpicker.pick_unused_port()
  assert worker.main(['worker', f'--port={port}']) == 1
  assert "TFF's worker must be at" in capsys.readouterr().err


def test_a_worker_that_hangs_is_started_again(monkeypatch):
  monkeypatch.setattr(host, '_CHECK_SECONDS', 0.1)
  monkeypatch.setattr(host, '_ANSWER_SECONDS', 0.2)
  monkeypatch.setattr(host, '_HANGS_AFTER_SECONDS', 1.0)
  process = worker_process.WorkerProcess()
  try:
    process.wait_until_ready()
    psutil.Process(process.pid).suspend()
    why = host._wait_for_an_end(  # pylint: disable=protected-access
        process, types.SimpleNamespace(left=None)
    )
  finally:
    process.stop()
  assert why == 'gave no answer for 1 s'


def test_imports_neither_tensorflow_nor_tff():
  """It starts within a second, and stays small."""
  code = 'import sys; from binaries import worker; print(*sys.modules)'
  imported = subprocess.run(
      [sys.executable, '-c', code], cwd=ROOT, check=True, text=True,
      stdout=subprocess.PIPE,
  ).stdout.split()
  assert 'grpc' in imported
  assert not {'tensorflow', 'tensorflow_federated'} & set(imported)


def test_help_warns(capsys):
  assert worker.main(['worker', '--help']) == 0
  assert 'neither a password' in capsys.readouterr().out
