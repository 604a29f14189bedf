"""Ticks of rounds."""

import numpy as np
import pytest

from tff_pers.evaluation import figures


@pytest.mark.parametrize('rounds, ticks', [
    ([18], [18]), ([], []), ([55, 110], [55, 110]),
    (range(5, 45, 5), range(5, 45, 5)),
    ([5, 10, 15, 18], [5, 10, 15, 18]),
    # Many: round numbers that were evaluated.
    (range(1, 11), [2, 4, 6, 8, 10]),
    (range(1, 101), [20, 40, 60, 80, 100]),
    # No round number was.
    (range(7, 71, 7), [14, 28, 42, 56, 70]),
])
def test_ticks_are_evaluated_rounds(rounds, ticks):
  _, (axis,) = figures.new_figure(4, 3, 1)
  axis.plot(list(rounds), np.zeros(len(rounds)))
  before = axis.get_xlim()
  figures.tick_at(axis, list(rounds)[::-1])
  assert axis.get_xticks().tolist() == list(ticks)
  assert axis.get_xlim() == before
