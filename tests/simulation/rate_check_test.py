"""The warning about a learning rate in the first rounds."""

import io
import math

from tff_pers.simulation import progress
from tff_pers.simulation import rate_check

_NAN = math.nan


def _remarks(losses, initial_loss=None):
  check = rate_check.RateCheck(initial_loss, 'lower it.')
  return [check(number + 1, loss) for number, loss in enumerate(losses)]


def test_a_loss_above_that_of_the_untrained_model_is_said_once():
  said = _remarks([0.6, 0.9, 1.9, 5.0], initial_loss=0.693)
  assert said[0] == said[2] == said[3] == ''
  assert said[1] == (
      'The training loss in round 2, 0.9, is above that of the untrained model,'
      ' 0.693: the learning rate seems too large. Tip: lower it.'
  )
  assert _remarks([9.0], initial_loss=0.693)[0]
  # Minibatches are noisy.
  assert not any(_remarks([0.7, 0.75, 0.69], initial_loss=0.693))


def test_without_that_loss_the_first_round_tells():
  assert _remarks([_NAN, 2.0, 3.9, 4.1])[3].startswith(
      'The training loss in round 4, 4.1, is above twice that of round 2, 2:'
  )
  assert not any(_remarks([2.0, 3.9, 1.0]))
  assert _remarks([2.0, math.inf])[1]


def test_later_rounds_are_no_warm_up():
  assert not any(_remarks([0.5] * 5 + [9.0], initial_loss=0.693))
  assert _remarks([0.5] * 4 + [9.0], initial_loss=0.693)[4]


def test_it_stands_below_the_progress():
  for terminal in (False, True):
    stream = io.StringIO()
    stream.isatty = lambda terminal=terminal: terminal
    with progress.Progress(
        10, 0, stream, remark=rate_check.RateCheck(1.0, 'lower it.')
    ) as shown:
      shown.round_done(1, 0.5, 4)
      shown.round_done(2, 2.0, 4)
    assert stream.getvalue().count('Tip: lower it.\n') == 1
