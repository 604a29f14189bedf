"""Hyperparameters that traced graphs read as inputs, so that trials share them.

A rate is usually a constant of the graphs of a method, and another value means
building and tracing the method again. A `NumberInput` takes the place of the
number while a method is built. Converted to a tensor it is an input of the
graph. Wherever Python needs the number itself, for a comparison or a quotient,
the input becomes `fixed`: what was built is right for this value alone.

Bits are those of a constant, except that TensorFlow divides by a constant, and
raises to its power, in another way: use `float` for divisors and exponents.
"""

import itertools
import numbers
from typing import Any, Callable, Sequence
import weakref


class NumberInput:
  """A number other than 0 that graphs may read as an input.

  Attributes:
    value: The number that graphs read at present.
    factors: The inputs and numbers that it is the product of, if it is one.
    fixed: Whether Python has used the number.
    is_first: Whether it has always been the first number.
    key: Tells inputs of this process apart.
    readers: Functions by name that are called with every new number.
  """

  def __init__(self, value: float, factors: Sequence[Any] = ()):
    self.value, self.factors = value, factors
    self.fixed, self.is_first = False, True
    self.key = next(_keys)
    self.readers: dict[str, Callable[[float], None]] = {}
    known[self.key] = self

  @property
  def sources(self) -> list['NumberInput']:
    """The factors that are inputs."""
    return [f for f in self.factors if isinstance(f, NumberInput)]

  def assign(self, value: float) -> None:
    """Sets the number that graphs read from now on, not 0."""
    self.is_first = self.is_first and value == self.value
    self.value = value
    for read in self.readers.values():
      read(value)

  def fix(self) -> float:
    """Returns the number, which must not change from now on."""
    self.fixed = True
    for source in self.sources:
      source.fix()
    return self.value

  def __float__(self):
    return self.fix()

  def __mul__(self, other):
    """Returns the product with a number or an input, an input as well."""
    if not isinstance(other, numbers.Real):
      return NotImplemented  # A tensor's method converts the input.
    if not other:
      return float(self) * other
    compute = lambda: self.value * plain(other)
    product = NumberInput(compute(), (self, other))
    for factor in product.sources:
      factor.readers[f'product {product.key}'] = (
          lambda _: product.assign(compute())
      )
    return product

  __rmul__ = __mul__

  def __bool__(self):
    return True  # Whatever the value is; this does not fix it.

  def __eq__(self, other):
    return False if isinstance(other, str) else float(self) == other

  def __hash__(self):
    return hash(float(self))

  def __copy__(self):
    return self  # Copies of hyperparameters share it.

  def __deepcopy__(self, memo):
    return self

  def __reduce__(self):
    return float, (float(self),)

  def __array__(self, dtype=None):
    import numpy as np  # `--help` does without it.
    return np.array(float(self), dtype)

  def __repr__(self):
    return repr(float(self))

  def __format__(self, spec):
    return format(float(self), spec)


# By key. Who builds with an input keeps it for as long as what was built.
known: 'weakref.WeakValueDictionary[int, NumberInput]' = (
    weakref.WeakValueDictionary()
)
_keys = itertools.count()


def plain(value: Any) -> Any:
  """Returns the value of an input without fixing it, others unchanged."""
  return value.value if isinstance(value, NumberInput) else value


def _of_python(name: str):
  """Returns the method `name` of the number itself."""

  def method(self, *others):
    if not all(isinstance(other, numbers.Real) for other in others):
      return NotImplemented
    return getattr(float(self), name)(*(
        float(x) if isinstance(x, NumberInput) else x for x in others
    ))

  return method


for _name in (
    'abs', 'add', 'ceil', 'floor', 'floordiv', 'ge', 'gt', 'int', 'le', 'lt',
    'mod', 'neg', 'pos', 'pow', 'radd', 'rfloordiv', 'rmod', 'round', 'rpow',
    'rsub', 'rtruediv', 'sub', 'truediv', 'trunc',
):
  setattr(NumberInput, f'__{_name}__', _of_python(f'__{_name}__'))
numbers.Real.register(NumberInput)
