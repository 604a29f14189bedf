"""Shows the progress of a run: a bar in a terminal, elsewhere ten lines."""

import math
import sys
import time
from typing import Callable, Optional, TextIO

import tqdm

_NUM_LINES = 10


class Progress:
  """Shows round, loss, accuracy, clients per second and remaining time.

  The speed excludes the first round and the first evaluation of the process, in
  which computations are compiled.
  """

  def __init__(
      self, rounds: int, start: int = 0, stream: Optional[TextIO] = None, *,
      may_end: bool = False,
      remark: Callable[[int, float], str] = lambda round_num, loss: '',
  ):
    """Starts the clock.

    Args:
      rounds: Rounds of the whole run.
      start: Rounds done before (a resumed run).
      stream: Where to write; None: the standard output.
      may_end: Whether the run may end early, after any evaluated round. Each of
        these then has a line, and no remaining time is shown.
      remark: Returns a remark after a round, given its training loss, see
        `RateCheck`; '': none.
    """
    self._stream, self._remark = stream or sys.stdout, remark
    self._rounds, self._may_end = rounds, may_end
    self._first: Optional[int] = None
    self._since = self._last = time.monotonic()
    self._clients = 0
    self._loss: Optional[float] = None
    self._loss_round = 0
    self._accuracy: Optional[float] = None
    self._has_evaluated = False
    self._now = (0, 0, 0.0)
    self._bar = None
    if self._stream.isatty():
      self._bar = self._new_bar(start, leave=False)

  def round_done(
      self, round_num: int, loss: float, num_clients: int, idle: float = 0.0
  ) -> None:
    """Shows that round `round_num` (from 1) is done.

    Its training loss is NaN if nobody trained; `idle` is the share of its
    clients that trained nothing.
    """
    self._last = time.monotonic()
    is_first = self._first is None
    if is_first:
      self._first, self._since = round_num, self._last
    else:
      self._clients += num_clients
    if not math.isnan(loss):
      self._loss, self._loss_round = loss, round_num
    self._now = round_num, num_clients, idle
    if self._bar is not None:
      if is_first:
        self._bar.close()
        self._bar = self._new_bar(round_num)  # Its clock starts here.
      self._bar.set_postfix_str(self._numbers(), refresh=False)
      self._bar.update(0 if is_first else 1)
    elif not self._may_end and _line_at(round_num, self._rounds):
      self._print_line()
    remark = self._remark(round_num, loss)
    if remark:
      # A bar is drawn again below it.
      (self._bar or tqdm.tqdm).write(remark, file=self._stream)

  def evaluated(self, accuracy: Optional[float]) -> None:
    """Sets the accuracy to show from now on, None where there is none."""
    self._accuracy = accuracy
    if not self._has_evaluated:
      now = time.monotonic()
      self._since, self._last = self._since + now - self._last, now
      self._has_evaluated = True
    if self._may_end and self._bar is None:
      self._print_line()

  def __enter__(self):
    return self

  def __exit__(self, kind, error, trace):
    if self._bar is not None:
      self._bar.close()

  def _new_bar(self, done: int, leave: bool = True):
    return tqdm.tqdm(
        total=None if self._may_end else self._rounds, initial=done,
        unit='round', file=self._stream, dynamic_ncols=True, leave=leave,
    )

  def _print_line(self) -> None:
    most, eta = (' at most', '') if self._may_end else ('', self._eta())
    print(
        f'round {self._now[0]}/{self._rounds}{most}  {self._numbers()}{eta}',
        file=self._stream, flush=True,
    )

  def _numbers(self) -> str:
    round_num, num_clients, idle = self._now
    parts = []
    if self._loss is not None:
      when = self._loss_round
      since = '' if when == round_num else f' (round {when})'
      parts.append(f'loss {self._loss:.4f}{since}')
    if idle > 0:
      parts.append(f'visits {round((1 - idle) * num_clients)}/{num_clients}')
    if self._accuracy is not None:
      parts.append(f'accuracy {self._accuracy:.4f}')
    if self._clients:
      seconds = max(self._last - self._since, 1e-9)
      parts.append(f'{self._clients / seconds:.0f} clients/s')
    return '  '.join(parts)

  def _eta(self) -> str:
    done, left = self._now[0] - (self._first or 0), self._rounds - self._now[0]
    if not done and left:
      return ''  # One round, and that was compiled, says nothing.
    per_round = (self._last - self._since) / max(done, 1)
    minutes, seconds = divmod(round(per_round * left), 60)
    return f'  ETA {minutes}:{seconds:02d}'


def _line_at(round_num: int, rounds: int) -> bool:
  """Whether `round_num` ends one of about `_NUM_LINES` equal parts."""
  part = lambda done: done * _NUM_LINES // rounds
  return part(round_num) > part(round_num - 1)
