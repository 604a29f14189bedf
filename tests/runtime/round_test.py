"""Accumulators of several workers are merged in a tree; no worker runs."""
# pylint: disable=protected-access

import threading

import pytest

from tff_pers.runtime.remote import levels
from tff_pers.runtime.remote import round as round_lib

_TURN = levels.Turn('merge', ['left', 'right'], ['partials/0'])


class _Session:
  """Merges texts: (a b). Pairs of one depth wait for each other."""

  def __init__(self, number, meeting):
    self._number = number
    self._meeting = meeting
    self.merges = []

  def create(self, value):
    return value

  def fetch(self, ref):
    return ref

  def call(self, function, arguments, num_results):
    assert function == 'merge' and num_results == 1
    self.merges.append(f'({" ".join(arguments)})')
    if len(self.merges) == 1 and self._number in (0, 2):
      self._meeting.wait(timeout=10)
    return self.merges[-1:]


@pytest.mark.parametrize(
    'count, expected, depth',
    [
        (1, 'a', 0),
        (4, '((a b) (c d))', 2),
        (5, '(((a b) (c d)) e)', 3),
        (7, '(((a b) (c d)) ((e f) g))', 3),
    ],
)
def test_neighbours_merge_at_the_same_time(count, expected, depth):
  """In the workers' order, whichever worker is the faster."""
  meeting = threading.Barrier(2)
  sessions = [_Session(i, meeting) for i in range(count)]
  cohort = round_lib._Round(None, None, sessions, None)
  for refs, letter in zip(cohort._refs, 'abcdefg'):
    refs['partials/0'] = letter
  cohort._merge(_TURN)
  assert cohort._refs[0]['partials/0'] == expected
  assert len(sessions[0].merges) == depth
