"""Errors of a run that cannot continue after NaN or infinity."""

from typing import Sequence


class NonFiniteError(RuntimeError):
  """Training produced a loss or an update that is NaN or infinite."""

  _PROBLEM = 'The loss must stay finite, found NaN or infinity in round'

  def __init__(self, round_num: int, clients: Sequence[int]):
    names = ', '.join(map(str, clients[:10])) or 'the whole cohort'
    if len(clients) > 10:
      names += f' and {len(clients) - 10} more'
    super().__init__(
        f'{self._PROBLEM} {round_num} at client {names}. Tip: lower the'
        ' learning rate.'
    )
    self.round_num = round_num
    self.clients = list(clients)


class NobodyLeftError(NonFiniteError):
  """A round would drop every honest client that trained in it.

  Dropping is meant for single clients that fail. If all of them fail, the model
  that they received has diverged and later rounds would change nothing, so that
  the run would seem to succeed.
  """

  _PROBLEM = (
      'A round must keep at least one honest client, found NaN or infinity at'
      ' all of them in round'
  )
