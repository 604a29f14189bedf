"""Rules by name."""

import pytest
import tensorflow as tf

from tff_pers.aggregators import robust
from tff_pers.core import random

TEXTS = (
    'mean', 'median', 'krum[f=2]', 'multi_krum[f=2,m=3]', 'trimmed_mean[f=1]',
    'geometric_median[passes=3]',
    'centered_clipping[radius=2.5]', 'bucketing(median)',
    'bucketing[s=3](krum)', 'nnm[f=4](trimmed_mean)',
    'norm_clipping[f=1,radius=arc](bucketing(median))',
)


@pytest.mark.parametrize('text', TEXTS)
def test_a_text_comes_back(text):
  rule = robust.parse(text)
  assert robust.as_text(rule) == text
  assert robust.parse(robust.as_text(rule)) == rule


def test_f_may_stand_anywhere_once():
  assert robust.parse('bucketing(krum[f=2])') == robust.parse(
      'bucketing[f=2](krum)'
  )
  for text in ('bucketing[f=1](krum[f=2])', 'bucketing[f=2](krum[f=1])'):
    with pytest.raises(ValueError, match='must be given once'):
      robust.parse(text)


@pytest.mark.parametrize('text, expected', [
    ('krum', 'krum[f=3]'), ('krum[f=1]', 'krum[f=1]'),
    ('nnm(bucketing(median))', 'nnm[f=3](bucketing(median))'),
])
def test_f_is_filled_in_where_it_is_not_given(text, expected):
  assert robust.with_num_byzantine(text, 3) == expected


@pytest.mark.parametrize('text, message', [
    ('krumm', 'aggregator'), ('krum(median)', 'no rule in it'),
    ('bucketing', 'a rule in it'), ('krum[m=2]', 'An option of krum'),
    ('norm_clipping[radius=-1]', '`radius`'), ('krum[f=-2]', '`f`'),
    ('geometric_median[sums=true]', 'An option of'), ('', 'a rule'),
])
def test_raises_on_a_wrong_text(text, message):
  with pytest.raises(ValueError, match=message):
    robust.parse(text)


def test_one_bucket_of_all_is_the_mean():
  """`Bucketing` hands means to its rule, however it draws."""
  x = tf.constant([[0.0], [0.0], [0.0], [0.0], [0.0], [30.0]])
  rule = robust.parse('bucketing[s=6](median)')
  assert rule(x, 0, random.key(3)) == 5.0


@pytest.mark.parametrize('text, number, message', [
    ('median', 0, 'found 0 clients'), ('median[f=5]', 10, 'less than half'),
    ('krum[f=2]', 6, r'n > 2 f \+ 2'), ('bucketing[f=2](median)', 7, 'buckets'),
])
def test_check_refuses_what_can_never_be(text, number, message):
  with pytest.raises(ValueError, match=message):
    robust.check(text, number)


@pytest.mark.parametrize('text, needs', [
    ('bucketing(median)', False), ('bucketing(krum)', True),
    ('norm_clipping(median)', False),
    ('norm_clipping[radius=arc](median)', True), ('nnm(median)', True),
])
def test_f_is_needed_where_a_part_needs_it(text, needs):
  assert robust.parse(text).needs_f == needs


def test_check_takes_the_least_number_of_clients():
  robust.check('krum[f=3]', 9)
  robust.check('median[f=4]', 9)


@pytest.mark.parametrize('text', ['krum', 'trimmed_mean', 'nnm(median)'])
def test_raises_without_an_f_that_is_needed(text):
  with pytest.raises(ValueError, match='must be told how many'):
    robust.build_factory(text)


def test_who_draws():
  assert robust.parse('norm_clipping(bucketing(median))').is_random
  assert not robust.parse('nnm[f=1](median)').is_random
