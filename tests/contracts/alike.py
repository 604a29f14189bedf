"""Methods whose contracts are tested in the slow runs alone."""

import pytest

# Made of the same parts as `local_update`, `ffgg`, `fedbuff`, `fedavgm`,
# `fedrolex` and `perm`, which every run has; the slow runs have these, too.
ALIKE = (
    'async_ffgg', 'fedadagrad', 'fedadam', 'fedasync', 'fedsgd', 'fedyogi',
    'fomaml', 'heterofl', 'lookahead', 'minibatch_sgd', 'reptile',
    'uniform_shuffling',
)


def slow_if_alike(names) -> list:
  """Returns the names as parameters for pytest, those in `ALIKE` slow."""
  return [
      pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE))
      for name in names
  ]
