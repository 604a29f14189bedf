"""Parses time budgets; keeps elapsed time across restarts."""

import json
import os
import re
import threading
import time

from tff_pers.core import files
from tff_pers.evaluation import damaged
from tff_pers.experiments import flags

_UNITS = dict(s=1, m=60, h=3600)
_SAVE_SECONDS = 2.0


def parse(text: str) -> float:
  """Returns the seconds of a budget such as 90s, 20m, 1.5h.

  Raises:
    flags.UsageError: If it is not a budget.
  """
  match = re.fullmatch(r'(\d+(?:\.\d+)?)([smh])', text)
  if not match or not float(match[1]):
    raise flags.UsageError(
        '`--budget` must be a number > 0 with a unit, such as 90s, 20m or 1.5h,'
        f' found {text!r}.'
    )
  return float(match[1]) * _UNITS[match[2]]


def as_text(seconds: float) -> str:
  """Formats a time for people: 0:07, 12:30, 1:02:03."""
  minutes, seconds = divmod(max(round(seconds), 0), 60)
  hours, minutes = divmod(minutes, 60)
  if hours:
    return f'{hours}:{minutes:02d}:{seconds:02d}'
  return f'{minutes}:{seconds:02d}'


def now() -> float:
  """Returns a clock reading shared by all processes of a machine."""
  return time.monotonic()


class Clock:
  """Wall-clock seconds that a program has run, summed over its starts.

  They are saved every other second, so that a program that is killed and
  restarted does not restart its budget.
  """

  def __init__(self, path: str):
    """Continues from the seconds in the file, made when the clock is entered.

    Raises:
      damaged.DamagedError: If the file holds no seconds.
    """
    self._path, self._before = path, 0.0
    if os.path.exists(path):
      with damaged.reading(path), open(path, encoding='utf-8') as file:
        self._before = float(json.load(file)['seconds'])
    self._started = now()
    self._stop = threading.Event()
    self._thread = threading.Thread(target=self._save_often, daemon=True)

  @property
  def seconds(self) -> float:
    """Seconds so far."""
    return self._before + now() - self._started

  def at(self, seconds: float) -> float:
    """Returns the `now()` at which the clock will read `seconds`."""
    return self._started + seconds - self._before

  def __enter__(self):
    self._save()
    self._thread.start()
    return self

  def __exit__(self, kind, error, trace):
    self._stop.set()
    self._thread.join()
    self._save()

  def _save_often(self) -> None:
    while not self._stop.wait(_SAVE_SECONDS):
      self._save()

  def _save(self) -> None:
    files.write_text(
        self._path, json.dumps(dict(seconds=round(self.seconds, 1)))
    )
