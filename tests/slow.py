"""Parameters of tests that only the slow runs have."""

import pytest


def beyond(count: int, values) -> list:
  """Returns the values as parameters for pytest, those after `count` slow.

  For a test that takes seconds per value, where values are alike: each run of
  the tests has the first ones, the slow runs have all.
  """
  return [
      value if number < count
      else pytest.param(
          *(value if isinstance(value, tuple) else (value,)),
          marks=pytest.mark.slow,
      )
      for number, value in enumerate(values)
  ]
