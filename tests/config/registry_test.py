"""The one registry, of methods, tasks and partitions."""

import pytest

from tff_pers.config import registry


def _registry():
  made = registry.Registry('task')
  for name in ('digits', 'mnist', 'cifar10'):
    # What is decorated stays what it is.
    assert made.register(name, lambda build: (build, 'an entry'))(len) is len
  return made


def test_names_are_sorted_and_entries_found():
  made = _registry()
  assert made.names() == ['cifar10', 'digits', 'mnist']
  assert made.get('mnist') == (len, 'an entry')


@pytest.mark.parametrize(
    'name, tip',
    [('digit', ' Tip: digits?'), ('mnists', ' Tip: mnist?'), ('zebra', '')],
)
def test_raises_on_unknown_name(name, tip):
  with pytest.raises(ValueError) as error:
    _registry().get(name)
  assert str(error.value) == (
      f'`task` must be one of cifar10, digits, mnist, found {name!r}.{tip}'
  )


def test_raises_on_second_registration_and_keeps_the_first():
  made = _registry()
  with pytest.raises(ValueError, match='`name` must be new, found digits reg'):
    made.register('digits', lambda build: 'another')(max)
  assert made.get('digits') == (len, 'an entry')
