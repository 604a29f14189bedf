"""Models of several sizes, one for each tier of devices."""

import functools
import math
from typing import Any, Callable, Sequence

import tensorflow as tf


def switch(
    ratios: Sequence[float], tier: tf.Tensor, of_tier: Callable[[int], Any]
) -> Any:
  """Returns `of_tier(tier)`, in which shapes are known, for a tensor `tier`.

  Equal ratios share one branch. The structure that `of_tier` returns is the
  same for every tier up to shapes.
  """
  numbers: dict[float, int] = {}
  for number, ratio in enumerate(ratios):
    numbers.setdefault(ratio, number)
  branches = [functools.partial(of_tier, k) for k in numbers.values()]
  if len(branches) == 1:
    return branches[0]()
  order = list(numbers)
  table = tf.constant([order.index(ratio) for ratio in ratios])
  # An integer switch, because TensorFlow's optimizer takes a shape that is set
  # in one branch of a condition to hold outside of it, too.
  return tf.switch_case(tf.gather(table, tier), branches)


def some_tier(key: tf.Tensor) -> tf.Tensor:
  """Returns the number 0, an int32 scalar that graphs do not know to be 0.

  The result of `switch` for it has the type of all tiers. The key is any
  int64[2].
  """
  return tf.cast(0 * key[0], tf.int32)


def parse_ratios(text: str, of_task: Sequence[float]) -> tuple[float, ...]:
  """Returns the ratio of every tier.

  `text` is all: the ratios of the task (`Task.rank_ratios`); all_smallest: the
  same number of tiers with the smallest ratio; or numbers with colons between
  them.

  Raises:
    ValueError: If `text` is not a list of ratios in (0, 1].
  """
  if text == 'all':
    return tuple(of_task)
  if text == 'all_smallest':
    return (min(of_task),) * len(of_task)
  try:
    found = [float(item) for item in text.split(':')]
  except ValueError:
    found = [math.nan]
  if not all(0 < ratio <= 1 for ratio in found):
    raise ValueError(
        '`tiers` must be all, all_smallest, or numbers in (0, 1] with colons'
        f' between them, found {text!r}.'
    )
  return tuple(found)
