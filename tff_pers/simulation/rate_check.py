"""Warns during the first rounds if the learning rate seems too large."""

import math
from typing import Optional

# In a healthy run the loss falls in these rounds, or hardly changes.
_ROUNDS = 5
# A loss this much above the untrained model's is not minibatch noise.
_RISE = 1.1
# If that loss is unknown: the loss of the first round times this.
_EXPLOSION = 2.0


class RateCheck:
  """Watches the training loss of a run's first rounds."""

  def __init__(self, initial_loss: Optional[float], tip: str):
    """Initializes the check before round 1.

    Args:
      initial_loss: Loss of the untrained model, or None.
      tip: What to try, as the end of the sentence.
    """
    self._limit, self._than = math.inf, ''
    if initial_loss is not None:
      self._set(_RISE, initial_loss, 'that of the untrained model')
    self._tip = tip

  def __call__(self, round_num: int, loss: float) -> str:
    """Returns a warning after a round, at most once; '' if all is well.

    Rounds count from 1; the training loss is NaN if nobody trained.
    """
    if round_num > _ROUNDS or math.isnan(loss):
      return ''
    if loss > self._limit:
      self._limit = math.inf
      return (
          f'The training loss in round {round_num}, {loss:.4g}, is above'
          f' {self._than}: the learning rate seems too large. Tip: {self._tip}'
      )
    if not self._than:
      self._set(_EXPLOSION, loss, f'twice that of round {round_num}')
    return ''

  def _set(self, factor: float, loss: float, name: str) -> None:
    self._limit, self._than = factor * loss, f'{name}, {loss:.4g}'
