"""What the fused runtime has chosen, kept in a file of the run."""

import dataclasses
import json
import os
import pathlib
from typing import Optional, Sequence

from tff_pers.runtime import mapping


class Choices:
  """Plans by computation; a run that is resumed repeats its numbers."""

  def __init__(self, path: Optional[os.PathLike] = None):
    """Reads the choices of an earlier session.

    Args:
      path: JSON file, written at every choice; None keeps them in memory.

    Raises:
      ValueError: If the file is not what `put` wrote, or a folder.
    """
    self._path = None if path is None else pathlib.Path(path)
    self._plans = {}
    if self._path is not None and self._path.is_dir():
      raise ValueError(
          f'`{self._path}` must be a file to keep choices in, found a folder.'
      )
    if self._path is not None and self._path.exists():
      try:
        self._plans = {
            key: [mapping.Plan(**plan) for plan in plans]
            for key, plans in json.loads(self._path.read_text()).items()
        }
      except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f'`{self._path}` must hold the choices of a fused runtime, found'
            f' something else ({error}). Tip: remove it to choose again.'
        ) from error

  def get(self, key: str) -> Optional[list]:
    """Returns the plans of the stages of a computation, or None."""
    return self._plans.get(key)

  def put(self, key: str, plans: Sequence[mapping.Plan]) -> None:
    """Records the plans."""
    self._plans[key] = list(plans)
    if self._path is None:
      return
    content = {
        key: [dataclasses.asdict(plan) for plan in plans]
        for key, plans in self._plans.items()
    }
    self._path.parent.mkdir(parents=True, exist_ok=True)
    partial = self._path.with_name(self._path.name + '.tmp')
    partial.write_text(json.dumps(content, indent=2) + '\n')
    os.replace(partial, self._path)
