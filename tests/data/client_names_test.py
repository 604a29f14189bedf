"""Names of clients survive flags and file names."""

import hypothesis
from hypothesis import strategies
import pytest

from tff_pers.data import client_names
from tff_pers.data import errors

_NAMES = strategies.text(
    strategies.characters(blacklist_categories=('Cs', 'Cc')), min_size=1,
    max_size=100,
)


@pytest.mark.parametrize('name', ['', ' a', 'a ', 'a\nb', 'a\x00', 'a\tb'])
def test_raises_on_names_that_cannot_be_shown(name):
  with pytest.raises(errors.DataError, match='my.npz: names of clients must'):
    client_names.check(['bob', name], 'my.npz')


def test_names_of_any_language_and_numbers_are_fine():
  client_names.check([14, 'a b', 'Zoë', '王', 'x, y', '"', "'", '/'], 'my.npz')


@pytest.mark.parametrize('text, names', [
    ('', []),
    ('3,17', ['3', '17']),
    ('alice, bob', ['alice', 'bob']),
    ('alice,,', ['alice']),
    ('"x, y",17', ['x, y', '17']),
    ('"say ""hi""",a/b', ['say "hi"', 'a/b']),
    ("it's,a", ["it's", 'a']),
    ('a\nb', ['a b']),
])
def test_lists_of_names_are_as_in_csv_files(text, names):
  assert client_names.parse(text) == names
  assert client_names.parse(client_names.listed(names)) == names


def test_plain_names_are_file_names():
  names = [14, 'alice', 'Zoë', 'A.b_c-d']
  assert client_names.file_names(names) == ['14', 'alice', 'Zoë', 'A.b_c-d']


def test_names_that_would_share_a_file_get_their_position():
  names = ['a/b', 'a%2Fb', 'Bob', 'bob', 'x' * 61, 'x' * 62, 'x~4']
  assert client_names.file_names(names) == [
      'a%2Fb', 'a%252Fb', 'Bob~2', 'bob~3', 'x' * 60 + '~4', 'x' * 60 + '~5',
      'x%7E4',
  ]


@hypothesis.settings(derandomize=True, deadline=None, max_examples=200)
@hypothesis.given(names=strategies.lists(_NAMES, unique=True))
def test_file_names_are_safe_and_distinct(names):
  files = client_names.file_names(names)
  assert len({name.casefold() for name in files}) == len(names)
  for name in files:
    assert not set(name) & set('/\\:*?"<>| ') and name.isprintable()
    assert len(f'client_{name}.npz'.encode()) <= 255
