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


@pytest.mark.parametrize('part, known', [
    ('data', ()), ('update', (1,)), ('aggregator', ()),
    ('local_sgd', (1, 2, 3)), ('sgd_work', (1,)), ('is_reported', (1,)),
    ('prediction', (1,)),
])
def test_what_is_not_overridden_stays_what_it_is(part, known):
  value = object()
  with interception.changing(interception.Change()):
    assert interception.changed(part, value, *known) is value
