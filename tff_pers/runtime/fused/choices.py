"""Saves the schedules that the fused runtime has chosen in a file."""

import dataclasses
import json
import os
import pathlib
from typing import Optional, Sequence, Union

from tff_pers.runtime.fused import schedule as schedule_lib


class Choices:
  """Schedules by computation; with them, a resumed run repeats its numbers."""

  def __init__(self, path: Union[str, os.PathLike, None] = None):
    """Reads the choices of an earlier session.

    The JSON file is written at every choice; None keeps them in memory.

    Raises:
      ValueError: If `put` did not write the file, or it is a folder.
    """
    self._path = None if path is None else pathlib.Path(path)
    self._schedules = {}
    if self._path is not None and self._path.is_dir():
      raise ValueError(
          f'`{self._path}` must be a file that stores choices, found a folder.'
      )
    if self._path is not None and self._path.exists():
      try:
        self._schedules = {
            key: [schedule_lib.Schedule(**schedule) for schedule in schedules]
            for key, schedules in json.loads(self._path.read_text()).items()
        }
      except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f'`{self._path}` must hold the choices of a fused runtime, found'
            f' something else ({error}). Tip: remove it to choose again.'
        ) from error

  def get(self, key: str) -> Optional[list]:
    """Returns the schedules of the stages of a computation, or None."""
    return self._schedules.get(key)

  def stages(self) -> list[schedule_lib.Schedule]:
    """Returns the schedules of all stages of all computations."""
    return [stage for chosen in self._schedules.values() for stage in chosen]

  def put(self, key: str, schedules: Sequence[schedule_lib.Schedule]) -> None:
    """Records the schedules."""
    self._schedules[key] = list(schedules)
    if self._path is None:
      return
    content = {
        key: [dataclasses.asdict(schedule) for schedule in schedules]
        for key, schedules in self._schedules.items()
    }
    self._path.parent.mkdir(parents=True, exist_ok=True)
    partial = self._path.with_name(self._path.name + '.tmp')
    partial.write_text(json.dumps(content, indent=2) + '\n')
    os.replace(partial, self._path)
