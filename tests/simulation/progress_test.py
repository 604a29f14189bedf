"""Plain progress lines where there is no terminal."""

import io

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
