"""Changes of what is built: who makes them, in which order, how long."""

import pytest

from tff_pers.core import interception


class _Adding(interception.Change):

  def __init__(self, letter):
    self._letter = letter

  def update(self, update, data):
    return update + self._letter + data


def test_inner_changes_come_first_and_end_with_their_scope():
  found = lambda: interception.changed('update', 'x', '!')
  with interception.changing(_Adding('a')):
    with interception.changing(_Adding('b')):
      assert found() == 'xb!a!'
    assert found() == 'xa!'
    with pytest.raises(KeyError):
      with interception.changing(_Adding('c')):
        raise KeyError
    assert found() == 'xa!'
  assert found() == 'x'
