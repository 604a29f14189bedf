"""Plain progress lines where there is no terminal."""

import io
import time

import pytest

from tff_pers.simulation import progress


@pytest.mark.parametrize(
    'rounds, start, lines', [(100, 0, 10), (7, 0, 7), (11, 0, 10), (100, 50, 5)]
)
def test_about_ten_lines_per_run(rounds, start, lines):
  stream = io.StringIO()
  with progress.Progress(rounds, start, stream) as shown:
    for round_num in range(start + 1, rounds + 1):
      shown.round_done(round_num, 0.5, 10)
  printed = stream.getvalue().splitlines()
  assert len(printed) == lines
  assert printed[-1].startswith(f'round {rounds}/{rounds}  loss 0.5000')
  assert printed[-1].endswith('ETA 0:00') and 'clients/s' in printed[-1]
  assert 'accuracy' not in printed[-1]


def test_shows_the_last_accuracy():
  stream = io.StringIO()
  with progress.Progress(1, 0, stream) as shown:
    shown.evaluated(0.25)
    shown.round_done(1, 0.5, 10)
  assert 'accuracy 0.2500' in stream.getvalue()


class _Terminal(io.StringIO):

  def isatty(self):
    return True


def test_a_terminal_gets_a_bar():
  stream = _Terminal()
  with progress.Progress(3, 1, stream) as shown:
    shown.round_done(2, 0.5, 10)
    shown.round_done(3, 0.25, 10)
  assert '3/3' in stream.getvalue() and 'loss 0.2500' in stream.getvalue()


@pytest.fixture(name='clock')
def _clock(monkeypatch):
  """A clock that stands still unless it is moved; seconds in a list."""
  now = [100.0]
  monkeypatch.setattr(time, 'monotonic', lambda: now[0])
  return now


def test_compilation_is_no_part_of_the_speed(clock):
  """The first round and the first evaluation take 30 and 20 s, others 1."""
  stream = io.StringIO()
  with progress.Progress(10, 0, stream) as shown:
    for round_num in range(1, 5):
      clock[0] += 30 if round_num == 1 else 1
      shown.round_done(round_num, 0.5, 6)
      clock[0] += 20 if round_num == 1 else 1
      shown.evaluated(0.5)
  lines = stream.getvalue().splitlines()
  assert 'ETA' not in lines[0] and 'clients/s' not in lines[0]
  # A round and the evaluation before it; before round 2 that was compiled.
  assert lines[1].endswith('6 clients/s  ETA 0:08')
  # 1 + 2 + 2 seconds for three rounds.
  assert lines[3].endswith('4 clients/s  ETA 0:10')


def test_a_round_in_which_nobody_trained_shows_the_last_loss():
  stream = io.StringIO()
  with progress.Progress(4, 0, stream) as shown:
    shown.round_done(1, float('nan'), 4, 1.0)
    shown.round_done(2, 0.5, 4, 0.25)
    shown.round_done(3, float('nan'), 4, 1.0)
    shown.round_done(4, 0.25, 4)
  lines = stream.getvalue().splitlines()
  assert 'nan' not in stream.getvalue() and 'loss' not in lines[0]
  assert '/4  visits 0/4' in lines[0]
  assert 'loss 0.5000  visits 3/4' in lines[1]
  assert 'loss 0.5000 (round 2)  visits 0/4' in lines[2]
  assert 'loss 0.2500  ' in lines[3] and 'visits' not in lines[3]


def test_a_run_that_may_end_shows_what_is_evaluated_and_no_time_to_go():
  stream = io.StringIO()
  with progress.Progress(1000, 0, stream, may_end=True) as shown:
    for round_num in range(1, 21):
      shown.round_done(round_num, 0.5, 4)
      if round_num % 10 == 0:
        shown.evaluated(round_num / 100)
  lines = stream.getvalue().splitlines()
  assert len(lines) == 2 and 'ETA' not in stream.getvalue()
  assert lines[1].startswith('round 20/1000 at most  loss 0.5000')
  assert 'accuracy 0.2000' in lines[1]


def test_the_bar_of_a_run_that_may_end_promises_no_end():
  stream = _Terminal()
  with progress.Progress(1000, 0, stream, may_end=True) as shown:
    for round_num in range(1, 4):
      shown.round_done(round_num, 0.5, 4)
    shown.evaluated(0.25)
    shown.round_done(4, 0.5, 4)
  assert '1000' not in stream.getvalue()
  assert 'accuracy 0.2500' in stream.getvalue()
