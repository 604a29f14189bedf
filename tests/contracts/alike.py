"""Methods whose contracts are tested in the slow runs alone."""

import pytest

# Made of the same parts as `local_update`, `ffgg` and `fedbuff`, which every
# run has; the slow runs have these, too.
ALIKE = (
    'async_ffgg', 'fedasync', 'fedsgd', 'fomaml', 'lookahead', 'minibatch_sgd',
    'reptile',
)


def slow_if_alike(names) -> list:
  """Returns the names as parameters for pytest, those in `ALIKE` slow."""
  return [
      pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE))
      for name in names
  ]
