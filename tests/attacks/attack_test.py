"""Attacks by name and options."""

import pytest
import tensorflow as tf

from tff_pers import attacks


def test_names():
  assert attacks.names() == sorted([
      'none', 'bit_flip', 'sign_flip', 'label_flip', 'noise', 'alie', 'ipm',
      'mimic', 'mixed', 'adaptive', 'nan', 'inf', 'huge', 'silent',
  ])


@pytest.mark.parametrize(
    'text, attack',
    [
        ('none', attacks.Attack()),
        ('ipm', attacks.Ipm(eps=10.0)),
        ('ipm[eps=0.1]', attacks.Ipm(eps=0.1)),
        ('noise', attacks.Noise(std=0.0, scale=10.0)),
        ('noise[std=10]', attacks.Noise(std=10.0)),
        ('alie[z=auto]', attacks.Alie()),
        ('alie[z=-1.5]', attacks.Alie(z=-1.5)),
        ('mimic', attacks.Mimic(warmup=0)),
        ('mimic[warmup=5]', attacks.Mimic(warmup=5)),
        ('mixed[second=ipm[eps=2],share=.25]',
         attacks.Mixed(first='alie', second='ipm[eps=2]', share=0.25)),
    ],
)
def test_parse(text, attack):
  assert attacks.parse(text) == attack


@pytest.mark.parametrize(
    'text, message',
    [
        ('imp', "`attack` must be one of .*found 'imp'.*Tip: .*ipm"),
        ('ipm[eps=-1]', '`eps` must be a number > 0.0, found -1.0'),
        ('ipm[kappa=1]', "An option of the attack ipm must be one of: eps; found"
         " 'kappa'"),
        ('noise[std=1,scale=2]', '`scale` must be left at 10 unless std=0'),
        ('mimic[warmup=1.5]', '`warmup` must be an integer'),
        ('mixed[first=imp]', "`attack` must be one of .*found 'imp'"),
        ('mixed[share=1]', '`share` must be a number .* < 1.0, found 1.0'),
    ],
)
def test_parse_refuses(text, message):
  with pytest.raises(ValueError, match=message):
    attacks.parse(text)
  with pytest.raises(ValueError, match='`value`'):
    attacks.Huge(value=-1.0)


def test_huge_is_finite_in_float32():
  own = tf.zeros([2])
  sent = attacks.Huge().message(own, (), None, None)
  assert tf.reduce_all(tf.math.is_finite(sent)) and tf.reduce_min(sent) > 1e29
