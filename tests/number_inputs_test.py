"""`number_inputs`: what Python code may do to a number, and what fixes it."""

import copy
import math
import numbers
import operator
import pickle

import numpy as np
import pytest

from tff_pers.config import hyperparameters as hp
from tff_pers import number_inputs


@pytest.mark.parametrize('use', [
    float, int, round, hash, repr, math.log, math.floor, abs, np.float32,
    np.asarray, np.sqrt, lambda x: -x, lambda x: x + 1, lambda x: 1 - x,
    lambda x: x / 4, lambda x: 4 / x, lambda x: x ** 2, lambda x: x > 1,
    lambda x: 1 <= x, lambda x: x == 0.5, lambda x: x != 0.5, lambda x: min(x, 1),
    lambda x: x * np.ones(2), lambda x: f'{x:.2f}', lambda x: x * 0,
    lambda x: pickle.loads(pickle.dumps(x)),
])
def test_what_python_computes_is_of_the_number_and_fixes_it(use):
  number = number_inputs.NumberInput(0.5)
  np.testing.assert_equal(use(number), use(0.5))
  assert number.fixed


@pytest.mark.parametrize('use', [
    bool, copy.copy, copy.deepcopy, number_inputs.plain, lambda x: x == 'auto',
    lambda x: x != 'auto', lambda x: isinstance(x, numbers.Real),
    lambda x: x * 3, lambda x: 3 * x, lambda x: x or 1.0,
    lambda x: hp.validate(hp.LocalTraining(learning_rate=x)),
])
def test_what_depends_on_no_number_leaves_it_free(use):
  number = number_inputs.NumberInput(0.5)
  use(number)
  assert not number.fixed


@pytest.mark.parametrize('use', [
    operator.add, operator.sub, operator.truediv, operator.pow, operator.lt,
    operator.eq, max,
])
def test_what_python_computes_of_two_fixes_both(use):
  pair = [number_inputs.NumberInput(value) for value in (0.5, 3.0)]
  assert use(*pair) == use(0.5, 3.0)
  assert all(number.fixed for number in pair)


def test_a_product_follows_its_factors_and_fixes_them():
  number, other = (number_inputs.NumberInput(x) for x in (0.5, 3.0))
  product = number * (2 * other)
  assert product.value == 3.0
  other.assign(5.0)
  assert product.value == 5.0
  number.assign(0.25)
  assert product.value == 2.5
  assert not number.fixed and not other.fixed
  assert product > 2
  assert number.fixed and other.fixed


def test_hyperparameters_are_checked_by_their_numbers():
  with pytest.raises(ValueError, match='`learning_rate` must be a number > 0'):
    hp.LocalTraining(learning_rate=number_inputs.NumberInput(-0.5))
