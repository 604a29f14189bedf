"""Tests of the bracket syntax of flags."""

import dataclasses

import hypothesis
from hypothesis import strategies as st
import pytest

from tff_pers.config import hyperparameters as hp
from tff_pers.data import brackets


@dataclasses.dataclass(frozen=True)
class _Options:
  alpha: float = hp.field(0.5, 'A number.', above=0.0)
  lambda_: float = hp.field(1.0, 'A reserved name.')
  count: int = hp.field(2, 'An integer.', minimum=1)
  order: str = hp.field('sorted', 'A choice.', choices=('sorted', 'random'))


@pytest.mark.parametrize(
    'text,expected',
    [
        ('iid', ('iid', {})),
        ('iid[]', ('iid', {})),
        (' a [ b = 1 , c=x ] ', ('a', {'b': '1', 'c': 'x'})),
        (
            'dirichlet[alpha=0.5,min=40]',
            ('dirichlet', {'alpha': '0.5', 'min': '40'}),
        ),
        (
            'ffgg[rule=nnm[f=2,g=3],eps=1]',
            ('ffgg', {'rule': 'nnm[f=2,g=3]', 'eps': '1'}),
        ),
    ],
)
def test_parse(text, expected):
  assert brackets.parse(text) == expected


@pytest.mark.parametrize(
    'text',
    ['', '[a=1]', 'a[b=1', 'a[b]', 'a[=1]', 'a[b=]', 'a[b=1]c', 'a]', 'a,b'],
)
def test_raises_on_malformed_name(text):
  with pytest.raises(ValueError, match='must be of the form'):
    brackets.parse(text)


def test_raises_on_option_given_twice():
  with pytest.raises(ValueError, match='`b` must be given once'):
    brackets.parse('a[b=1,b=2]')


def test_split_list_keeps_commas_inside_brackets():
  assert brackets.split_list('a, b[c=1,d=2],e[f=g[h=1,i=2]]') == [
      'a', 'b[c=1,d=2]', 'e[f=g[h=1,i=2]]',
  ]
  assert not brackets.split_list('')


@pytest.mark.parametrize(
    'text,message',
    [('a[b', 'balanced'), ('a]b', 'balanced'), ('a,,b', 'no empty item')],
)
def test_raises_on_bad_list(text, message):
  with pytest.raises(ValueError, match=message):
    brackets.split_list(text)


_NAMES = st.text('abcxyz_', min_size=1, max_size=5)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=50)
@hypothesis.given(
    st.lists(
        st.tuples(_NAMES, st.dictionaries(_NAMES, _NAMES, max_size=3)),
        max_size=4,
    )
)
def test_list_of_written_names_reads_back(items):
  texts = [
      f"{name}[{','.join(f'{k}={v}' for k, v in options.items())}]"
      for name, options in items
  ]
  read = [brackets.parse(t) for t in brackets.split_list(','.join(texts))]
  assert read == items


def test_fill_sets_typed_values():
  given = {'alpha': '2', 'lambda': '0.25', 'count': '3', 'order': 'random'}
  filled = brackets.fill(_Options(), given, 'x')
  assert filled == _Options(2.0, 0.25, 3, 'random')
  assert isinstance(filled.alpha, float)


@pytest.mark.parametrize(
    'given,message',
    [
        (
            {'beta': '1'},
            r'option of partition x must be one of: alpha, count, lambda,'
            r" order; found 'beta'",
        ),
        ({'alpha': '0'}, '`alpha` must be a number > 0.0, found 0.0'),
        ({'count': '1.5'}, '`count` must be an integer >= 1'),
        ({'order': 'up'}, '`order` must be one of sorted, random'),
    ],
)
def test_raises_on_bad_option(given, message):
  with pytest.raises(ValueError, match=message):
    brackets.fill(_Options(), given, 'partition x')
