"""Progress of a run: a bar on a terminal, about ten lines elsewhere."""

import sys
import time
from typing import Optional

import tqdm

_NUM_LINES = 10


class Progress:
  """Shows round, loss, accuracy, clients per second and time to go."""

  def __init__(self, rounds: int, start: int = 0, stream=None):
    """Starts the clock.

    Args:
      rounds: Rounds of the whole run.
      start: Rounds done before (a resumed run).
      stream: Where to write; None: the standard output.
    """
    self._stream = stream or sys.stdout
    self._rounds, self._start = rounds, start
    self._started = time.monotonic()
    self._clients = 0
    self._accuracy: Optional[float] = None
    self._bar = None
    if self._stream.isatty():
      self._bar = tqdm.tqdm(
          total=rounds, initial=start, unit='round', file=self._stream,
          dynamic_ncols=True,
      )

  def round_done(self, round_num: int, loss: float, num_clients: int) -> None:
    """Shows that round `round_num` (from 1) is done."""
    self._clients += num_clients
    if self._bar is not None:
      self._bar.set_postfix_str(self._numbers(loss), refresh=False)
      self._bar.update()
    elif _line_at(round_num, self._rounds):
      print(
          f'round {round_num}/{self._rounds}  {self._numbers(loss)}'
          f'  ETA {self._eta(round_num)}', file=self._stream, flush=True,
      )

  def evaluated(self, accuracy: Optional[float]) -> None:
    """Sets the accuracy to show from now on, None where there is none."""
    self._accuracy = accuracy

  def __enter__(self):
    return self

  def __exit__(self, kind, error, trace):
    self.close()

  def close(self) -> None:
    if self._bar is not None:
      self._bar.close()

  def _numbers(self, loss: float) -> str:
    parts = [f'loss {loss:.4f}']
    if self._accuracy is not None:
      parts.append(f'accuracy {self._accuracy:.4f}')
    seconds = max(time.monotonic() - self._started, 1e-9)
    parts.append(f'{self._clients / seconds:.0f} clients/s')
    return '  '.join(parts)

  def _eta(self, round_num: int) -> str:
    per_round = (time.monotonic() - self._started) / (round_num - self._start)
    minutes, seconds = divmod(round(per_round * (self._rounds - round_num)), 60)
    return f'{minutes}:{seconds:02d}'


def _line_at(round_num: int, rounds: int) -> bool:
  """Whether `round_num` ends one of about `_NUM_LINES` equal parts."""
  part = lambda done: done * _NUM_LINES // rounds
  return part(round_num) > part(round_num - 1)
